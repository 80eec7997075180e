"""How each part of a local stack is started, and when it is up. One function per kind of part.

A part is started from its record alone (argv, environment, folder), so any process can start it again. It is *up* when
it does its work, not when it has a port: the master is elected, a worker is registered, the broker passes a record on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.process import base_environment, spawn, tail
from tidemark.stack import archives, settings
from tidemark.stack.ports import LOOPBACK, listens
from tidemark.stack.state import TOKEN_VARIABLE, PartRecord, StackRecord, StateFolder
from tidemark.wait import wait_until

UP_S = 90.0
"""Calibration: 2 to 8 s on two free cores; a machine that runs a test suite besides takes four times that."""
_CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def broker(state: StateFolder, record: StackRecord) -> PartRecord:
    """Kafka: broker and controller in one process. Its data folder must have been formatted."""
    folder = state.path / "broker"
    options = [*settings.DAEMON_JVM, *archives.options(state, record, "broker", "broker")]
    argv = [
        record.java,
        *settings.BROKER_HEAP,
        *options,
        f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
    ]
    argv += ["-cp", archives.class_path(record, "broker"), "kafka.Kafka", str(folder / "server.properties")]
    address = f"{LOOPBACK}:{record.kafka_port}"
    return PartRecord(kind="broker", argv=argv, address=address, **_place(state, record, "broker"))


def master(state: StateFolder, record: StackRecord) -> PartRecord:
    """The Spark master."""
    conf = settings.master_conf(state.path / "master" / "recovery")
    argv = [record.java, *settings.DAEMON_HEAP, *settings.DAEMON_JVM, *settings.as_java_properties(conf)]
    argv += [*_spark_options(state, record, "master"), "org.apache.spark.deploy.master.Master"]
    argv += ["--host", LOOPBACK, "--port", str(record.master_port), "--webui-port", "0"]
    return PartRecord(
        kind="master", argv=argv, address=_master_url(record), **_place(state, record, "master")
    )


def worker(state: StateFolder, record: StackRecord, number: int) -> PartRecord:
    """A Spark worker. Its executors run below its folder: ``worker-1/APPLICATION/EXECUTOR``."""
    name = f"worker-{number}"
    port = record.worker_ports[number - 1]
    conf = settings.as_java_properties(settings.worker_conf())
    argv = [record.java, *settings.DAEMON_HEAP, *settings.DAEMON_JVM, *conf]
    argv += [*_spark_options(state, record, name), "org.apache.spark.deploy.worker.Worker"]
    argv += ["--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
    argv += ["--cores", str(settings.WORKER_CORES), "--memory", settings.WORKER_MEMORY]
    argv += ["--work-dir", str(state.path / name), _master_url(record)]
    return PartRecord(kind="worker", argv=argv, address=f"{LOOPBACK}:{port}", **_place(state, record, name))


def driver(
    state: StateFolder, record: StackRecord, name: str, port: int, conf: Mapping[str, str]
) -> PartRecord:
    """A Spark Connect server, submitted to the master."""
    folder, event_logs = state.path / name, state.path / "event-logs" / name
    for path in (folder, event_logs):
        path.mkdir(parents=True, exist_ok=True)
    executor_jvm = [
        "-Xms96m",
        *settings.DRIVER_JVM,
        *archives.options(state, record, "spark", f"{name}-{{{{EXECUTOR_ID}}}}"),
        f"-Djava.io.tmpdir={state.path / 'tmp'}",
    ]
    own = {
        **settings.checkpoint_conf(Path(record.spark_home)),
        "spark.cores.max": str(executors_of_a_driver(record)),
        "spark.executor.extraJavaOptions": " ".join(f'"{option}"' for option in executor_jvm),
    }
    jars = [Path(jar) for jar in record.connector_jars]
    whole = {**settings.driver_conf(folder, event_logs, port, jars), **own, **conf}
    properties = folder / "spark.properties"
    properties.write_text(settings.as_spark_file(whole), encoding="utf-8")
    argv = [record.java, *settings.DRIVER_HEAP, *settings.DRIVER_JVM]
    argv += [*_spark_options(state, record, name), "org.apache.spark.deploy.SparkSubmit"]
    argv += ["--master", _master_url(record), "--properties-file", str(properties)]
    argv += ["--class", _CONNECT_SERVER, "spark-internal"]
    address = f"sc://{LOOPBACK}:{port}"
    return PartRecord(kind="driver", argv=argv, address=address, **_place(state, record, name))


def executors_of_a_driver(record: StackRecord) -> int:
    """How many executors a driver has: one on each worker, at least two."""
    return max(record.workers, settings.EXECUTORS_PER_DRIVER)


def launch(state: StateFolder, part: PartRecord) -> PartRecord:
    """Start a part's process and note which it is; its log goes on in the same file."""
    log = Path(part.log)
    part.log_start = log.stat().st_size if log.exists() else 0
    Path(part.cwd).mkdir(parents=True, exist_ok=True)
    part.process = spawn(part.argv, log=log, cwd=Path(part.cwd), env=part.env)
    state.write_part(part)
    return part


def must_live(part: PartRecord) -> None:
    """Raise ``DaemonDied``, with the last lines of its log, if a part that was started is gone."""
    if part.process is None or not part.process.alive:
        raise DaemonDied(
            f"the {part.name} died while it started",
            detail=f"the end of {part.log}:\n{tail(Path(part.log), 15, start=part.log_start) or '(empty)'}",
            hint="`tidemark doctor` looks at Java, memory, disk and ports",
        )


def await_log(part: PartRecord, *texts: str, timeout_s: float = UP_S) -> None:
    """Wait until a part has logged one of ``texts`` since it was started."""
    log = Path(part.log)

    def said() -> bool:
        with log.open("rb") as file:
            file.seek(part.log_start)
            said_so_far = file.read()
        return any(text.encode() in said_so_far for text in texts)

    _await(part, said, f"to log {' or '.join(map(repr, texts))}", timeout_s)


def port_of(part: PartRecord) -> int:
    """The port of a part's address."""
    return int(part.address.rsplit(":", 1)[1])


def await_port(part: PartRecord, timeout_s: float = UP_S) -> None:
    """Wait until a part accepts connections at its address; raises ``DaemonDied`` if somebody else does.

    A driver that cannot have its port does not end by itself.
    """
    port = port_of(part)
    _await(part, lambda: listens(port), f"to listen at {part.address}", timeout_s)
    process = part.process.process() if part.process is not None else None
    if process is None or port not in {at.laddr.port for at in process.net_connections("tcp") if at.laddr}:
        raise DaemonDied(
            f"the {part.name} did not get its port",
            detail=f"another program listens at {part.address}",
            hint="try again: another port is chosen",
        )


def await_master(part: PartRecord) -> None:
    """Wait until the master is elected and, after a restart, knows its workers and applications again.

    A worker that asks sooner is ignored, and asks again only after seconds.
    """
    await_log(part, "New state: ALIVE", "resuming operations")


def await_worker(part: PartRecord) -> None:
    """Wait until the master has accepted a worker."""
    await_log(part, "Successfully registered with master")


def _await(part: PartRecord, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    try:
        wait_until(condition, timeout_s, lambda: f"the {part.name} {what}", unless=lambda: must_live(part))
    except DeadlineExceeded as error:
        error.detail = f"the end of {part.log}:\n{tail(Path(part.log), 15, start=part.log_start)}"
        error.hint = "end other programs if the machine is busy; `tidemark doctor` looks at the rest"
        raise


def _spark_options(state: StateFolder, record: StackRecord, name: str) -> list[str]:
    """Class path and JVM options that all of Spark's JVMs have, as Spark's own launcher would give them."""
    archive = archives.options(state, record, "spark", name)
    temporary = f"-Djava.io.tmpdir={state.path / 'tmp'}"
    return [*settings.SPARK_MODULES, temporary, *archive, "-cp", archives.class_path(record, "spark")]


def _master_url(record: StackRecord) -> str:
    return f"spark://{LOOPBACK}:{record.master_port}"


def _place(state: StateFolder, record: StackRecord, name: str) -> dict[str, Any]:
    """What a part's record says beside what it does: name, environment, folder, log."""
    java_home = Path(os.path.realpath(record.java)).parents[1]
    env = base_environment(
        **{TOKEN_VARIABLE: state.token() or ""},
        JAVA_HOME=str(java_home),
        SPARK_HOME=record.spark_home,
        SPARK_LOCAL_IP=LOOPBACK,
        SPARK_LOCAL_DIRS=str(state.path / "tmp"),
        SPARK_SCALA_VERSION="2.13",
        PYSPARK_PYTHON=record.python,
        PYSPARK_DRIVER_PYTHON=record.python,
    )
    log = state.path / "logs" / f"{name}.log"
    return {"name": name, "env": env, "cwd": str(state.path / name), "log": str(log)}
