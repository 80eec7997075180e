"""The contract held against the plan: each difference is a sentence that says what the one says and what the other.

Free of I/O. Only what is certain is a mismatch. What the plan has but this cannot read is listed as not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidemark.formats.contract import Contract, JoinKind
from tidemark.formats.time_forms import NS_PER_UNIT, is_pattern
from tidemark.preflight.json_schema import time_form
from tidemark.preflight.mismatches import Mismatch, Notes, PlanComparison
from tidemark.preflight.named_by_paths import named_by_paths
from tidemark.preflight.physical_plan import QueryPlan
from tidemark.preflight.plan_conditions import compare_bound, compare_filters, compare_terms
from tidemark.preflight.plan_expressions import ATTRIBUTE, call, split, tidy
from tidemark.preflight.plan_sides import SPARKS_NAME, Laid, Paired, lay, lay_as

__all__ = ["Mismatch", "PlanComparison", "compare"]


def compare(contract: Contract, plan: QueryPlan, policy: str | None = None) -> PlanComparison:
    """Hold a contract against a plan; ``policy`` is ``spark.sql.streaming.multipleWatermarkPolicy`` of the session."""
    notes = Notes()
    contract = named_by_paths(contract)
    if policy is not None and policy.lower() != contract.policy:
        hint = (
            "run it with --conf spark.sql.streaming.multipleWatermarkPolicy, or correct the contract's policy"
        )
        notes.differs("policy", str(contract.policy), policy, hint)
    if not plan.joins:
        hint = "the sides have to be two streams, joined with an equality"
        notes.differs("kind", f"a {contract.kind} join of two streams", "no join of two streams", hint)
        return notes.done()
    if len(plan.joins) > 1:
        kinds = " and ".join(join.kind for join in plan.joins)
        notes.skip(f"anything: a contract describes one join, the plan has {len(plan.joins)} ({kinds})")
        return notes.done()
    if plan.stateful:
        hint = "the judge knows nothing of them; leave them out, or run them as a query of their own"
        notes.differs(
            "operators", "a join and nothing else with state", f"also {', '.join(plan.stateful)}", hint
        )
    if contract.is_decoded:
        return _compare_decoded(contract, plan, notes).done()
    laid = lay(contract, plan, plan.joins[0])
    _compare_kind(contract, laid, notes)
    _compare_keys(contract, laid, notes)
    for paired in laid.sides:
        _compare_watermark(paired, notes)
        _compare_time_form(paired, notes)
    compare_bound(contract, laid, notes)
    compare_filters(contract, laid, notes)
    compare_terms(contract, laid, notes)
    return notes.done()


def _compare_decoded(contract: Contract, plan: QueryPlan, notes: Notes) -> Notes:
    """Kind, delays and bound of a join whose records are decoded by functions.

    A plan does not say what is in such records. Its event times are the columns with watermarks, and either side may be
    the contract's left one: what differs is said if it does in both readings.
    """
    notes.skip("keys and filters: a plan does not say what decoded records are")
    readings = []
    for swapped in (False, True):
        found, laid = Notes(), lay_as(contract, plan, plan.joins[0], swapped=swapped)
        laid = replace(laid, left=_by_watermark(laid.left), right=_by_watermark(laid.right))
        _compare_kind(contract, laid, found)
        for paired in laid.sides:
            _compare_delay(paired, found)
        if all(len(paired.plan.watermarks) == 1 for paired in laid.sides):
            compare_bound(contract, _of_times(laid), found)
        readings.append(found.done())
    best = min(readings, key=lambda done: len(done.mismatches))
    notes.add(best)
    return notes


def _of_times(laid: Laid) -> Laid:
    """The join with the conjuncts and keys alone that name a column with a watermark."""

    def is_of_time(text: str) -> bool:
        columns = [found[0] for found in ATTRIBUTE.finditer(text)]
        return any(paired.marks(column) for paired in laid.sides for column in columns)

    return replace(
        laid,
        keys=tuple(texts for texts in laid.keys if any(map(is_of_time, texts))),
        both=tuple(filter(is_of_time, laid.both)),
        above=tuple(filter(is_of_time, laid.above)),
    )


def _by_watermark(paired: Paired) -> Paired:
    """The side, whose event time is the field that the plan's watermark is on, whatever its name."""
    marks = paired.plan.watermarks
    marked = paired.columns.source(marks[0].column).field if marks else None
    return paired if marked is None else replace(paired, side=replace(paired.side, time=marked))


def _compare_kind(contract: Contract, laid: Laid, notes: Notes) -> None:
    kinds = {contract.kind, _after_where(contract)}
    if laid.kind not in {SPARKS_NAME[kind] for kind in kinds}:
        hint = "give join() that kind, or correct the contract's kind"
        notes.differs("kind", f"{contract.kind} ({SPARKS_NAME[contract.kind]})", laid.kind, hint)


def _after_where(contract: Contract) -> JoinKind:
    """What the optimizer makes of an outer join whose NULL rows no ``where`` would let through."""
    on_left = any(term.left is not None for term in contract.where)
    on_right = any(term.right is not None for term in contract.where)
    made = {
        (JoinKind.LEFT_OUTER, False, True): JoinKind.INNER,
        (JoinKind.LEFT_OUTER, True, True): JoinKind.INNER,
        (JoinKind.RIGHT_OUTER, True, False): JoinKind.INNER,
        (JoinKind.RIGHT_OUTER, True, True): JoinKind.INNER,
        (JoinKind.FULL_OUTER, True, False): JoinKind.LEFT_OUTER,
        (JoinKind.FULL_OUTER, False, True): JoinKind.RIGHT_OUTER,
        (JoinKind.FULL_OUTER, True, True): JoinKind.INNER,
    }
    return made.get((contract.kind, on_left, on_right), contract.kind)


@dataclass
class _Keys:
    """The keys of a plan: pairs of fields, those that take NULL for equal, and those that are no fields."""

    pairs: set[tuple[str, str]] = field(default_factory=set)
    null_safe: set[tuple[str, str]] = field(default_factory=set)
    computed: list[str] = field(default_factory=list)


def _keys(laid: Laid) -> _Keys:
    keys = _Keys()
    for texts in laid.keys:
        if laid.left.is_time(texts[0]) and laid.right.is_time(texts[1]):
            continue  # the bound's
        if all(call(text, "isnull") is not None for text in texts):
            continue  # the second half of a <=>, whose first is coalesce(key, default)
        coalesced = [call(text, "coalesce") for text in texts]
        null_safe = None not in coalesced
        inner = [
            split(one, ", ")[0] if null_safe and one is not None else text
            for one, text in zip(coalesced, texts, strict=True)
        ]
        left, right = (laid.column(text).field for text in inner)
        if left is None or right is None:
            keys.computed.append(" = ".join(tidy(text) for text in texts))
        else:
            keys.pairs.add((left, right))
            if null_safe:
                keys.null_safe.add((left, right))
    return keys


def _compare_keys(contract: Contract, laid: Laid, notes: Notes) -> None:
    wanted = set(zip(contract.left.keys, contract.right.keys, strict=True))
    keys = _keys(laid)
    missing, extra = wanted - keys.pairs, keys.pairs - wanted
    hint = "correct the equalities of the join's condition, or the contract's keys"
    says = " and ".join(f"{left} = {right}" for left, right in sorted(wanted))
    if extra or len(missing) > len(keys.computed):
        has = [f"{left} = {right}" for left, right in sorted(keys.pairs)] + keys.computed
        notes.differs("keys", says, " and ".join(has) or "no key", hint)
    elif keys.computed:
        notes.skip(f"keys: the plan joins on {' and '.join(keys.computed)}, the contract on {says}")
    for left, right in sorted(keys.null_safe & wanted):
        notes.differs(
            "keys", f"{left} = {right}, where NULL equals nothing",
            f"{left} <=> {right}, where NULL equals NULL", "compare with =, or with eqNullSafe left out",
        )  # fmt: skip


def _compare_watermark(paired: Paired, notes: Notes) -> None:
    side, marks = paired.side, paired.plan.watermarks
    if len(marks) == 1 and side.watermark_delay_ms is not None:
        column = paired.columns.source(marks[0].column)
        if column.constant or (column.field is not None and column.field != side.time):
            has = f"on {tidy(marks[0].column)}, which is " + (
                "not of the record" if column.constant else f"{column.field}"
            )
            notes.differs(
                f"event time of {side.topic}", side.time, has, "put withWatermark on the contract's time"
            )
        elif column.field is None:
            notes.skip(
                f"event time of {side.topic}: the plan's watermark is on {tidy(marks[0].column)},"
                " made from more than a field"
            )
        if paired.plan.time_left_out:
            notes.differs(
                f"late rows of {side.topic}", f"dropped by {side.time}",
                f"none dropped: neither the join nor its output reads {side.time}, so Spark leaves it out before the"
                " join",
                f"select {side.time} (or the whole window of it) in the output, or bound the join by it",
            )  # fmt: skip
    _compare_delay(paired, notes)


def _compare_delay(paired: Paired, notes: Notes) -> None:
    side, marks = paired.side, paired.plan.watermarks
    part = f"watermark of {side.topic}"
    says = "none" if side.watermark_delay_ms is None else f"{side.watermark_delay_ms} ms on {side.time}"
    if len(marks) > 1:
        notes.skip(f"{part}: the plan has {len(marks)} on that side")
    elif not marks or side.watermark_delay_ms is None:
        if bool(marks) != (side.watermark_delay_ms is not None):
            has = f"{marks[0].delay} on {tidy(marks[0].column)}" if marks else "none"
            hint = "correct withWatermark, or watermark_delay_ms (null where there is none)"
            notes.differs(part, says, has, hint)
    elif marks[0].delay_ms is None:
        notes.skip(f"{part}: its delay is {marks[0].delay!r}")
    elif marks[0].delay_ms != side.watermark_delay_ms:
        has = f"{marks[0].delay_ms} ms ({marks[0].delay})"
        notes.differs(part, says, has, "correct the delay of withWatermark, or watermark_delay_ms")


_UNITS = {
    "epoch-s": "seconds",
    "epoch-ms": "milliseconds",
    "epoch-us": "microseconds",
    "epoch-ns": "nanoseconds",
}


def _compare_time_form(paired: Paired, notes: Notes) -> None:
    """Numbers are read in the contract's unit, text by its pattern in its zone; of others a plan says too little."""
    side, part = paired.side, f"event time of {paired.side.topic}"
    for mark in paired.plan.watermarks:
        form, zone = time_form(paired.columns, mark.column) or ("", "")
        forms = {side.time_format, form}
        if forms <= NS_PER_UNIT.keys() and len(forms) > 1:
            says, has = (f"{side.time} is read as {_UNITS[one]} ({one})" for one in (side.time_format, form))
            hint = "correct the function that makes a time of the number, or the contract's time_format"
            notes.differs(part, says, has, hint)
        elif is_pattern(side.time_format) and form != side.time_format:
            notes.skip(f"{part}: whether it is read as {side.time_format!r} in the zone {side.time_zone}")
        elif is_pattern(form) and form == side.time_format and zone != side.time_zone:
            says, has = (f"{side.time} is a time of {one}" for one in (side.time_zone, zone))
            notes.differs(part, says, has, "correct the zone in the query, or the contract's time_zone")
