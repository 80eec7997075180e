"""Readiness: the stack does its work. A record goes through the broker and back; a job runs on every worker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import DaemonDied, TestbedError
from tidemark.processes import Conversation, base_environment
from tidemark.stack.registry import TOKEN_VARIABLE, ComponentRecord, StateFolder
from tidemark.waiting import wait_until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ROUND_TRIP_S = 120.0
"""Calibration: 0.3 s on a broker that is up; a broker that just got its port may take seconds to elect itself."""
PLACE_S = 180.0
"""Calibration: 3 to 5 s in a cold driver, of which most is the start of two executors."""
_PROGRAM = Path(__file__).parent / "inside" / "connect_client.py"


def round_trip(bootstrap: str, unless: Callable[[], object], *, brokers: int = 1) -> None:
    """Create a topic on ``brokers`` brokers, write a record, read it back, delete the topic.

    ``unless`` raises to end the wait.
    """
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
    }
    topic = f"tidemark-ready-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client)
    _await_brokers(admin, bootstrap, brokers, unless)
    producer = Producer({**client, "acks": "all"})
    consumer = Consumer({**client, "group.id": topic, "enable.auto.commit": False})
    try:
        wanted = NewTopic(topic, 1, brokers, config={"min.insync.replicas": "1"})
        made = admin.create_topics([wanted], operation_timeout=30)[topic]
        wait_until(
            made.done, ROUND_TRIP_S, lambda: f"the broker at {bootstrap} to create a topic", unless=unless
        )
        made.result()
        producer.produce(topic, b"ready", partition=0)
        producer.poll(0)
        consumer.assign([TopicPartition(topic, 0, 0)])

        def back() -> bool:
            producer.poll(0)
            message = consumer.poll(0.05)
            return message is not None and message.error() is None and message.value() == b"ready"

        wait_until(
            back, ROUND_TRIP_S, lambda: f"a record to come back from {bootstrap}", unless=unless, poll_s=0
        )
        admin.delete_topics([topic])[topic].result()
    except KafkaException as error:
        raise TestbedError(
            f"the broker at {bootstrap} does not pass a record on",
            detail=str(error),
            hint="`tidemark doctor` looks at memory, disk and ports",
        ) from error
    finally:
        consumer.close()


def _await_brokers(admin: AdminClient, bootstrap: str, count: int, unless: Callable[[], object]) -> None:
    """Wait until ``count`` brokers are there, and what they replicate is on as many of them as it can be.

    One by itself names no controller until it takes part: a client that heard so once asks again only minutes later.
    """
    from confluent_kafka import KafkaException

    seen = "no answer"

    def whole() -> bool:
        nonlocal seen
        try:
            known = admin.list_topics(timeout=5)
        except KafkaException as error:
            seen = str(error)
            return False
        if known.controller_id < 0:
            seen = "no controller"
            return False
        components = [component for topic in known.topics.values() for component in topic.partitions.values()]
        behind = sum(len(component.isrs) < min(count, len(component.replicas)) for component in components)
        seen = f"{len(known.brokers)} brokers, {behind} of {len(components)} partitions behind"
        return len(known.brokers) >= count and not behind

    wait_until(
        whole, ROUND_TRIP_S, lambda: f"{count} brokers at {bootstrap} to be in step: {seen}", unless=unless
    )


def open_probe(state: StateFolder, python: str) -> Conversation:
    """A client in the interpreter of the stack's clients. Opened early, it imports PySpark while the daemons start."""
    env = base_environment(**{TOKEN_VARIABLE: state.token() or ""})
    return Conversation(
        [python, "-I", str(_PROGRAM)], log=state.path / "logs" / "probe.log", cwd=state.path, env=env
    )


def warm_up(
    probe: Conversation, driver: ComponentRecord, count: int, unless: Callable[[], object]
) -> list[Path]:
    """Run a one-row job on each of ``count`` executors; returns their folders (worker folder/application/executor)."""
    seen: set[Path] = set()
    why = ""

    def everywhere() -> bool:
        nonlocal why
        answer = probe.ask({"do": "place", "remote": driver.address, "count": count}, PLACE_S, unless=unless)
        why = answer.get("error", "")
        seen.update(Path(place) for place in answer.get("places", ()))
        return len(seen) >= count

    try:
        wait_until(
            everywhere,
            PLACE_S,
            lambda: (
                f"a one-row job on each of {count} executors of {driver.name}; seen: {sorted(map(str, seen))}"
            ),
            unless=unless,
        )
    except DaemonDied:
        raise
    except TestbedError as error:
        raise type(error)(error.message, detail=why or error.detail, hint=error.hint) from error
    return sorted(seen)


def release_session(probe: Conversation, remote: str, session_id: str, user_id: str) -> str:
    """Release a Connect session and so end its queries; returns why that failed, or nothing."""
    question = {"do": "release", "remote": remote, "session_id": session_id, "user_id": user_id}
    answer = probe.ask(question, PLACE_S)
    return str(answer.get("error", ""))
