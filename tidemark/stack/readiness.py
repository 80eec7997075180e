"""When a component, or the whole stack, is ready: it does its work, not merely listens on a port.

The master is elected, a worker is registered, a driver accepts clients. Of a whole stack: a record makes the round trip
through the brokers, and a job runs on every executor. Each wait ends early when the component dies; the error then
shows the end of its log.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import DaemonDied, DeadlineExceeded, TestbedError
from tidemark.formats.connect_url import client_environment, with_parameters, with_token
from tidemark.processes import Conversation, base_environment
from tidemark.stack.components.ports import ask_here
from tidemark.stack.registry import TOKEN_VARIABLE, ComponentRecord, StateFolder
from tidemark.stack.runtime import Runtime
from tidemark.waiting import wait_until

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient

UP_S = 180.0
"""Calibration: 2 to 8 s on two free cores; four times that on a machine that runs a test suite as well."""
ROUND_TRIP_S = 120.0
"""Calibration: 0.3 s on a broker that is up; a broker that has just opened its port may need seconds to join."""
ANSWER_S = 180.0
"""Calibration: 3 to 5 s in a cold driver, most of it the start of two executors."""
PAGE_S = 20.0
"""Calibration: the first answer takes 0.3 s on two free cores."""
_LOG_LINES = 200
_STACK_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_PROGRAM = Path(__file__).parent / "inside" / "connect_client.py"


def must_live(runtime: Runtime, component: ComponentRecord) -> None:
    """Raise ``DaemonDied``, with the end of its log, if a component that was started is gone."""
    if not runtime.runs(component):
        raise DaemonDied(
            f"the {component.name} died while starting",
            detail=f"the end of its log:\n{log_tail(runtime, component)}",
            hint="`tidemark doctor` checks Java, memory, disk and ports",
        )


def log_tail(runtime: Runtime, component: ComponentRecord) -> str:
    """The end of a component's log since its start, without the frames of Java stack traces."""
    lines = runtime.log(component, _LOG_LINES, since_start=True).splitlines()
    messages = [line for line in lines if not _STACK_FRAME.match(line)]
    return "\n".join(messages[-15:]) or "(empty)"


def await_log(runtime: Runtime, component: ComponentRecord, *texts: str) -> None:
    """Wait until a component has logged one of ``texts`` since its start."""

    def logged() -> bool:
        log = runtime.log(component, since_start=True)
        return any(text in log for text in texts)

    _await(runtime, component, logged, f"to log {' or '.join(map(repr, texts))}")


def await_driver(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until a driver serves at its address; raises ``DaemonDied`` if another program has taken its port."""
    _await(runtime, component, lambda: runtime.serves(component), f"to serve at {component.address}")


def await_master(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until the master is elected and, after a restart, has recovered its workers and applications.

    The master ignores a worker that registers earlier, and the worker retries only after seconds.
    """
    await_log(runtime, component, "New state: ALIVE", "resuming operations")


def await_worker(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until the master has accepted a worker."""
    await_log(runtime, component, "Successfully registered with master")


def await_registry(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until a schema registry lists its subjects; raises ``DaemonDied`` if another program has its port."""
    _await(
        runtime,
        component,
        lambda: runtime.serves(component) and isinstance(_answer_of(component, "subjects"), list),
        f"to list its subjects at {component.address}",
    )


def await_proxy(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until the network proxy answers; raises ``DaemonDied`` if another program has one of its ports."""
    _await(
        runtime,
        component,
        lambda: bool(_answer_of(component, "version")),
        f"to answer at {component.address}",
    )


def _answer_of(component: ComponentRecord, path: str) -> object:
    """The JSON that a component serves; ``None`` if it does not answer, or something else."""
    try:
        return json.loads(ask_here(f"{component.address}/{path}", PAGE_S))
    except (OSError, ValueError):
        return None


def _await(runtime: Runtime, component: ComponentRecord, condition: Callable[[], bool], what: str) -> None:
    try:
        wait_until(
            condition,
            UP_S,
            lambda: f"the {component.name} {what}",
            unless=lambda: must_live(runtime, component),
        )
    except DeadlineExceeded as error:
        error.detail = f"the end of its log:\n{log_tail(runtime, component)}"
        error.hint = "stop other programs if the machine is busy; `tidemark doctor` checks the rest"
        raise


def round_trip(broker: str | Mapping[str, str], unless: Callable[[], object], *, brokers: int = 1) -> None:
    """Create a topic on ``brokers`` brokers, write a record, read it back, delete the topic.

    ``broker`` is an address, or the settings of a client with a login. ``unless`` raises to end the wait. Raises
    ``KafkaRefused`` if the brokers do not let a client with these settings in. It is made again if a broker does not
    answer: one that was just started again may leave the cluster once more, and its clients forget it.
    """
    from confluent_kafka import KafkaException

    from tidemark.kafka.connection import NO_ANSWER, NOT_ALLOWED, address_of, not_done

    topic = f"tidemark-ready-{uuid.uuid4().hex[:8]}"
    await_brokers(broker, brokers, unless)
    failed: list[KafkaException] = []

    def made() -> bool:
        try:
            _write_and_read(broker, topic, brokers, unless)
        except KafkaException as error:
            failed.append(error)
            if error.args[0].code() not in NO_ANSWER:
                raise
            return False
        return True

    try:
        wait_until(
            made,
            ROUND_TRIP_S,
            lambda: f"a record to come back from {address_of(broker)}",
            unless=unless,
            poll_s=0.2,
        )
    except DeadlineExceeded as error:
        error.detail = error.detail or "; ".join(map(str, failed[-1:]))
        error.hint = error.hint or "`tidemark doctor` checks memory, disk and ports"
        raise
    except KafkaException as error:
        if error.args[0].code() in NOT_ALLOWED:
            what = f"create, write, read and delete a topic ({topic!r}, to try it)"
            raise not_done(broker, what, error.args[0]) from error
        raise TestbedError(
            f"a test record could not be written to and read from the broker at {address_of(broker)}",
            detail=str(error),
            hint="`tidemark doctor` checks memory, disk and ports",
        ) from error


def _write_and_read(
    broker: str | Mapping[str, str], topic: str, replicas: int, unless: Callable[[], object]
) -> None:
    """The round trip; raises ``KafkaException``, also of a right that is missing."""
    from confluent_kafka import (
        Consumer,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from tidemark.kafka.connection import NOT_ALLOWED, address_of, client_of

    client = {**client_of(broker), "reconnect.backoff.max.ms": 200}
    admin, producer = AdminClient(client), Producer({**client, "acks": "all"})
    consumer = Consumer({**client, "group.id": topic, "enable.auto.commit": False})

    def must_be_allowed(error: KafkaError | None, _message: Message | None = None) -> None:
        if error is not None and error.code() in NOT_ALLOWED:
            raise KafkaException(error)

    def returned() -> bool:
        producer.poll(0)
        message = consumer.poll(0.05)
        if message is None:
            return False
        must_be_allowed(message.error())
        return message.error() is None and message.value() == b"ready"

    try:
        new_topic = NewTopic(topic, 1, replicas, config={"min.insync.replicas": "1"})
        created = admin.create_topics([new_topic], operation_timeout=30)[topic]
        at = address_of(broker)
        wait_until(created.done, ROUND_TRIP_S, lambda: f"the broker at {at} to create a topic", unless=unless)
        _must_be_there(created)
        producer.produce(topic, b"ready", partition=0, on_delivery=must_be_allowed)
        producer.poll(0)
        consumer.assign([TopicPartition(topic, 0, 0)])
        wait_until(
            returned, ROUND_TRIP_S, lambda: f"a record to come back from {at}", unless=unless, poll_s=0
        )
        admin.delete_topics([topic])[topic].result()
        if "security.protocol" in client:
            _must_see_group(admin, topic)
    finally:
        consumer.close()


def _must_be_there(created: Future[None]) -> None:
    """Raise why a topic could not be created; an earlier request whose answer was lost may have created it."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        created.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _must_see_group(admin: AdminClient, group: str) -> None:
    """Raise ``KafkaException`` if the right on a group is missing; a reader learns that by chance.

    The coordinator is asked to describe the group; any other error of it is ignored. Offsets are not asked for: where
    the coordinator is still loading, librdkafka 2.16.0 crashes with an admin client (``rd_kafka_handle_OffsetFetch``).
    """
    from confluent_kafka import KafkaException

    from tidemark.kafka.connection import NOT_ALLOWED

    try:
        admin.describe_consumer_groups([group], request_timeout=ROUND_TRIP_S)[group].result()
    except KafkaException as error:
        if error.args[0].code() in NOT_ALLOWED:
            raise


def await_brokers(broker: str | Mapping[str, str], count: int, unless: Callable[[], object]) -> None:
    """Wait until ``count`` brokers are registered and every partition has as many in-sync replicas as it can have.

    A broker that has not joined the cluster yet reports no controller. A client that has received such an answer asks
    again only minutes later. Raises ``KafkaRefused`` as soon as it is clear that they do not let this client in.
    """
    from confluent_kafka import KafkaError, KafkaException

    from tidemark.kafka.connection import RefusalWatch, address_of, new_admin

    errors: list[KafkaError] = []
    admin, watch, state = new_admin(broker, errors), RefusalWatch(broker), "no answer"

    def in_sync() -> bool:
        nonlocal state
        try:
            cluster = admin.list_topics(timeout=1)
        except KafkaException as error:
            admin.poll(0)
            watch.raise_if_refused([*errors, error.args[0]])
            state = str(error)
            return False
        if cluster.controller_id < 0:
            state = "no controller"
            return False
        partitions = [
            partition for topic in cluster.topics.values() for partition in topic.partitions.values()
        ]
        behind = sum(len(partition.isrs) < min(count, len(partition.replicas)) for partition in partitions)
        state = f"{len(cluster.brokers)} brokers, {behind} of {len(partitions)} partitions under-replicated"
        return len(cluster.brokers) >= count and not behind

    wait_until(
        in_sync,
        ROUND_TRIP_S,
        lambda: f"{count} brokers at {address_of(broker)} to be in sync; last state: {state}",
        unless=unless,
    )


def open_probe(state: StateFolder, python: str) -> Conversation:
    """A Spark Connect client in the stack's own interpreter; it imports PySpark while the daemons start."""
    env = base_environment(**{TOKEN_VARIABLE: state.token() or ""}, **client_environment())
    return Conversation(
        [python, "-I", str(_PROGRAM)], log=state.path / "logs" / "probe.log", cwd=state.path, env=env
    )


def warm_up(
    probe: Conversation, driver: ComponentRecord, count: int, unless: Callable[[], object]
) -> list[Path]:
    """Run a one-row job on each of ``count`` executors; returns their folders (worker folder/application/executor)."""
    seen: set[Path] = set()
    failure = ""

    def every_executor() -> bool:
        nonlocal failure
        answer = probe.ask(
            {"do": "locate", "remote": driver.address, "count": count}, ANSWER_S, unless=unless
        )
        failure = answer.get("error", "")
        seen.update(Path(folder) for folder in answer.get("folders", ()))
        return len(seen) >= count

    try:
        wait_until(
            every_executor,
            ANSWER_S,
            lambda: (
                f"a one-row job on each of {count} executors of {driver.name}; it ran in: {sorted(map(str, seen))}"
            ),
            unless=unless,
        )
    except DaemonDied:
        raise
    except TestbedError as error:
        raise type(error)(error.message, detail=failure or error.detail, hint=error.hint) from error
    return sorted(seen)


def release_session(probe: Conversation, remote: str, session_id: str, user_id: str) -> str:
    """Release a Connect session, which stops its queries; returns why that failed, or an empty string."""
    server = with_token(remote)
    own = {"session_id": session_id, "user_id": user_id}
    request = {"do": "release", "remote": server, "session": with_parameters(server, **own), **own}
    answer = probe.ask(request, ANSWER_S)
    return str(answer.get("error", ""))
