"""The launch spec of each component: command line, environment, folder, address. One function per kind of component.

Starts nothing: each function returns a :class:`ComponentRecord`, from which any process can start the component. Local
processes share the loopback address and have ports of their own. Containers have host names of their own and the usual
ports; only those of Kafka, of Spark Connect and of the proxy's API are published on this machine's loopback address.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidemark.processes import base_environment
from tidemark.sink.task.held_steps import FOLDER_VARIABLE
from tidemark.stack.api import PROXY, REGISTRY, SINK_STEPS_FOLDER, ComponentKind
from tidemark.stack.components import cds, kafka_security, kafka_settings, spark_settings
from tidemark.stack.components.names import broker_names, host_name
from tidemark.stack.components.ports import LOOPBACK
from tidemark.stack.registry import TOKEN_VARIABLE, ComponentRecord, StackRecord, StateFolder

EVERYWHERE = "0.0.0.0"
"""The listen address in a container; outside its network only published ports are reachable."""
INSIDE_PORT = 9092
"""Kafka's port for driver and executors in containers."""
BETWEEN_PORT = 9094
"""The brokers' port for each other in containers, where clients have to log in."""
REGISTRY_PATH = "/apis/ccompat/v7"
"""Where the schema registry has the API of Confluent's."""
_CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STORAGE_TOOL = "kafka.tools.StorageTool"
_CLUSTER_ID = "dGlkZW1hcmstY2x1c3Rlcg"


def bootstrap_inside(record: StackRecord) -> str:
    """Kafka's address as driver and executors see it."""
    network = _broker_network(record)
    return ",".join(network.inside or network.host)


def bootstrap_proxied(record: StackRecord) -> str:
    """Kafka's address through the network proxy, as driver and executors see it; empty where there can be none."""
    return ",".join(_broker_network(record).proxied)


def admin_servers(record: StackRecord) -> str:
    """The address of the brokers' listener for each other, where clients have to log in."""
    return ",".join(_broker_network(record).admin)


def bootstrap_servers(record: StackRecord) -> str:
    """Kafka's address as this machine sees it."""
    return ",".join(_broker_network(record).host)


def broker(state: StateFolder, record: StackRecord, node: int) -> ComponentRecord:
    """A Kafka broker and controller in one process; writes its configuration files."""
    name = broker_names(node)[-1]
    folder = state.path / name
    folder.mkdir(exist_ok=True)
    network = _broker_network(record)
    if record.kafka_security:
        network = replace(
            network,
            security=kafka_security.listener_settings(
                record.kafka_security,
                state.path,
                in_containers=_in_containers(record),
                proxied=bool(network.proxied),
            ),
        )
    properties = kafka_settings.broker_properties(node, folder / "data", network)
    (folder / "server.properties").write_text(properties, encoding="utf-8")
    options = [*spark_settings.DAEMON_JVM, *cds.options(state, record, "broker", name)]
    argv = [
        record.java,
        *kafka_settings.BROKER_HEAP,
        *options,
        _broker_logging(record, folder),
        "-cp",
        cds.class_path(record, "broker"),
    ]
    argv += ["kafka.Kafka", str(folder / "server.properties")]
    address = f"{LOOPBACK}:{record.kafka_ports[node - 1]}"
    before = _format_broker(record, folder)
    return ComponentRecord(
        kind=ComponentKind.BROKER,
        argv=argv,
        address=address,
        before=before,
        **_common_fields(state, record, name),
    )


def _broker_logging(record: StackRecord, folder: Path) -> str:
    """Write how a broker logs; the JVM option that names the file. Kafka before 4.0 has another logging library."""
    before_4 = record.versions.get("kafka", "").startswith("3.")
    name = "log4j.properties" if before_4 else "log4j2.properties"
    text = kafka_settings.LOG4J_BEFORE_4 if before_4 else kafka_settings.BROKER_LOG4J
    (folder / name).write_text(text, encoding="utf-8")
    return (
        f"-Dlog4j.configuration=file:{folder}/{name}"
        if before_4
        else f"-Dlog4j2.configurationFile={folder}/{name}"
    )


def master(state: StateFolder, record: StackRecord) -> ComponentRecord:
    """The Spark master."""
    conf = spark_settings.master_conf(state.path / "master" / "recovery")
    argv = [
        record.java,
        *spark_settings.DAEMON_HEAP,
        *spark_settings.DAEMON_JVM,
        *spark_settings.as_java_properties(conf),
    ]
    argv += [*_spark_options(state, record, "master"), "org.apache.spark.deploy.master.Master"]
    argv += ["--host", _host(record, "master"), "--port", str(record.master_port), "--webui-port", "0"]
    return ComponentRecord(
        kind=ComponentKind.MASTER,
        argv=argv,
        address=_master_url(record),
        **_common_fields(state, record, "master"),
    )


def worker(state: StateFolder, record: StackRecord, number: int) -> ComponentRecord:
    """A Spark worker. Its executors run below its folder: ``worker-1/APPLICATION/EXECUTOR``."""
    name = f"worker-{number}"
    host, port = _host(record, name), record.worker_ports[number - 1]
    conf = spark_settings.as_java_properties(spark_settings.worker_conf())
    argv = [record.java, *spark_settings.DAEMON_HEAP, *spark_settings.DAEMON_JVM, *conf]
    argv += [*_spark_options(state, record, name), "org.apache.spark.deploy.worker.Worker"]
    argv += ["--host", host, "--port", str(port), "--webui-port", "0"]
    argv += ["--cores", str(spark_settings.WORKER_CORES), "--memory", spark_settings.WORKER_MEMORY]
    argv += ["--work-dir", str(state.path / name), _master_url(record)]
    fields = _common_fields(state, record, name)
    fields["env"][FOLDER_VARIABLE] = str(state.path / "work" / SINK_STEPS_FOLDER)  # executors inherit it
    return ComponentRecord(kind=ComponentKind.WORKER, argv=argv, address=f"{host}:{port}", **fields)


def driver(
    state: StateFolder, record: StackRecord, name: str, port: int, conf: Mapping[str, str]
) -> ComponentRecord:
    """A Spark Connect server, submitted to the master."""
    folder, event_logs = state.path / name, state.path / "event-logs" / name
    for path in (folder, event_logs):
        path.mkdir(parents=True, exist_ok=True)
    home, archive = (
        _home_without_python(state),
        cds.options(state, record, "spark", f"{name}-{{{{EXECUTOR_ID}}}}"),
    )
    own = {
        **spark_settings.driver_network(_host(record, name), _bind(record), port),
        "spark.executor.extraClassPath": ":".join(record.spark_jars),
        "spark.executorEnv.SPARK_HOME": home,
        "spark.cores.max": str(executors_of_a_driver(record)),
        "spark.executor.extraJavaOptions": _executor_jvm(state, archive),
    }
    files = spark_settings.local_files(record.versions["spark"])
    whole = {**spark_settings.driver_conf(folder, event_logs), **files, **own, **conf}
    properties = folder / "spark.properties"
    properties.write_text(spark_settings.as_spark_file(whole), encoding="utf-8")
    argv = [record.java, *spark_settings.DRIVER_HEAP, *spark_settings.DRIVER_JVM]
    argv += [*_spark_options(state, record, name), "org.apache.spark.deploy.SparkSubmit"]
    argv += ["--master", _master_url(record), "--properties-file", str(properties)]
    argv += ["--class", _CONNECT_SERVER, "spark-internal"]
    address = f"sc://{LOOPBACK}:{port}"
    fields = _common_fields(state, record, name)
    fields["env"]["SPARK_HOME"] = home
    return ComponentRecord(kind=ComponentKind.DRIVER, argv=argv, address=address, **fields)


def registry(state: StateFolder, record: StackRecord, jar: Path) -> ComponentRecord:
    """The schema registry: its storage is in memory, and its address the one for Confluent's clients."""
    port = record.registry_ports[1]
    settings = {
        "quarkus.http.host": LOOPBACK,
        "quarkus.http.port": str(port),
        "apicurio.import.work-dir": str(state.path / "tmp"),
        "java.io.tmpdir": str(state.path / "tmp"),
        "user.timezone": "UTC",
    }
    argv = [record.java, *spark_settings.REGISTRY_HEAP, *spark_settings.DAEMON_JVM]
    argv += [*spark_settings.as_java_properties(settings), "-jar", str(jar)]
    return ComponentRecord(
        kind=ComponentKind.REGISTRY,
        argv=argv,
        address=_registry_url(port),
        **_common_fields(state, record, REGISTRY),
    )


def proxied_registry(record: StackRecord) -> str:
    """The address of the schema registry through the network proxy; empty where there can be none."""
    return _registry_url(record.registry_ports[0]) if record.registry_ports else ""


def _registry_url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}{REGISTRY_PATH}"


def proxy(state: StateFolder, record: StackRecord, program: Path, port: int) -> ComponentRecord:
    """The network proxy, a link for each broker and one for a schema registry; writes its configuration.

    In a container it runs a copy of the program.
    """
    fields = _common_fields(state, record, PROXY)
    folder = Path(fields["cwd"])
    folder.mkdir(exist_ok=True)
    if _in_containers(record):
        program = Path(shutil.copy2(program, folder))
    links: list[tuple[str, int, int]] = [
        *zip(broker_names(len(record.kafka_ports)), record.proxy_ports, record.proxied_ports, strict=True),
        *([(REGISTRY, record.registry_ports[0], record.registry_ports[1])] if record.registry_ports else []),
    ]
    config = [
        {
            "name": name,
            "listen": f"{_bind(record)}:{own}",
            "upstream": f"{_host(record, name)}:{behind}",
            "enabled": True,
        }
        for name, own, behind in links
    ]
    (folder / "proxies.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    argv = [str(program), "-api", f"{_bind(record)}:{port}", "-config", str(folder / "proxies.json")]
    return ComponentRecord(kind=ComponentKind.PROXY, argv=argv, address=f"http://{LOOPBACK}:{port}", **fields)


def app(
    state: StateFolder, record: StackRecord, name: str, argv: Sequence[str], env: Mapping[str, str]
) -> ComponentRecord:
    """A user's job: its settings are defaults (``spark-defaults.conf``), which it may override."""
    folder, event_logs = state.path / name, state.path / "event-logs" / name
    for path in (folder, event_logs):
        path.mkdir(parents=True, exist_ok=True)
    jars, archive = ":".join(record.spark_jars), cds.options_of_the_archive(record, "spark")
    conf = {
        **spark_settings.driver_conf(folder, event_logs),
        **spark_settings.local_files(record.versions["spark"]),
        "spark.master": _master_url(record),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.executorEnv.SPARK_HOME": _home_without_python(state),
        "spark.executorEnv.PYTHONPATH": env.get("PYTHONPATH", ""),  # as where the job's package is installed
        "spark.cores.max": str(executors_of_a_driver(record)),
        "spark.driver.extraJavaOptions": _as_one_setting([*spark_settings.DRIVER_JVM, *archive]),
        "spark.executor.extraJavaOptions": _executor_jvm(state, archive),
    }
    (folder / "spark-defaults.conf").write_text(spark_settings.as_spark_file(conf), encoding="utf-8")
    own = _common_fields(state, record, name)["env"]
    kept = (TOKEN_VARIABLE, "JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")
    whole = {**env, **{key: own[key] for key in kept if key in own}, "SPARK_CONF_DIR": str(folder)}
    log = state.path / "logs" / f"{name}.log"
    return ComponentRecord(
        kind=ComponentKind.APP,
        argv=list(argv),
        address="",
        name=name,
        env=whole,
        cwd=str(folder),
        log=str(log),
    )


def _executor_jvm(state: StateFolder, archive: Sequence[str]) -> str:
    """The JVM options of executors, as one setting of Spark; ``archive`` are those for their classes."""
    temporary = f"-Djava.io.tmpdir={state.path / 'tmp'}"
    return _as_one_setting(["-Xms48m", *spark_settings.DRIVER_JVM, *archive, temporary])


def _as_one_setting(options: Sequence[str]) -> str:
    return " ".join(f'"{option}"' for option in options)


def _home_without_python(state: StateFolder) -> str:
    """The ``SPARK_HOME`` of drivers and executors: an empty folder.

    Spark reads only ``python/lib/pyspark.zip`` from there and puts it first on a Python worker's path
    (``PythonUtils.sparkPythonPath``). Without it a worker imports the PySpark of its interpreter, which is the same
    version, already compiled, and five times as fast to import.
    """
    home = state.path / "spark-home"
    home.mkdir(exist_ok=True)
    return str(home)


def executors_of_a_driver(record: StackRecord) -> int:
    """The number of executors of a driver: one per worker, at least two."""
    return max(record.workers, spark_settings.EXECUTORS_PER_DRIVER)


def _in_containers(record: StackRecord) -> bool:
    return record.backend == "compose"


def _host(record: StackRecord, name: str) -> str:
    return host_name(name) if _in_containers(record) else LOOPBACK


def _bind(record: StackRecord) -> str:
    return EVERYWHERE if _in_containers(record) else LOOPBACK


def _broker_network(record: StackRecord) -> kafka_settings.BrokerNetwork:
    names = broker_names(len(record.kafka_ports))
    controllers = zip(names, record.controller_ports, strict=True)
    return kafka_settings.BrokerNetwork(
        bind=_bind(record),
        host=[f"{LOOPBACK}:{port}" for port in record.kafka_ports],
        inside=[f"{name}:{INSIDE_PORT}" for name in names] if _in_containers(record) else [],
        controller=[f"{_host(record, name)}:{port}" for name, port in controllers],
        proxied=[f"{_host(record, PROXY)}:{port}" for port in record.proxy_ports],
        proxied_ports=record.proxied_ports,
        admin=[f"{LOOPBACK}:{port}" for port in record.admin_ports],
        between=[
            f"{name}:{BETWEEN_PORT}" for name in names if _in_containers(record) and record.kafka_security
        ],
    )


def _format_broker(record: StackRecord, folder: Path) -> list[str]:
    """The command that formats a broker's data folder; it starts a JVM to write three small files."""
    argv = [record.java, *spark_settings.DAEMON_JVM, "-cp", cds.class_path(record, "broker"), _STORAGE_TOOL]
    return [*argv, "format", "-t", _CLUSTER_ID, "-c", str(folder / "server.properties")]


def _spark_options(state: StateFolder, record: StackRecord, name: str) -> list[str]:
    """The class path and JVM options of all Spark JVMs, as Spark's own launcher sets them."""
    archive = cds.options(state, record, "spark", name)
    temporary = f"-Djava.io.tmpdir={state.path / 'tmp'}"
    return [*spark_settings.SPARK_MODULES, temporary, *archive, "-cp", cds.class_path(record, "spark")]


def _master_url(record: StackRecord) -> str:
    return f"spark://{_host(record, 'master')}:{record.master_port}"


def _common_fields(state: StateFolder, record: StackRecord, name: str) -> dict[str, Any]:
    """The fields that every launch spec has: name, environment, folder, log."""
    own = {
        TOKEN_VARIABLE: state.token() or "",
        "JAVA_HOME": record.java_home,
        "SPARK_HOME": record.spark_home,
        "SPARK_LOCAL_DIRS": str(state.path / "tmp"),
        "SPARK_SCALA_VERSION": "2.12" if record.versions.get("spark", "").startswith("3.") else "2.13",
        "PYSPARK_PYTHON": record.worker_python,
        "PYSPARK_DRIVER_PYTHON": record.worker_python,
    }
    if _in_containers(record):
        env = {"LANG": "C.UTF-8", "HOME": str(state.path / "tmp"), **own}
    else:
        env = base_environment(SPARK_LOCAL_IP=LOOPBACK, **own)
    log = state.path / "logs" / f"{name}.log"
    return {"name": name, "env": env, "cwd": str(state.path / name), "log": str(log)}
