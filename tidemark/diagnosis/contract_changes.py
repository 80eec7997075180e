"""Other contracts, rules and steps that a query may have in the place of those that were promised.

Free of I/O. Only what the contract and the records leave room for; no number is guessed here (``fitted_changes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tidemark.diagnosis.setting import Change, NullKeys, OutputReading, Setting, TimeReading, with_kind
from tidemark.formats.contract import Contract, JoinKind, Side, Term, WatermarkPolicy
from tidemark.oracle.causes.common_facts import duration
from tidemark.oracle.compare.wording import term_text
from tidemark.oracle.input.history import History
from tidemark.oracle.spark.spark_versions import RULES, minor_version
from tidemark.oracle.spark.time_ranges import FIRST_FORMAT_BY_TIME, LEFT, RIGHT, US_PER_MS

SIDES = ("left", "right")
US_PER_S = 1_000_000
_SOME, _FEW = 3, 0.1
_KINDS = {
    JoinKind.INNER: "an inner join",
    JoinKind.LEFT_OUTER: "a left outer join",
    JoinKind.RIGHT_OUTER: "a right outer join",
    JoinKind.FULL_OUTER: "a full outer join",
    JoinKind.LEFT_SEMI: "a left semi join",
}


def contract_changes(setting: Setting, history: History, spark: str) -> list[Change]:
    """All single changes of a setting that take no number from the evidence, the likeliest first.

    ``history`` are the rows of the run, ``spark`` is the version that ran.
    """
    contract = setting.contract
    return [
        *_kinds(contract),
        *_ends(contract),
        *_keys(contract),
        *_null_keys(setting, history),
        *_policy(contract),
        *_delays(contract),
        *_conditions(contract),
        *_null_times(contract),
        *_steps(setting, history),
        *_readings(setting),
        *_spark(spark, history),
    ]


def output_changes(setting: Setting, strange: int, came: int) -> list[Change]:
    """Other ways to read the records of the output, of which ``strange`` are no rows, and ``came`` are.

    A column that is another is so in all records: where few are strange, only what becomes of a NULL is asked about.
    """
    left, right = setting.contract.left.topic, setting.contract.right.topic
    said = {
        OutputReading.EXCHANGED: f"the ids of {left} and {right} are exchanged in the output",
        OutputReading.WITHOUT_PLACES: (
            "its rows are right by their ids, but the columns with partition and offset of the input records do not"
            " say where those are"
        ),
        OutputReading.NEXT_LEFT: f"the offset of the record of {left} is one too high in every output record",
        OutputReading.NEXT_RIGHT: f"the offset of the record of {right} is one too high in every output record",
        OutputReading.EMPTY_TEXT: "the sink writes an empty text in the place of NULL",
        OutputReading.ANY_QUERY: "the sink names another query in the header 'query'",
    }
    return [
        Change(
            reading.value, f"this contract gives, if {_reads(reading)}", meaning, _reading(reading),
            family="output" if reading is not OutputReading.WITHOUT_PLACES else "places",
        )
        for reading, meaning in said.items()
        if (reading is OutputReading.EMPTY_TEXT and strange >= _SOME) or came <= _FEW * strange
    ]  # fmt: skip


def _reads(reading: OutputReading) -> str:
    return {
        OutputReading.EXCHANGED: "its two ids are read the other way round",
        OutputReading.WITHOUT_PLACES: "partitions and offsets in it are left aside",
        OutputReading.NEXT_LEFT: "offsets of left records are read as one less",
        OutputReading.NEXT_RIGHT: "offsets of right records are read as one less",
        OutputReading.EMPTY_TEXT: "an empty text is read as NULL",
        OutputReading.ANY_QUERY: "the header 'query' is left aside",
    }[reading]


def _reading(reading: OutputReading) -> Callable[[Setting], Setting]:
    return lambda setting: replace(setting, reading=reading)


def _of_contract(change: Callable[[Contract], Contract]) -> Callable[[Setting], Setting]:
    return lambda setting: replace(setting, contract=change(setting.contract))


def _of_side(name: str, **fields: object) -> Callable[[Setting], Setting]:
    def change(contract: Contract) -> Contract:
        side: Side = getattr(contract, name)
        return replace(contract, **{name: replace(side, **fields)})  # type: ignore[arg-type]

    return _of_contract(change)


def _kinds(contract: Contract) -> Iterator[Change]:
    for kind, said in _KINDS.items():
        if kind is not contract.kind:
            yield Change(
                f"kind={kind}", f"{said} gives", f"the query joins as {said} does, not as {_KINDS[contract.kind]}",
                _of_contract(lambda one, kind=kind: with_kind(one, kind)),  # type: ignore[misc]
                family="kind",
            )  # fmt: skip


def _ends(contract: Contract) -> Iterator[Change]:
    """An end of the range of times is excluded, or not, or is not there."""
    bound, topics = contract.bound, (contract.left.topic, contract.right.topic)
    if bound.window_ms is not None or bound.equal:
        return
    for end, ms, strict in (
        ("lower", bound.lower_ms, bound.lower_strict), ("upper", bound.upper_ms, bound.upper_strict),
    ):  # fmt: skip
        if ms is None:
            continue
        does = "includes" if strict else "excludes"
        yield Change(
            f"{end}_strict" if not strict else f"no {end}_strict",
            f"this contract {'without' if strict else 'with'} `{end}_strict` gives",
            f"the query {does} {apart(topics, ms)}",
            _of_contract(
                lambda one, end=end, strict=strict: replace(  # type: ignore[misc]
                    one, bound=replace(one.bound, **{f"{end}_strict": not strict})
                )
            ),
            family=f"{end} end",
        )
        yield Change(
            f"{end}_ms=None", f"this contract without `{end}_ms` gives",
            f"the query has no {end} end of its time bound: the contract's is {apart(topics, ms)}",
            _of_contract(
                lambda one, end=end: replace(  # type: ignore[misc]
                    one, bound=replace(one.bound, **{f"{end}_ms": None, f"{end}_strict": False})
                )
            ),
            family=f"{end} end",
        )  # fmt: skip


def apart(topics: tuple[str, str], ms: int) -> str:
    """``clicks exactly 0:00:20.000 after impressions``, of ``left.time - right.time`` in milliseconds."""
    left, right = topics
    if ms == 0:
        return f"{right} at the same time as {left}"
    order = "after" if ms < 0 else "before"
    return f"{right} exactly {duration(abs(ms) * US_PER_MS)} {order} {left}"


def _keys(contract: Contract) -> Iterator[Change]:
    """One key column is not compared."""
    pairs = list(zip(contract.left.keys, contract.right.keys, strict=True))
    for at, (mine, its) in enumerate(pairs if len(pairs) > 1 else []):
        kept = [pair for number, pair in enumerate(pairs) if number != at]

        def without(one: Contract, kept: list[tuple[str, str]] = kept) -> Contract:
            left, right = (tuple(pair[side] for pair in kept) for side in (LEFT, RIGHT))
            return replace(one, left=replace(one.left, keys=left), right=replace(one.right, keys=right))

        names = mine if mine == its else f"{mine} = {its}"
        yield Change(
            f"keys without {mine}", f"this contract without the key `{names}` gives",
            f"the query does not compare {contract.left.topic}.{mine} with {contract.right.topic}.{its}",
            _of_contract(without), family="keys",
        )  # fmt: skip


def _null_keys(setting: Setting, history: History) -> Iterator[Change]:
    if not any(key < 0 and key > -(1 << 61) for key in history.rows.key):
        return
    joins = setting.contract.kind is JoinKind.FULL_OUTER
    value = NullKeys.APART if joins else NullKeys.JOINED
    yield Change(
        f"NULL keys {value}",
        "this contract gives, if a NULL key is equal to a NULL key" if not joins
        else "this contract gives, if NULL keys match nothing, as in SQL",
        "the query joins rows whose key has a NULL" if not joins else "the query joins no row whose key has a NULL",
        lambda one: replace(one, null_keys=value), family="NULL keys",
    )  # fmt: skip


def _policy(contract: Contract) -> Iterator[Change]:
    other = next(one for one in WatermarkPolicy if one is not contract.policy)
    slower = "faster" if other is WatermarkPolicy.MAX else "slower"
    yield Change(
        f"policy={other}", f"this contract with the watermark policy `{other}` gives",
        f"the watermark of the query follows the {slower} of its inputs",
        _of_contract(lambda one: replace(one, policy=other)),
    )  # fmt: skip


def _delays(contract: Contract) -> Iterator[Change]:
    """A side, or both, have no watermark."""
    for name in SIDES:
        side: Side = getattr(contract, name)
        if side.watermark_delay_ms is not None:
            yield Change(
                f"{name}.watermark_delay_ms=None", f"this contract without a watermark on {side.topic} gives",
                f"the query has no watermark on {side.topic}",
                _of_side(name, watermark_delay_ms=None), family=f"{name} delay",
            )  # fmt: skip
    if None not in (contract.left.watermark_delay_ms, contract.right.watermark_delay_ms):
        yield Change(
            "no watermarks", "this contract without watermarks gives", "the query has no watermark at all",
            lambda one: _of_side("left", watermark_delay_ms=None)(_of_side("right", watermark_delay_ms=None)(one)),
        )  # fmt: skip


def _conditions(contract: Contract) -> Iterator[Change]:
    """A filter or a conjunct is not there, or in another place."""
    for name in SIDES:
        side: Side = getattr(contract, name)
        for what in side.filters:
            said = f"{side.topic}.{what.field} {what.op} {what.value}"
            rest = tuple(one for one in side.filters if one != what)
            yield Change(
                f"no filter {said}", f"this contract without the filter `{said}` gives",
                f"the query does not filter by {said}", _of_side(name, filters=rest), family=f"filter {said}",
            )  # fmt: skip
    for term in contract.condition:
        others = tuple(one for one in contract.condition if one != term)
        said = term_text(term)
        yield Change(
            f"no condition {said}", f"this contract without the condition `{said}` gives",
            f"the query does not ask for {said}", _with_terms(others, contract.where), family=f"condition {said}",
        )  # fmt: skip
        yield Change(
            f"condition {said} in where", f"this contract gives with `{said}` in `where`",
            f"the query filters the joined rows by {said}, which drops NULL rows, too",
            _with_terms(others, (*contract.where, term)), family=f"condition {said}",
        )  # fmt: skip
    for term in contract.where:
        others = tuple(one for one in contract.where if one != term)
        said = term_text(term)
        yield Change(
            f"no where {said}", f"this contract without `{said}` in `where` gives",
            f"the query does not filter the joined rows by {said}", _with_terms(contract.condition, others),
            family=f"where {said}",
        )  # fmt: skip
        yield Change(
            f"where {said} in condition", f"this contract gives with `{said}` in the join condition",
            f"the query asks for {said} in its join condition, so that rows without a match stay",
            _with_terms((*contract.condition, term), others), family=f"where {said}",
        )  # fmt: skip


def _with_terms(condition: tuple[Term, ...], where: tuple[Term, ...]) -> Callable[[Setting], Setting]:
    return _of_contract(lambda contract: replace(contract, condition=condition, where=where))


def _null_times(contract: Contract) -> Iterator[Change]:
    for name in SIDES:
        side: Side = getattr(contract, name)
        keeps = side.keeps_null_event_time
        yield Change(
            f"{name}.keeps_null_event_time={not keeps}".lower(),
            f"this contract {'without' if keeps else 'with'} `keeps_null_event_time` on {side.topic} gives",
            f"the query {'drops' if keeps else 'keeps'} rows of {side.topic} without an event time",
            _of_side(name, keeps_null_event_time=not keeps), family=f"{name} NULL times",
        )  # fmt: skip


def _steps(setting: Setting, history: History) -> Iterator[Change]:
    """A deduplication before the join, or after it."""
    rows, contract = history.rows, setting.contract
    for side, name in enumerate(SIDES):
        ids = [one for row, one in enumerate(rows.id) if rows.side[row] == side and one is not None]
        if len(set(ids)) < len(ids):
            topic = getattr(contract, name).topic
            yield Change(
                f"{name} deduplicated", f"this contract gives behind a deduplication of {topic}",
                f"the query keeps the first row of each id of {topic}, before the join",
                lambda one, side=side: replace(one, first_of_id=(*one.first_of_id, side)),  # type: ignore[misc]
                family=f"{name} deduplicated",
            )  # fmt: skip
    yield Change(
        "output deduplicated", f"this contract gives with a deduplication by {contract.output.left_id} behind it",
        f"the query keeps the first output row of each {contract.output.left_id}",
        lambda one: replace(one, first_of_output=True), family="output deduplicated",
    )  # fmt: skip


def _readings(setting: Setting) -> Iterator[Change]:
    for side, name in enumerate(SIDES):
        topic = getattr(setting.contract, name).topic
        yield Change(
            f"{name} times cut to seconds", f"this contract gives, if times of {topic} have no fractions of seconds",
            f"the query cuts the event times of {topic} to whole seconds",
            lambda one, side=side: replace(  # type: ignore[misc]
                one, readings=(*one.readings, TimeReading(side, unit_us=US_PER_S))
            ),
            family=f"{name} times",
        )  # fmt: skip


def _spark(spark: str, history: History) -> Iterator[Change]:
    """The rules and known defects of another Spark, or of another format of the state."""
    ran = minor_version(spark)
    for version in RULES:
        if version != ran:
            named = ".".join(map(str, version))
            yield Change(
                f"spark={named}", f"Spark {named} gives by its rules and known defects",
                f"what ran behaves as Spark {named}, not as {spark or 'the newest Spark'}",
                lambda one, named=named: replace(one, spark=f"{named}.0"),  # type: ignore[misc]
                family="spark",
            )  # fmt: skip
    if not history.by_time:
        yield Change(
            "state format 4", "this contract gives in state format 4 of Spark 4.2",
            "what ran behaves as state format 4 of Spark 4.2 with its known defect `format-4-misses-rows`",
            lambda one: replace(one, state_format=FIRST_FORMAT_BY_TIME, spark="4.2.0"), family="spark",
        )  # fmt: skip
    else:
        yield Change(
            "state format 2", "this contract gives in a state format before 4",
            "what ran behaves as state formats before 4",
            lambda one: replace(one, state_format=2), family="spark",
        )  # fmt: skip
