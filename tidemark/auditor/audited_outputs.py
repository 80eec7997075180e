"""The output of an audited query, into a run directory: a topic, or a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidemark.auditor.audit_options import Report
from tidemark.auditor.audited_topics import REPORT_EVERY, AuditedTopics
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.sparkfiles.output_tables import open_table


class TopicOutput:
    """The records of a topic, from where it begins to where it ended when this was made."""

    delivery = Delivery.AT_LEAST_ONCE
    """Nothing in a topic promises more."""

    def __init__(self, topics: AuditedTopics, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._start, self._end = topics.output_span(topic)

    def write(self, directory: RunDirectory, _query: str) -> None:
        """Write them."""
        self._topics.write_output(directory, self._topic, self._start, self._end)

    def told_in(self, about: AuditedQuery) -> AuditedQuery:
        """What was read of which topic, and what is gone."""
        deleted = {
            str(part): (0, first)
            for part, first in sorted(self._start.items())
            if 0 < first <= self._end.get(part, first)
        }
        end = {str(partition): end for partition, end in sorted(self._end.items())}
        return msgspec.structs.replace(
            about,
            output_topic=self._topic,
            output_deleted=deleted,
            output_end=end,
        )


class TableOutput:
    """The rows of a table, as its log named its files when this was made."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._table = open_table(folder)
        self._report = report

    @property
    def delivery(self) -> Delivery:
        """What the table's log promises."""
        return self._table.delivery

    def write(self, directory: RunDirectory, query: str) -> None:
        """Write them."""
        directory.write_lines("output", self._rows(query))

    def _rows(self, query: str) -> Iterator[OutputRecord]:
        done = 0
        for done, record in enumerate(self._table.judged_records(query), 1):
            if done % REPORT_EVERY == 0:
                self._report("output", done, 0)
            yield record
        self._report("output", done, done)

    def told_in(self, about: AuditedQuery) -> AuditedQuery:
        """Which table was read, and what its log says is gone, or cannot say."""
        told = self._table.told_in(about)
        return msgspec.structs.replace(told, output_notes=[*told.output_notes, *self._table.named_files()])
