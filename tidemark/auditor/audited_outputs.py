"""The output of an audited query, into a run directory: a topic, or a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidemark.auditor.audit_options import Report
from tidemark.auditor.audited_topics import REPORT_EVERY, AuditedTopics
from tidemark.auditor.output_tables import open_table
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.evidence import OutputRecord, RunDirectory


class TopicOutput:
    """The records of a topic, from where it begins to where it ended when this was made."""

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
            about, output_topic=self._topic, output_deleted=deleted, output_end=end
        )


class TableOutput:
    """The rows of a table, as its log named its files when this was made."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._table = open_table(folder)
        self._report = report

    def write(self, directory: RunDirectory, query: str) -> None:
        """Write them. If the batch of one row is not known, no row has headers: the table is judged without batches."""
        directory.write_lines("output", self._rows(query))

    def _rows(self, query: str) -> Iterator[OutputRecord]:
        done = 0
        for done, record in enumerate(self._table.records(query), 1):
            if done % REPORT_EVERY == 0:
                self._report("output", done, 0)
            yield record if self._table.knows_batches else msgspec.structs.replace(record, headers=[])
        self._report("output", done, done)

    def told_in(self, about: AuditedQuery) -> AuditedQuery:
        """Which table was read, and what its log says is gone, or cannot say."""
        table = self._table
        files = [
            f"partition {number} is the file {file.name}" for number, file in enumerate(table.files[:_FILES])
        ]
        if len(table.files) > _FILES:
            files.append(f"{len(table.files) - _FILES:,} more files follow, in the order of the table's log")
        return msgspec.structs.replace(
            about,
            output_table=str(table.folder),
            output_removals=list(table.removals),
            output_notes=[*table.notes, *files],
        )


_FILES = 20
"""So many files are named."""
