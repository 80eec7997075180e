"""``audit`` of the manifest: what is known of a query that tidemark did not start, and what is not.

Free of Kafka and Spark. A run directory with ``audit`` in its manifest was collected by ``tidemark audit``, and is
judged as an audit. Its files are those of a run, with these differences:

* ``batches.jsonl`` begins with the first batch that the query's log still has. Its rows cannot be told from those of
  the batches before it, unless it is batch 0;
* ``trace.jsonl`` has the records of each partition from ``start_offsets`` of the manifest on. An offset at which the
  topic has no record (the mark of a transaction, a record that was compacted or rolled back) is ``absent`` there, as a
  ``gap``; in older evidence it is a record without a value;
* ``runs`` and ``failed_tasks`` of a batch say nothing: no checkpoint has them. ``restarted`` is what progress reports
  say, for the batches that they have;
* ``state.jsonl`` has, if it is there, the state after the batch before the first that can be judged: its rows with a
  time at or before the watermark of that batch.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

Span = tuple[int, int]
"""Offsets from the first to before the second."""


class SparkSpan(NamedTuple):
    """A Spark, and the first and the last batch that it ran; the last may be run again by the next."""

    spark: str
    first: int
    last: int


class AuditedQuery(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``audit`` of the manifest.

    ``first_batch`` is the first that can be judged, ``from_batch`` and ``to_batch`` limit what is judged. ``owed_to``
    is the last batch that was committed before the end of the output was looked up: up to it, rows are owed.
    ``deleted`` has, by logical topic and partition, the offsets that the query read and that the topic no longer holds;
    ``output_deleted`` those of the output. ``unheld`` counts by logical topic the offsets without a record that can be
    read; ``compacted`` are the topics of these that Kafka may compact, where each may have had one.
    ``next_watermark_ms`` is the watermark after the last planned batch, if its commit says so.
    ``deleted_until_ms``: the caller of the audit stated that no deleted record has a later event time.
    ``time_zone`` is that of the session, if the log has it. ``output_topic`` and ``output_end`` are the topic that
    was written and the end up to which it was read; ``output_table`` is the folder of a table. ``output_removals``
    has a sentence for each reason why rows may be gone from the output, ``output_notes`` what its log cannot tell.
    ``reported`` are the first and the last of the batches in a row that progress reports of Spark have.
    ``sparks`` has the batches of each Spark, if there was more than one.
    """

    first_batch: int
    from_batch: int
    to_batch: int
    owed_to: int
    deleted: dict[str, dict[str, Span]] = {}
    deleted_until_ms: int | None = None
    output_deleted: dict[str, Span] = {}
    unheld: dict[str, int] = {}
    compacted: list[str] = []
    next_watermark_ms: int | None = None
    time_zone: str | None = None
    output_topic: str | None = None
    output_end: dict[str, int] = {}
    output_table: str | None = None
    output_removals: list[str] = []
    output_notes: list[str] = []
    reported: tuple[int, int] | None = None
    sparks: list[SparkSpan] = []
