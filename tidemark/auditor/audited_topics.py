"""The records that a query read, and those that it wrote, from its topics into a run directory.

Records are read by partition and offset: a client that is assigned partitions joins no group, and commits nothing.
Input is read at ``read_uncommitted``, as Spark's source does unless ``kafka.isolation.level`` is set; a setting
``isolation.level`` of the client says otherwise. Output is read at ``read_committed``, up to the last stable offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import Message

from tidemark.auditor.audit_options import Report
from tidemark.auditor.offset_gaps import OffsetGaps, cleanup_policies
from tidemark.errors import DeadlineExceeded, TestbedError, UsageError
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.formats.input_offsets import records_in
from tidemark.formats.manifest import InputTopic
from tidemark.formats.trace import FORMAT, Header, Record, TopicSpec, write_trace
from tidemark.kafka import client as kafka
from tidemark.kafka.record import text_or_base64

REPORT_EVERY = 10_000
ISOLATION = "isolation.level"
OFFSETS_TOPIC = "__consumer_offsets"


class AuditedTopics:
    """The topics of one audit, on one cluster."""

    def __init__(self, broker: Mapping[str, str], report: Report) -> None:
        self._broker = dict(broker)
        self._isolation = self._broker.pop(ISOLATION, "read_uncommitted")
        self._report = report
        self.unheld: Counter[str] = Counter()
        """By logical topic, the offsets that have no record."""
        self._unheld_of_output: tuple[str, int] = ("", 0)
        """The topic of the output, and how many of its offsets have no record."""

    def must_have_groups(self) -> None:
        """Raise ``UsageError`` if the cluster has no topic for the offsets of groups.

        Kafka's C client looks up the coordinator of its group even if it never joins it, and a broker that is asked for
        a coordinator makes that topic.
        """
        if OFFSETS_TOPIC not in kafka.partitions(self._broker):
            raise UsageError(
                f"the cluster has no topic {OFFSETS_TOPIC!r}, and a broker makes it once a client reads",
                detail="an audit changes nothing: no consumer group was ever used there, or the login may not see it",
                hint="--may-create-offsets-topic reads all the same",
            )

    def held(self, topics: list[str]) -> kafka.Ends:
        """The first offset of each partition that is still there; raises ``UsageError`` for a missing topic."""
        return kafka.start_offsets(self._broker, topics)

    def output_span(self, topic: str) -> tuple[dict[int, int], dict[int, int]]:
        """Where the output begins, and where it ends now."""
        return self.held([topic])[topic], kafka.stable_offsets(self._broker, [topic])[topic]

    def must_reach(self, inputs: Mapping[str, InputTopic]) -> None:
        """Raise ``UsageError`` if a topic ends before the query's last planned offset: then it is another topic."""
        ends = kafka.end_offsets(self._broker, [about.topic for about in inputs.values()])
        for about in inputs.values():
            for partition, end in about.end_offsets.items():
                there = ends[about.topic].get(int(partition), 0)
                if there < end:
                    raise UsageError(
                        f"{about.topic}/{partition} ends at offset {there}, and the query read it up to offset {end}",
                        detail="a topic that was deleted and made again begins anew",
                        hint="name the cluster and the topics that the query reads (--bootstrap, --topic)",
                    )

    def write_inputs(self, path: Path, inputs: Mapping[str, InputTopic]) -> str:
        """Write the records that were read as a trace; returns its SHA-256.

        Raises ``TestbedError`` if some of them are gone by then.
        """
        header = Header(
            tidemark_trace=FORMAT,
            pace="timed",
            topics={name: TopicSpec(_partitions(about)) for name, about in inputs.items()},
            generator="tidemark audit",
        )
        self.unheld.clear()
        digest = write_trace(path, header, self._records(inputs))
        now = self.held([about.topic for about in inputs.values()])
        for about in inputs.values():
            starts = {int(part): start for part, start in about.start_offsets.items()}
            ends = {int(part): end for part, end in about.end_offsets.items()}
            _must_be_there(about.topic, now[about.topic], starts, ends)
        return digest

    def gaps(self, inputs: Mapping[str, InputTopic]) -> OffsetGaps:
        """The offsets without a record, of what was written; only of topics that have such Kafka is asked."""
        output, of_output = self._unheld_of_output
        asked = [inputs[name].topic for name in self.unheld] + ([output] if of_output else [])
        policies = cleanup_policies(self._broker, list(dict.fromkeys(asked)))
        return OffsetGaps(
            {name: (count, policies[inputs[name].topic]) for name, count in self.unheld.items()},
            (of_output, policies[output]) if of_output else None,
        )

    def _records(self, inputs: Mapping[str, InputTopic]) -> Iterator[Record]:
        total, done = records_in(inputs), 0
        self._report("inputs", 0, total)
        for name, about in inputs.items():
            for record in self._of_topic(name, about):
                done += 1
                if done % REPORT_EVERY == 0:
                    self._report("inputs", done, total)
                yield record
        self._report("inputs", total, total)

    def _of_topic(self, name: str, about: InputTopic) -> Iterator[Record]:
        """A record for each offset, in each partition in order; where the topic has none, one without a value."""
        ends = {int(part): end for part, end in about.end_offsets.items() if end > about.start_offsets[part]}
        at = {part: about.start_offsets[str(part)] for part in ends}
        if not ends:
            return
        for message in self._messages(about.topic, ends, at, self._isolation):
            partition, offset = message.partition() or 0, message.offset() or 0
            yield from self._gap(name, partition, at[partition], offset)
            at[partition] = offset + 1
            yield _record(name, message)
        for partition, end in ends.items():
            yield from self._gap(name, partition, at[partition], end)

    def _gap(self, name: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for _ in range(start, end):
            self.unheld[name] += 1
            yield Record(topic=name, partition=partition, arrival_ms=0, absent="gap")

    def write_output(
        self, directory: RunDirectory, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> None:
        """Write the records of the output between two offsets of each partition.

        Raises ``TestbedError`` if some of them are gone by then.
        """
        directory.write_lines("output", self._output(topic, start, end))
        _must_be_there(topic, self.held([topic])[topic], start, end)

    def _output(self, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[OutputRecord]:
        total = sum(max(0, last - start.get(partition, 0)) for partition, last in end.items())
        self._report("output", 0, total)
        ends = {partition: last for partition, last in end.items() if last > start.get(partition, 0)}
        messages = self._messages(topic, ends, start, kafka.READ_COMMITTED) if ends else ()
        done = 0
        for done, message in enumerate(messages, 1):
            if done % REPORT_EVERY == 0:
                self._report("output", done, total)
            yield kafka.output_record(message)
        self._unheld_of_output = topic, total - done
        self._report("output", total, total)

    def _messages(
        self, topic: str, ends: Mapping[int, int], start: Mapping[int, int], isolation: str
    ) -> Iterator[Message]:
        """The records of a topic between offsets; raises ``DeadlineExceeded`` where the cluster stops answering."""
        try:
            yield from kafka.read_messages(self._broker, topic, ends, start, isolation=isolation)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"the topic {topic!r} could not be read to its end",
                detail="; ".join(filter(None, (error.message, error.detail))),
                hint=f"audit again once {self._broker.get('bootstrap.servers', 'the cluster')} answers: nothing was"
                " changed there, and no evidence is kept",
            ) from error


def _must_be_there(
    topic: str, now: Mapping[int, int], start: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """Raise if records were deleted since it was decided what to read: they would look as if they had never been.

    ``now`` has the first offset of each partition after the reading.
    """
    for partition, last in end.items():
        asked, first = start.get(partition, 0), now.get(partition, 0)
        if asked < min(first, last):
            raise TestbedError(
                f"records of {topic}/{partition} were deleted during the audit",
                detail=f"offset {asked} was asked for, and the topic begins at offset {first} now",
                hint="audit again: what is gone by then is said; a longer retention of the topic keeps it",
            )


def _partitions(about: InputTopic) -> int:
    return max((int(partition) for partition in about.end_offsets), default=0) + 1


def _record(name: str, message: Message) -> Record:
    shown = kafka.output_record(message)
    value, value_base64 = text_or_base64(message.value())
    key, key_base64 = text_or_base64(message.key())
    return Record(
        topic=name,
        value=value,
        value_base64=value_base64,
        key=key,
        key_base64=key_base64,
        arrival_ms=shown.timestamp_ms,
        partition=shown.partition,
        headers=shown.headers,
    )
