"""A large run reduced: which keys SQL proves right, and which records are to be looked at.

Free of I/O, which is the engine's (``tidemark.oracle.large.engine``); the statements are one text for all engines. A
key is *clean* if each of its rows that this Spark gives is right, due in a committed batch, and came once in that
batch, or again where its batch permits it, before the rows of later batches, and if no other output record names a row
of it. All other keys are *dirty*.
Handed on are the dirty keys, up to a size; a *witness* for each coverage goal; and a sample of the clean keys, which
the model judges. Keys are handed on as a whole, and output records only with all that they name: a part of them would
be judged wrong. Of an output of ids, the keys that share the id of a record which may be of any of them are handed on
together, or none is. A run of which something dirty was not handed on is inconclusive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, OutputRecord, StateKey, StateRow
from tidemark.formats.faults import Fault, FaultComponent
from tidemark.formats.input_offsets import records_in
from tidemark.formats.manifest import Manifest
from tidemark.oracle.compare.state_counts import miscounted
from tidemark.oracle.delivery import ANY, deaths_alone, most_copies
from tidemark.oracle.input.history import ROW_BITS, Evidence, History, empty_history, read_batches
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.large import output, record_tables, state_rows
from tidemark.oracle.large.duckdb_engine import duckdb_engine
from tidemark.oracle.large.engine import Engine, LargeEvidence, LargeRun, OpenEngine, key_names
from tidemark.oracle.large.output_order import find_behind
from tidemark.oracle.large.totals import count_rest
from tidemark.oracle.large.witnesses import FIRST_LEFTS, beyond_ends, near_rights, witnesses
from tidemark.oracle.spark.spark_versions import not_compared
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_answer import POPULAR, rules_of
from tidemark.oracle.sql.join_inputs import Columns, input_tables
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import Select

LARGE = 300_000
"""A run with more input records than this is reduced. Calibration: at so many this takes half the time; beyond, the
memory of the other way grows.
"""
SAMPLE_ROWS = 25_000
"""So many rows of clean keys are handed on, which the model judges. Calibration: half a second."""
DIRTY_ROWS = 200_000
"""Up to so many rows of dirty keys are handed on. Calibration: two seconds, and 150 MB."""
UNREAD_ROWS = 20_000
"""Of records that are no events so many are handed on, where the output has rows of ids that no event has."""
_PAIRS = 200_000
"""A key with more pairs of a left and a right row is not in the sample."""
_KEPT = "watermarks stored rows last_placed read_batches expected sizes beyond_ends"
_SPENT_OF_ROWS = ("is_sure", "may_match", "lasts", "stays", "ending", "gone")
"""Columns of ``rows`` that only relations of the join read."""
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
        self.kept: list[StateRow] | None = None
        self.miscounted: list[StateKey] | None = None

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
        """The output records that name chosen records alone, and those that name none."""
        return self._records

    def faults(self) -> Sequence[Fault]:
        """All of the run."""
        return self._run.faults()

    def progress(self) -> Sequence[dict[str, Any]]:
        """All of the run."""
        return self._run.progress()

    def state(self) -> Iterator[StateRow] | None:
        """The rows of chosen records, and those that are of none; ``None`` if the state was not read."""
        return None if self.kept is None else iter(self.kept)

    def state_keys(self) -> list[StateKey] | None:
        """The keys whose count is not the number of their rows; ``None`` if they were not read."""
        return self.miscounted

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """All of the run."""
        return self._run.executor_assignments()


def reduced(run: Evidence, *, large: int = LARGE, opened: OpenEngine = duckdb_engine) -> Reduced | None:
    """A large run reduced; ``None`` if it is small, or has what only the judgement of small runs can judge.

    ``opened`` opens the engine that does it. Raises ``TestbedError`` for what the engine lacks, and ``BrokenEvidence``
    or ``BrokenTrace`` for evidence that it cannot read.
    """
    if getattr(run, "scan", None) is None:
        return None
    evidence = cast("LargeEvidence", run)
    history = empty_history(run.manifest)
    scans = [evidence.scan(name) for name in ("trace", "output")]
    published = records_in(run.manifest.inputs)
    if None in scans or published <= large or not _can_be_reduced(run, history):
        return None
    with opened(LargeRun(evidence, history, published)) as engine:
        return _Reduction(engine, history).run(run)


def _can_be_reduced(run: Evidence, history: History) -> bool:
    manifest = run.manifest
    read_batches(history, run.batches())
    history.inconclusive.clear()  # this history has no rows: whether all are there, the records say
    is_at_least_once = manifest.delivery is Delivery.AT_LEAST_ONCE
    faults = list(run.faults())
    may_be_resent = is_at_least_once and any(fault.killed(FaultComponent.BROKER) for fault in faults)
    history.deaths = deaths_alone(faults)
    return (
        not not_compared(manifest.versions)
        and not history.gaps
        and not any(history.pushdown.inferable)
        and not may_be_resent
        and not (history.by_time and (run.progress() or run.state() is not None))
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
    """The steps, over tables of an engine."""

    def __init__(self, engine: Engine, history: History) -> None:
        self._engine = engine
        self._history = history
        self._first_places: dict[tuple[int, int], int] = {}

    def run(self, run: Evidence) -> Reduced | None:
        """All of them; ``None`` if the records are not those that the manifest names."""
        engine, history = self._engine, self._history
        for name, columns in input_tables(history).items():
            if name != "records":
                engine.register(name, columns)
        engine.make_records()
        if not self._all_are_there():
            return None
        rules = replace(rules_of(history), popular=POPULAR, bucket_us=engine.bucket_us)
        engine.make("sentinels", "select n as row from parsed where is_sentinel")
        of_keys = [
            Select("expected", _expected(history)),
            *_OF_KEYS,
            Select("beyond_ends", beyond_ends(history)),
        ]
        has_state = run.state() is not None
        of_join = [*relations(rules, engine.each_number), *of_keys]
        engine.make_relations(of_join, f"{_KEPT} answers" if has_state else _KEPT)
        engine.drop_columns("rows", _SPENT_OF_ROWS)
        fields: state_rows.Fields = {}
        if has_state:
            engine.make_state()
            compared = state_rows.compare_state(engine, history)
            if compared is None:
                return None
            fields = compared
        if not history.contract.output.has_refs:
            engine.make_relations(output.BESIDE_NAMELESS, "beside_nameless")
        engine.make_came()
        self._compare(has_state=has_state)
        self._choose(has_state=has_state)
        rest = replace(count_rest(engine, history), state_fields=fields, first_places=self._first_places)
        inputs = engine.inputs("select r.row as n, r.position from records r join chosen c on c.row = r.row")
        found = Reduced(run, rest, inputs, engine.outputs("select o from picked where is_whole"))
        if has_state:
            found.kept = engine.state(state_rows.HANDED_ON)
            if (keys := run.state_keys()) is not None:
                found.miscounted = miscounted(history, fields, run.state() or (), keys)
        return found

    def _all_are_there(self) -> bool:
        """Forget what was not published; whether there are as many records as the manifest says."""
        engine = self._engine
        engine.register("published", _published_offsets(self._history))
        beyond = "from records r left join published p on p.side = r.side and p.part = r.part and r.position < p.finish"
        ((unpublished,),) = engine.rows(f"select count(*) {beyond} where p.side is null")
        if unpublished:
            engine.make("records", f"select r.* {beyond} where p.side is not null")
            engine.make("parsed", "select p.* from parsed p semi join records r on r.row = p.n")
        ((short,),) = engine.rows(
            "select count(*) from published p left join ("
            "select side, part, count(*) as there from records group by side, part"
            ") r on r.side = p.side and r.part = p.part where coalesce(there, 0) <> many"
        )
        return bool(short == 0)

    def _compare(self, *, has_state: bool) -> None:
        """``dirty``: the keys of which something is to be looked at."""
        plans = [batch.plan for batch in self._history.batches]
        many: defaultdict[int, list[int]] = defaultdict(list)
        for plan in plans:
            many[most_copies(self._history.manifest, plan, self._history.deaths)].append(plan.batch)
        permitted = [batch for most, batches in many.items() if most > 1 for batch in batches]
        beyond = "".join(
            f" or t.many > {most} and {_is_one_of('e.batch', batches)}"
            for most, batches in many.items()
            if 1 < most < ANY
        )
        committed = [plan.batch for plan in plans if plan.committed]
        is_wrong = (
            f"t.first_batch <> e.batch or t.last_batch <> e.batch or t.many > 1 and not"
            f" {_is_one_of('e.batch', permitted)}{beyond} or not {_is_one_of('e.batch', committed)}"
        )
        wrong = (
            "select e.key, e.identity as due, t.identity as seen from (select * from expected where comes) e"
            " full outer join times t on t.identity = e.identity"
            f" where e.identity is null or t.identity is null or {is_wrong}"
        )
        self._engine.make_relations([Select("times", _TIMES), Select("wrong", wrong)], "times wrong")
        self._first_places = find_behind(self._engine)
        self._engine.make("named", _NAMED)
        if self._history.contract.output.has_refs:
            self._engine.register("shared", {"key": np.array([], dtype=np.int64)})
        else:
            self._engine.make_relations(_SHARED, "shared")
        self._engine.make("dirty", _dirty(has_state=has_state))

    def _choose(self, *, has_state: bool) -> None:
        """``chosen``: the rows that are handed on: witnesses, then rows of dirty keys, then those of the sample.

        A key has a row at least, so that of each priority no more keys can be taken than there may be rows.
        ``picked(o, is_whole)``: the output records that name one of them, or are no row for all that is known; whether
        all records that it names are chosen, so that it is handed on.
        """
        ((shared,),) = self._engine.rows("select sum(s.many) from sizes s join shared h on h.key = s.key")
        least = _IN_ANY_CASE if (shared or 0) <= DIRTY_ROWS else _FIRST
        seed = abs(self._history.manifest.seed or 0) % _PRIME
        found, alone = witnesses(self._history, key_names(self._history)), {}
        if self._engine.parts > 1:  # each takes the memory of a statement
            alone = {f"witness_{number}": text for number, text in enumerate(found)}
            found = [f"select row from {name}" for name in alone]
        first = "select * from (select * from ranked where priority = {} order by place limit {}) keys_{}"
        for name, text in {
            "first_lefts": FIRST_LEFTS,
            "near_rights": near_rights(self._history),
            **alone,
            "witness": f"select distinct row from ({' union all '.join(found)}) found where row is not null",
            "ranked": f"""select s.key, s.many,
                (s.key * {_FACTOR} + {seed}) % {_PRIME} + {_PRIME} * coalesce(d.urgency, 0) as place,
                case when w.key is not null or d.urgency = {_IN_ANY_CASE} then 0
                    when d.key is not null then 1 else 2 end as priority
            from sizes s left join dirty d on d.key = s.key left join (
                select distinct r.key from records r join witness v on v.row = r.row where r.key is not null
            ) w on w.key = s.key
            where coalesce(d.urgency, {least}) >= {least} and (w.key is not null or d.urgency = {_IN_ANY_CASE}
                or d.key is not null and s.many <= {DIRTY_ROWS} or d.key is null and s.lefts * s.rights <= {_PAIRS})""",
            "chosen_keys": f"""select key
            from (
                select key, priority, sum(many) over (
                    order by priority, place rows between unbounded preceding and current row
                ) as taken
                from (
                    select * from ranked where priority = 0
                    union all {first.format(1, DIRTY_ROWS, 1)} union all {first.format(2, SAMPLE_ROWS, 2)}
                ) nearest
            ) summed
            where priority = 0 or priority = 1 and taken <= {DIRTY_ROWS} or priority = 2 and taken <= {SAMPLE_ROWS}""",
            "chosen": f"""select r.row from records r join chosen_keys k on k.key = r.key
            union select row from sentinels
            union select w.row from records w join (select row from witness union select row from named) v
                on v.row = w.row where w.key is null
            {"" if self._history.contract.output.has_refs else f"union {_UNREAD}"}
            {f"union {state_rows.CHOSEN}" if has_state else ""}""",
            "picked": _PICKED,
        }.items():
            self._engine.make(name, text)


def _expected(history: History) -> str:
    """The rows that this Spark gives, each by a number, with the input row that it is made of: the left one of two."""
    identity = (
        f"coalesce(a.l, a.r) * {1 << ROW_BITS} + case when a.l is null then 0 else coalesce(a.r + 1, 0) end"
    )
    columns = f"select {identity} as identity, a.batch, a.comes, a.is_right"
    if history.contract.output.right_id is None:
        return f"{columns}, w.row, w.side, w.key from answers a join rows w on w.row = a.l"
    side = f"case when a.l is null then {RIGHT} else {LEFT} end"
    return f"{columns}, coalesce(a.l, a.r) as row, {side} as side, a.key from answers a"


_OF_KEYS = (
    Select(
        "sizes",
        """
select key, count(*) as many, sum(case when side = 0 then 1 else 0 end) as lefts,
    sum(case when side = 1 then 1 else 0 end) as rights
from records where key is not null group by key
""",
    ),
    Select("last_placed", "select row, batch from placed where batch = (select max(batch) from placed)"),
    Select("read_batches", "select distinct batch from placed"),
)
"""How many rows each key has; what the last batch reads of it, and which read any."""
_TIMES = """
select identity, count(*) as many, min(batch) as first_batch, max(batch) as last_batch
from came where identity is not null group by identity
"""
_UNEXPECTED = """
select c.l, c.r from came c semi join (select seen from wrong where due is null) w on w.seen = c.identity
"""
_NAMED = f"""
select row
from (
    select l as row from ({_UNEXPECTED}) u union select r from ({_UNEXPECTED}) u
    union select l from came where identity is null union select r from came where identity is null
) named_rows
where row is not null
"""
"""The rows that are named by records which are none of the expected rows; a record without an identity is none."""
_UNREAD = f"""
select row from (
    select row from records where not readable and exists (select 1 from came where identity is null)
    order by row limit {UNREAD_ROWS}
) unread
"""
"""The records that an output record of ids may name without the judge being able to read them."""
_PICKED = """
select c.o, c.batch is null or (c.l is null or a.row is not null) and (c.r is null or b.row is not null) as is_whole
from came c left join chosen a on a.row = c.l left join chosen b on b.row = c.r
where c.identity is null or a.row is not null or b.row is not null
"""
"""A record without a batch is wrong, whatever it names."""
_SHARED = [
    Select(
        "doubtful",
        """
select distinct p.side, p.id from parsed p join (
    select l as row from came where identity is null union select r from came where identity is null
) c on c.row = p.n
where p.readable
""",
        of_all=True,
    ),
    Select(
        "alike",
        """
select case when p.id is not null then p.side end as side, p.id, r.key
from parsed p join doubtful d on d.side = p.side and d.id is not distinct from p.id join records r on r.row = p.n
where p.readable
""",
        of_all=True,
    ),
    Select(
        "shared",
        """
select distinct a.key from alike a join (
    select side, id from alike group by side, id having min(key) <> max(key)
) s on s.side is not distinct from a.side and s.id is not distinct from a.id
""",
        of_all=True,
    ),
]
"""The events with the ids that records without an identity name; ``shared`` are the keys of those in several keys. A
record without ids may be of an event without an id of either side.
"""
_IN_ANY_CASE, _FIRST, _LATER = range(3)
"""The ``urgency`` of dirty keys: those that share an id are handed on if all of them can be; then come the keys that a
record names which is none of the expected rows, for it is wrong in most cases.
"""


def _dirty(*, has_state: bool) -> str:
    """The keys of which something is to be looked at, and in which order they are handed on."""
    return f"""
select key, min(urgency) as urgency from (
    select key, {_IN_ANY_CASE} as urgency from shared
    union all select w.key, {_FIRST} from records w join named n on n.row = w.row
    union all select w.key, {_FIRST} from records w join sentinels s on s.row = w.row
    union all select key, {_LATER} from wrong where due is not null
    union all select key, {_LATER} from expected where comes <> is_right
    union all select key, {_LATER} from behind
    {f"union all select key, {_LATER} from state_dirty" if has_state else ""}
) found where key is not null group by key
"""


def _published_offsets(history: History) -> Columns:
    """Up to which offset each partition of each side was written, and how many records that are."""
    rows = []
    for side in (LEFT, RIGHT):
        topic = history.manifest.inputs.get(history.side(side).topic)
        for part, end in ({} if topic is None else topic.end_offsets).items():
            start = 0 if topic is None else topic.start_offsets.get(part, 0)
            rows.append((side, int(part), end, end - start))
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
    return dict(zip(("side", "part", "finish", "many"), columns, strict=True))


def _is_one_of(name: str, numbers: Sequence[int]) -> str:
    return f"{name} in ({', '.join(map(str, numbers))})" if numbers else "false"
