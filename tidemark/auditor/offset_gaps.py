"""Offsets without a record: in a topic that Kafka compacts there may have been one that the query read or wrote.

An offset has no record if it is the mark of a transaction, if its record was rolled back (for a reader of committed
records), or if compaction removed its record. Nothing in a topic says which, so ``cleanup.policy`` decides: in a topic
with ``compact`` each of them may have had a record, in any other none had one. Where the setting cannot be read, the
topic is taken for one that is not compacted as long as nothing is wrong then, and else for a compacted one, because a
row is a finding only if it is wrong in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource

from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.run_notes import GAPS
from tidemark.kafka.connection import ANSWER_S, Broker, connected_admin

CLEANUP_POLICY = "cleanup.policy"


class CleanupPolicy(NamedTuple):
    """``cleanup.policy`` of a Kafka topic; ``None`` if it could not be read, and ``why``."""

    topic: str
    setting: str | None
    why: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the setting could be read."""
        return self.setting is not None

    @property
    def compacts(self) -> bool:
        """Whether it is known that Kafka removes records from between others."""
        return self.setting is not None and "compact" in [part.strip() for part in self.setting.split(",")]

    def said_of(self, gaps: int, *, with_unknown: bool) -> str:
        """What offsets without a record mean in this topic; ``with_unknown``: if not known, it may be compacted."""
        have = f"of the offsets that were read {gaps:,} have no record, and each"
        if self.setting is not None:
            of = f"Kafka compacts the topic {self.topic!r} ({CLEANUP_POLICY} is {self.setting!r})"
            return f"{of}: {have} may have had one that was removed"
        unknown = (
            f"whether Kafka compacts the topic {self.topic!r} is not known ({self.why}; that takes the right"
            f" DESCRIBE_CONFIGS on the topic): {have}"
        )
        if with_unknown:
            return f"{unknown} may have had one that was removed"
        return f"{unknown} is taken for a mark of a transaction, or for a record that was rolled back"


@dataclass(frozen=True)
class OffsetGaps:
    """How many offsets of the inputs, by logical topic, and of the output have no record, and the policies of these."""

    inputs: Mapping[str, tuple[int, CleanupPolicy]]
    output: tuple[int, CleanupPolicy] | None = None

    @property
    def has_unknown(self) -> bool:
        """Whether the policy of a topic is not known."""
        topics = [*self.inputs.values(), *([] if self.output is None else [self.output])]
        return any(not policy.is_known for _, policy in topics)

    def told_in(self, about: AuditedQuery, *, with_unknown: bool) -> AuditedQuery:
        """Which topics may lack records that were removed; ``with_unknown``: also those whose policy is not known."""
        inputs = [name for name, (_, policy) in self.inputs.items() if _may_compact(policy, with_unknown)]
        removals = [*about.output_removals]
        if self.output is not None and _may_compact(self.output[1], with_unknown):
            removals.append(self.output[1].said_of(self.output[0], with_unknown=with_unknown))
        return msgspec.structs.replace(about, compacted=inputs, output_removals=removals)

    def notes(self, *, with_unknown: bool) -> list[str]:
        """A sentence for each topic whose policy is not known, and for each input that is compacted.

        Of an output that may be compacted ``output_removals`` has it.
        """
        told = [one for one in self.inputs.values() if one[1].compacts or not one[1].is_known]
        if self.output is not None and not self.output[1].is_known and not with_unknown:
            told.append(self.output)
        return [f"{GAPS}{policy.said_of(gaps, with_unknown=with_unknown)}" for gaps, policy in told]


def _may_compact(policy: CleanupPolicy, with_unknown: bool) -> bool:
    return policy.compacts or (with_unknown and not policy.is_known)


def cleanup_policies(broker: Broker, topics: Sequence[str]) -> dict[str, CleanupPolicy]:
    """The ``cleanup.policy`` of each topic; raises ``TestbedError`` only if no broker answers or lets the client in."""
    if not topics:
        return {}
    admin = connected_admin(broker)
    answers = admin.describe_configs(
        [ConfigResource("topic", name) for name in topics], request_timeout=ANSWER_S
    )
    return {resource.name: _policy(resource.name, answer) for resource, answer in answers.items()}


def _policy(topic: str, answer: Future[Any]) -> CleanupPolicy:
    try:
        setting = answer.result(ANSWER_S)[CLEANUP_POLICY].value
    except KafkaException as exception:
        return CleanupPolicy(topic, None, exception.args[0].str().rstrip("."))
    except TimeoutError:
        return CleanupPolicy(topic, None, f"no answer within {ANSWER_S:g} s")
    except KeyError:
        setting = None
    return CleanupPolicy(topic, setting, f"the broker names no {CLEANUP_POLICY}" if setting is None else "")
