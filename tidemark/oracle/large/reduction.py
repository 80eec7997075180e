"""A large run reduced: which keys SQL proves right, and which records are to be looked at.

Free of I/O but for the scans of the evidence, and for a temporary folder into which DuckDB spills. A key is *clean* if
each of its rows that this Spark gives is right, due in a committed batch, and came once in that batch, or again where
its batch permits it, and if no other output record names a row of it. All other keys are *dirty*. Handed on are the
dirty keys, up to a size; a *witness* for each coverage goal; and a sample of the clean keys, which the model judges.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np

from tidemark.errors import TestbedError
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, Manifest, OutputRecord, StateRow
from tidemark.formats.faults import Fault, FaultComponent
from tidemark.oracle.delivery import may_repeat
from tidemark.oracle.input.history import ROW_BITS, Evidence, History, empty_history, read_batches
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.large import output, record_tables
from tidemark.oracle.large.record_tables import Database, RecordTables
from tidemark.oracle.large.scanned_run import ScannedRun, scanned_run
from tidemark.oracle.large.totals import count_rest
from tidemark.oracle.large.witnesses import witnesses
from tidemark.oracle.model.sample import ROWS
from tidemark.oracle.spark.known_defects import is_modelled
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_answer import POPULAR, QUIET, make_tables
from tidemark.oracle.sql.join_inputs import input_tables
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import DUCKDB, JoinRules

LARGE = 1_000_000
"""A run with more input records than this is reduced. Calibration: at so many both ways take ten seconds; beyond, the
memory of the other way grows.
"""
_LEAST_MB, _RECORDS_OF_A_MB, _MOST_MB = 400, 16_000, 2_500
"""What DuckDB holds in memory: so much, and more with the number of records, but never more than that; the rest is in
its temporary folder.
"""
DIRTY_ROWS = 200_000
"""Up to so many rows of dirty keys are handed on. Calibration: two seconds, and 150 MB."""
_PAIRS = 200_000
"""A key with more pairs of a left and a right row is not in the sample."""
_KEPT = "answers watermarks stored rows placed"
_PRIME, _FACTOR = 4_294_967_291, 1_103_515_245
"""Numbers that scatter keys: a sample takes them in the order of a product with the seed in it."""


class Reduced:
    """The part of a run that is to be looked at, with fewer inputs and less output; and the rest in numbers."""

    def __init__(
        self, run: Evidence, rest: Rest, inputs: list[InputRecord], records: list[OutputRecord]
    ) -> None:
        self._run = run
        self._inputs = inputs
        self._records = records
        self.rest = rest

    @property
    def manifest(self) -> Manifest:
        """That of the run."""
        return self._run.manifest

    def inputs(self) -> list[InputRecord]:
        """The records that were chosen."""
        return self._inputs

    def batches(self) -> Sequence[Batch]:
        """All of the run."""
        return self._run.batches()

    def output(self) -> list[OutputRecord]:
        """The output records that name a chosen one, and those that are not plain."""
        return self._records

    def faults(self) -> Sequence[Fault]:
        """All of the run."""
        return self._run.faults()

    def progress(self) -> Sequence[dict[str, Any]]:
        """All of the run."""
        return self._run.progress()

    def state(self) -> Iterator[StateRow] | None:
        """A run whose state was read is not reduced."""
        return None

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """All of the run."""
        return self._run.executor_assignments()


def reduced(run: Evidence, *, large: int = LARGE) -> Reduced | None:
    """A large run reduced; ``None`` if it is small, or has what only the judgement of small runs can judge.

    Raises ``TestbedError`` if DuckDB has neither memory nor disk for it.
    """
    scanned = scanned_run(run)
    if scanned is None:
        return None
    history = empty_history(run.manifest)
    published = _published(history)
    if published <= large or not _can_be_reduced(run, history):
        return None
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _explained():
        config: dict[str, Any] = {"memory_limit": memory_limit(published), "temp_directory": folder}
        with duckdb.connect(":memory:", config=config) as sql:
            sql.execute(QUIET)
            return _Reduction(sql, history, scanned).run(run)


@contextmanager
def _explained() -> Iterator[None]:
    """Say what DuckDB lacked."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise TestbedError(
            "the run could not be judged: DuckDB has too little memory or disk for it",
            detail=str(error).partition("\n")[0],
            hint=f"its temporary files are below {tempfile.gettempdir()!r}: free some space there, or set TMPDIR",
        ) from error


def memory_limit(records: int) -> str:
    """What DuckDB may hold in memory for a run of so many input records."""
    return f"{min(_MOST_MB, _LEAST_MB + records // _RECORDS_OF_A_MB)}MB"


def _published(history: History) -> int:
    """How many records there are."""
    return sum(
        end - topic.start_offsets.get(part, 0)
        for topic in history.manifest.inputs.values()
        for part, end in topic.end_offsets.items()
    )


def _can_be_reduced(run: Evidence, history: History) -> bool:
    manifest = run.manifest
    read_batches(history, run.batches())
    history.inconclusive.clear()  # this history has no rows: whether all are there, the records say
    is_at_least_once = manifest.delivery is Delivery.AT_LEAST_ONCE
    may_be_resent = is_at_least_once and any(fault.killed(FaultComponent.BROKER) for fault in run.faults())
    return (
        is_modelled(manifest.versions)
        and not history.gaps
        and not any(history.pushdown.inferable)
        and not may_be_resent
        and run.state() is None
        and not (history.by_time and run.progress())
        and _is_whole(history)
        and record_tables.can_be_read(history)
        and output.can_be_read(history)
    )


def _is_whole(history: History) -> bool:
    """Whether all that batches read was published."""
    for side in (LEFT, RIGHT):
        name = history.side(side).topic
        topic = history.manifest.inputs.get(name)
        ends = {} if topic is None else topic.end_offsets
        for batch in history.batches:
            if any(end > ends.get(part, 0) for part, end in batch.plan.end_offsets.get(name, {}).items()):
                return False
    return True


class _Reduction:
    """The steps, over tables of DuckDB."""

    def __init__(self, sql: Database, history: History, run: ScannedRun) -> None:
        self._sql = sql
        self._history = history
        self._run = run
        self._records = RecordTables(sql, history, run)

    def run(self, run: Evidence) -> Reduced | None:
        """All of them; ``None`` if the records are not those that the manifest names."""
        sql, history = self._sql, self._history
        self._records.make()
        if not self._all_are_there():
            return None
        for name, columns in input_tables(history).items():
            if name != "records":
                sql.register(name, columns)
        rules = JoinRules(
            history.contract, history.pushdown, history.by_time, history.misses_rows, popular=POPULAR
        )
        make_tables(sql, relations(rules, DUCKDB), _KEPT)
        output.make_came(sql, history, self._run.output)
        self._compare()
        self._choose()
        rest = count_rest(sql, history, self._records.last)
        return Reduced(run, rest, self._inputs(), self._outputs())

    def _all_are_there(self) -> bool:
        """Forget what was not published; whether there are as many records as the manifest says."""
        expected = []
        for side in (LEFT, RIGHT):
            topic = self._history.manifest.inputs.get(self._history.side(side).topic)
            for part, end in ({} if topic is None else topic.end_offsets).items():
                start = 0 if topic is None else topic.start_offsets.get(part, 0)
                expected.append((side, int(part), end, end - start))
        found = " union all ".join(
            f"select {side} as side, {part} as part, {end} as finish, {many} as many"
            for side, part, end, many in expected
        )
        published = (
            f"({found}) e" if found else "(select 0 as side, 0 as part, 0 as finish, 0 as many where false) e"
        )
        self._sql.execute(
            f"delete from records where not exists (select 1 from {published}"
            " where e.side = records.side and e.part = records.part and records.position < e.finish)"
        )
        ((short,),) = self._sql.execute(
            f"select count(*) from {published} left join ("
            "select side, part, count(*) as there from records group by all"
            ") r using (side, part) where coalesce(there, 0) <> many"
        ).fetchall()
        return bool(short == 0)

    def _compare(self) -> None:
        """``expected``: the rows that this Spark gives; ``dirty``: the keys of which something is to be looked at."""
        plans = [batch.plan for batch in self._history.batches]
        permitted = [plan.batch for plan in plans if may_repeat(self._history.manifest, plan)]
        committed = [plan.batch for plan in plans if plan.committed]
        identity = (
            f"(coalesce(a.l, a.r) << {ROW_BITS}) + case when a.l is null then 0 else coalesce(a.r + 1, 0) end"
        )
        for text in (
            f"""create temp table expected as select {identity} as identity, w.key, a.batch, a.comes, a.is_right
            from answers a join rows w on w.row = coalesce(a.l, a.r)""",
            """create temp table times as select identity, count(*) as many, min(batch) as first, max(batch) as last
            from came where identity is not null group by identity""",
            f"""create temp table dirty as
            select key from expected where comes <> is_right
            union select e.key from expected e left join times t using (identity)
            where e.comes and (t.identity is null or t.first <> e.batch or t.last <> e.batch
                or t.many > 1 and not {_is_one_of("e.batch", permitted)} or not {_is_one_of("e.batch", committed)})
            union select w.key from came c anti join (select identity from expected where comes) e using (identity)
                join records w on w.row = c.l or w.row = c.r where w.key is not null
            union select key from records where row > {self._records.last} and key is not null""",
        ):
            self._sql.execute(text)

    def _choose(self) -> None:
        """``chosen``: the rows that are handed on: witnesses, then rows of dirty keys, then those of the sample."""
        seed = abs(self._history.manifest.seed or 0) % _PRIME
        found = " union all ".join(witnesses(self._history, self._records))
        for text in (
            f"create temp table witness as select distinct row from ({found}) found where row is not null",
            """create temp table sizes as
            select key, count(*) as many, count(*) filter (side = 0) as lefts, count(*) filter (side = 1) as rights
            from records where key is not null group by key""",
            f"""create temp table ranked as
            select s.key, s.many, (s.key * {_FACTOR} + {seed}) % {_PRIME} as place,
                case when w.key is not null then 0 when d.key is not null then 1 else 2 end as rank
            from sizes s left join dirty d using (key) left join (
                select distinct key from records join witness using (row) where key is not null
            ) w using (key)
            where d.key is not null or w.key is not null or s.lefts * s.rights <= {_PAIRS}""",
            f"""create temp table chosen_keys as
            select key
            from (
                select key, rank, sum(many) over (
                    order by rank, place rows between unbounded preceding and current row
                ) as taken
                from ranked
            ) summed
            where rank = 0 or rank = 1 and taken <= {DIRTY_ROWS} or rank = 2 and taken <= {ROWS}""",
            f"""create temp table chosen as
            select row from records join chosen_keys using (key)
            union select row from witness
            union select n from parsed where n > {self._records.last}
            union select l from came where identity is null and l is not null
            union select r from came where identity is null and r is not null""",
        ):
            self._sql.execute(text)

    def _inputs(self) -> list[InputRecord]:
        """The chosen records, in order."""
        found = self._sql.execute(
            "select n, position from parsed where n in (select row from chosen) order by n"
        ).fetchnumpy()
        numbers, positions = found["n"], found["position"].tolist()
        asked = np.zeros(numbers[-1] + 1 if len(numbers) else 0, dtype=np.uint8)
        asked[numbers] = 1
        last = self._records.last
        return [
            InputRecord(
                record.topic,
                record.partition,
                position,
                record.value if record.value is not None else record.value_bytes(),
                number > last,
            )
            for record, number, position in zip(
                self._records.records(asked), numbers.tolist(), positions, strict=True
            )
        ]

    def _outputs(self) -> list[OutputRecord]:
        """The output records that are not plain, or name a chosen record, or one that is not there."""
        found = self._sql.execute(
            "select o from came where identity is null or l in (select row from chosen)"
            " or r in (select row from chosen) order by o"
        ).fetchnumpy()["o"]
        asked = np.zeros(found[-1] + 1 if len(found) else 0, dtype=np.uint8)
        asked[found] = 1
        return list(self._run.pick("output", asked.tobytes()))


def _is_one_of(name: str, numbers: Sequence[int]) -> str:
    return f"{name} in ({', '.join(map(str, numbers))})" if numbers else "false"
