"""The rows of findings of a run with very many records, and those of their keys: found by DuckDB, read one by one.

Decides nothing. Which records are read is by the text of their keys, so that too many may be read, and none too few;
what they say the reader of the history finds out. Only what is plain is looked for so: one join, its fields at the top
of JSON records, in files that are as a run sealed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from tidemark.formats.contract import Contract
from tidemark.formats.evidence import (
    Batch,
    ExecutorAssignment,
    InputRecord,
    OutputRecord,
    RunDirectory,
    StateRow,
)
from tidemark.formats.faults import Fault
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.manifest import Manifest
from tidemark.formats.scans import text_of
from tidemark.formats.trace import TraceReader
from tidemark.oracle import Verdict
from tidemark.oracle.input.history import read_history
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.input.unreadable import Readable
from tidemark.oracle.large.output import fields_of_output, is_plain_query
from tidemark.oracle.large.plain import is_plain_name
from tidemark.oracle.large.record_tables import asked_for
from tidemark.reports.batch_counts import LARGEST_RECORDS, places_in
from tidemark.reports.large_counts import database
from tidemark.reports.publishing_times import Published, published
from tidemark.reports.row_accounts import RowAccount

MOST_ROWS = 2_000
"""So many records are read, those of the first findings first. Calibration: to find them among a million takes 2.5 s of
processor time, and 450 MB.
"""


class FewRecords:
    """The evidence of a run, with a few of its records, rows of its state and output records."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.chosen: list[InputRecord] = []
        self.written: list[OutputRecord] = []
        self.kept: list[StateRow] = []
        self.published: dict[str, Published] = {}

    @property
    def manifest(self) -> Manifest:
        """As it is."""
        return self._run.manifest

    def inputs(self) -> list[InputRecord]:
        """The records that were chosen, in order."""
        return self.chosen

    def batches(self) -> Sequence[Batch]:
        """As they are."""
        return self._run.batches()

    def output(self) -> list[OutputRecord]:
        """The output records that name a chosen record."""
        return self.written

    def faults(self) -> Sequence[Fault]:
        """As they are."""
        return self._run.faults()

    def progress(self) -> Sequence[dict[str, Any]]:
        """As they are."""
        return self._run.progress()

    def state(self) -> list[StateRow]:
        """The rows of the state of chosen records, and one of each batch and side, which shows what rows have."""
        return self.kept

    def state_keys(self) -> None:
        """They are not looked at."""

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """As they are."""
        return self._run.executor_assignments()


def account_of_large(run: RunDirectory, contract: Contract, verdict: Verdict, size: int) -> RowAccount | str:
    """The account of a large run, or why its rows are not followed. Raises ``BrokenEvidence``.

    Rows are followed by the watermarks of the checkpoint, which the verdict says to be right.
    """
    shown = f"{size:,} records: the life of a row is "
    if not (
        named := list(
            dict.fromkeys(place for finding in verdict.findings for place in places_in(finding.written))
        )
    ):
        return f"{shown}shown where a finding names the row; there is none"
    if size > LARGEST_RECORDS:
        return f"{shown}shown of up to {LARGEST_RECORDS:,} records"
    if "wrong_watermarks" in verdict.findings_total:
        return f"{shown}not shown, because the watermarks are wrong: run it with fewer records"
    if not _can_be_found(run, contract):
        return f"{shown}shown of sealed evidence with plain JSON records"
    few = FewRecords(run)
    with database() as sql:
        choice = _Choice(sql, run, contract)
        choice.make(few, named)
    notes = (
        [f"{choice.left_out:,} keys of findings have too many rows to be followed"] if choice.left_out else []
    )
    history = read_history(few, _rest(contract, size))
    watermarks_ms = [max(one.plan.watermark_ms, 0) for one in history.batches]
    by_log_ms = [*watermarks_ms, *(watermarks_ms[-1:] or [0])]
    return RowAccount(few, history, by_log_ms, notes, of_rows=size, published=few.published)


def _can_be_found(run: RunDirectory, contract: Contract) -> bool:
    sides, query = (contract.left, contract.right), run.manifest.query_id
    names = [name for side in sides for name in (side.id, *side.keys)]
    return (
        all(side.is_plain and side.decode is None for side in sides)
        and is_plain_query(query)
        and all(map(is_plain_name, [*names, *fields_of_output(contract.output).values()]))
        and None not in (run.scan("trace"), run.scan("output", query or ""))
    )  # fmt: skip


def _rest(contract: Contract, size: int) -> Rest:
    """That there are more records than those that are read; nothing else is asked of it here."""
    none = np.zeros(0, dtype=np.int64)
    return Rest(
        watermarks_ms=(), latest_ms=(), counts={}, permitted={}, stored=(none, none), removed=(none, none), late=none,
        readable=[Readable(contract.left), Readable(contract.right)], data_batches=0, duplicate_events=0,
        must_drop=False, rows=size, keys=0,
    )  # fmt: skip


class _Choice:
    """Which records, of one run: tables over scans of its files, of which a row's number is its place in the file."""

    def __init__(self, sql: duckdb.DuckDBPyConnection, run: RunDirectory, contract: Contract) -> None:
        self._sql, self._run, self._contract = sql, run, contract
        self.left_out = 0

    def make(self, few: FewRecords, named: Sequence[tuple[str, int, int]]) -> None:
        """Choose, and read what was chosen."""
        self._scan_records()
        self._choose(named)
        places = self._sql.execute("select n, position from chosen order by n").fetchnumpy()
        with TraceReader(self._run.file("trace")) as trace:
            slices = trace.header.slices
        records = self._run.pick("trace", asked_for(places["n"]))
        for record, position in zip(records, places["position"].tolist(), strict=True):
            value = record.text_or_bytes()
            few.chosen.append(
                InputRecord(record.topic, record.partition, position, value, False, record.is_absent)
            )
            few.published[f"{record.topic}/{record.partition}/{position}"] = published(record, slices)
        few.written = self._picked("output", self._of_output())
        if self._run.scan("state") is not None:
            few.kept = self._picked("state", self._of_state())

    def _picked(self, name: str, numbers: str) -> list[Any]:
        """The records of a file with the numbers that a ``select`` of ``n`` gives."""
        found = self._sql.execute(f"select distinct n from ({numbers}) numbers order by n").fetchnumpy()["n"]
        return list(self._run.pick(name, asked_for(found)))

    def _scan_records(self) -> None:
        """``scanned``: all records, in order; ``placed`` has their numbers and offsets, too.

        ``key`` is all of the key as one text, NULL if a field of it is; ``first`` is its first field.
        """
        sides = {side.topic: side for side in (self._contract.left, self._contract.right)}
        values = ", ".join(
            f"({text_of(name)}, {part}, {start})"
            for (name, part), start in first_offsets(self._run.manifest.inputs).items()
            if name in sides
        )
        fields = " ".join(
            f"when {text_of(name)} then {_fields([side.id, *side.keys])}" for name, side in sides.items()
        )
        whole = " || ".join(
            f"length(f[{at}]) || ':' || f[{at}]" for at in range(2, len(self._contract.left.keys) + 2)
        )
        for text in (
            (
                f"table scanned as select topic, part, f[1] as id, f[2] as first, {whole} as key from ("
                f"select topic, cast(coalesce(partition, 0) as integer) as part, case topic {fields} end as f"
                f" from {self._run.scan('trace')}) read"
            ),
            f"table starts as select * from (values {values}) s(topic, part, start)",
            (
                "table placed as select s.* exclude (before), b.start + s.before as position from ("
                "select rowid + 1 as n, *, row_number() over (partition by topic, part order by rowid) - 1 as before"
                " from scanned where topic is not null) s join starts b on b.topic = s.topic and b.part = s.part"
            ),
        ):
            self._sql.execute(f"create temp {text}")

    def _choose(self, named: Sequence[tuple[str, int, int]]) -> None:
        """``chosen``: the records of the keys of the named ones, up to ``MOST_ROWS``, and named ones without a key.

        A key is chosen as a whole or not at all, for a row without its partners has another life; none has more than
        half of these rows. ``left_out`` counts the keys that are not chosen.
        """
        values = ", ".join(
            f"({at}, {text_of(topic)}, {part}, {position})"
            for at, (topic, part, position) in enumerate(named)
        )
        for text in (
            (
                f"named as select v.nth, p.* from (values {values}) v(nth, topic, part, position) join placed p"
                " on p.topic = v.topic and p.part = v.part and p.position = v.position"
            ),
            (
                "sizes as select key, count(*) as many from placed semi join (select key from named) k using (key)"
                f" group by key having count(*) <= {MOST_ROWS // 2}"
            ),
            (
                "taken as select key, sum(many) over (order by nth, key) as taken from ("
                "select key, min(nth) as nth, any_value(many) as many from named join sizes using (key) group by key) k"
            ),
            (
                "chosen as select * exclude (nth) from named where key is null union"
                f" select p.* from placed p semi join (select key from taken where taken <= {MOST_ROWS}) k using (key)"
            ),
        ):
            self._sql.execute(f"create temp table {text}")
        ((self.left_out,),) = self._sql.execute(
            "select count(distinct key) from named where key not in (select key from chosen where key is not null)"
        ).fetchall()

    def _of_output(self) -> str:
        """The numbers of the output records that name a chosen record."""
        output, found = self._contract.output, []
        fields = fields_of_output(output)
        values = ", ".join(f"f[{at}] as {name}" for at, name in enumerate(fields, 1))
        scan = self._run.scan("output", self._run.manifest.query_id or "")
        self._sql.execute(
            f"create temp table claims as select {values} from ("
            f"select {_fields([*fields.values()])} as f from {scan}) read"
        )
        topics = self._contract.left.topic, self._contract.right.topic
        for short, topic in zip(("l", "r"), topics, strict=True):
            if f"{short}_id" not in fields:
                continue
            on = f"c.id = o.{short}_id"
            if output.has_refs:
                # As text: a number that is another one as text names no place.
                on = f"o.{short}_part = c.part::varchar and o.{short}_position = c.position::varchar"
            found.append(
                f"select o.rowid + 1 as n from claims o join chosen c on c.topic = {text_of(topic)} and {on}"
            )
        return " union all ".join(found)

    def _of_state(self) -> str:
        """The numbers of the rows of the state of chosen records, and of the first of each batch and side."""
        self._sql.execute(
            "create temp table states as select batch, side, part, position, key[1] as first"
            f" from {self._run.scan('state')}"
        )
        topics = {"left": self._contract.left.topic, "right": self._contract.right.topic}
        by_place, by_key = (
            "c.part = s.part and c.position = s.position",
            "s.part is null and c.first is not distinct from s.first",
        )
        found = [
            f"select s.rowid + 1 as n from states s join chosen c on c.topic = {text_of(topic)}"
            f" and s.side = '{side}' and {same}"
            for side, topic in topics.items()
            for same in (by_place, by_key)
        ]
        return " union all ".join([*found, "select min(rowid) + 1 as n from states group by batch, side"])


def _fields(names: Sequence[str]) -> str:
    """A list of these fields of ``value`` as text; NULL of what is no JSON."""
    paths = ", ".join(text_of(f'$."{name}"') for name in names)
    return f"case when json_valid(value) then json_extract_string(value, [{paths}]) end"
