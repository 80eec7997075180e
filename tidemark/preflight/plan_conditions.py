"""The time bound, the filters and the rest of the condition: the contract's against the plan's.

Free of I/O. The optimizer moves conjuncts: one that names a single side goes below the join unless that side is
preserved, and what is asked of the joined row goes wherever it does no harm. So conjuncts are looked for in all the
places where they may be, and only those that compare a field with a number, with text or with a field of the other side
are held against the contract.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from tidemark.formats.contract import COMPARISONS, Bound, Contract, Filter
from tidemark.formats.field_values import literal_of
from tidemark.formats.record_fields import BIGINT, NUMBERS, STRING
from tidemark.oracle.spark.pushdown import of_side
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.preflight.mismatches import Notes
from tidemark.preflight.plan_expressions import ATTRIBUTE, FLIPPED, US_PER_MS, call, linear, relation, tidy
from tidemark.preflight.plan_sides import End, Laid, Paired, TimeLimit

Compared = tuple[str, str, Decimal | str]
"""Field, operator, and what it is compared with: a number, or text."""
_IS_NUMBER = re.compile(r"-?\d+(\.\d+)?").fullmatch
_IS_PLAIN = re.compile(r"(?!.* (?:AND|OR|[<>=]+) )[^\s()\[\]#](?:[^()\[\]#\n]*[^\s()\[\]#])?").fullmatch
"""Text that a plan, which puts no quotes around it, shows as it is and as nothing else."""


def compare_bound(contract: Contract, laid: Laid, notes: Notes) -> None:
    """Hold the time bound against keys and condition."""
    equal = [
        (left, right) for left, right in laid.keys if laid.left.is_time(left) and laid.right.is_time(right)
    ]
    limits = time_limits(laid)
    read = {limit.text for limit in limits}
    unread = [text for text in laid.both if text not in read and two_fields(text, laid) is None]
    unread += [
        " = ".join(pair)
        for pair in laid.keys
        if not equal and not all(laid.column(text).field for text in pair)
    ]
    if unread:
        notes.skip(f"bound: {tidy(' AND '.join(unread))} is not read")
        return
    columns = [*equal, *((limit.left, limit.right) for limit in limits)]
    if columns and not _compare_windows(contract.bound, columns, laid, notes):
        return
    lower, upper = tightest(limits)
    wanted = _ends(contract.bound)
    name = _difference(contract)
    hint = "correct the times in the join's condition, or the contract's bound"
    if bool(equal) != contract.bound.equal or (_first(lower), _last(upper)) != (
        _first(wanted[0]),
        _last(wanted[1]),
    ):
        says, has = _say(name, contract.bound.equal, *wanted), _say(name, bool(equal), lower, upper)
        notes.differs("bound", says, has, hint)


def _difference(contract: Contract) -> str:
    """``left time - right time``, with the topics where both times have one name."""
    sides = (contract.left, contract.right)
    is_one_name = contract.left.time == contract.right.time
    return " - ".join(f"{side.topic}.{side.time}" if is_one_name else side.time for side in sides)


def time_limits(laid: Laid) -> list[TimeLimit]:
    """The conjuncts that limit the difference of the contract's event times."""
    return [limit for text in laid.both if (limit := laid.time_limit(text)) is not None]


def _names_times(text: str, laid: Laid) -> bool:
    """Whether the event times of both sides are in an expression."""
    columns = [found[0] for found in ATTRIBUTE.finditer(text)]
    return any(map(laid.left.is_time, columns)) and any(map(laid.right.is_time, columns))


def _compare_windows(bound: Bound, columns: list[tuple[str, str]], laid: Laid, notes: Notes) -> bool:
    """Whether the times are windows as the contract has them, so that their bound can be compared."""
    lengths = {laid.column(text).window_us for pair in columns for text in pair}
    wanted = None if bound.window_ms is None else bound.window_ms * US_PER_MS
    if lengths == {wanted}:
        return True
    has = " and ".join(sorted(map(_times, lengths)))
    notes.differs(
        "bound", _times(wanted), has, "correct the windows of the pipeline, or the contract's window_ms"
    )
    return False


def _times(window_us: int | None) -> str:
    return "the times themselves" if window_us is None else f"tumbling windows of {_ms(window_us)}"


def _ends(bound: Bound) -> tuple[End | None, End | None]:
    low, high = bound.lower_ms, bound.upper_ms
    return (
        None if low is None else End(low * US_PER_MS, bound.lower_strict),
        None if high is None else End(high * US_PER_MS, bound.upper_strict),
    )


def tightest(limits: Iterable[TimeLimit]) -> tuple[End | None, End | None]:
    """The lower and the upper end that all limits leave; ``None``: it is open."""
    lowers = [limit.lower for limit in limits if limit.lower is not None]
    uppers = [limit.upper for limit in limits if limit.upper is not None]
    lower = max(lowers, key=lambda end: (end.us, end.strict), default=None)
    return lower, min(uppers, key=lambda end: (end.us, not end.strict), default=None)


def _first(end: End | None) -> int | None:
    """The smallest difference that a lower end lets through, in microseconds."""
    return None if end is None else end.us + end.strict


def _last(end: End | None) -> int | None:
    return None if end is None else end.us - end.strict


def _say(name: str, equal: bool, lower: End | None, upper: End | None) -> str:
    below = "" if lower is None else f"{_ms(lower.us)} {'<' if lower.strict else '<='} "
    above = "" if upper is None else f" {'<' if upper.strict else '<='} {_ms(upper.us)}"
    said = ["equal times as join keys"] if equal else []
    said += [f"{below}{name}{above}"] if below or above else []
    return " and ".join(said) or "no bound"


def _ms(us: int) -> str:
    return f"{Decimal(us) / US_PER_MS:f} ms"


@dataclass
class _Wanted:
    """What a contract asks of one side; ``unsure``: the fields of comparisons of which a plan does not say enough."""

    compared: set[Compared] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)


@dataclass
class _Conjuncts:
    """What is asked of one side: fields that are not NULL, comparisons with values, and what cannot be read."""

    not_null: set[str] = field(default_factory=set)
    compared: set[Compared] = field(default_factory=set)
    inferred: set[Compared] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)


def read_conjuncts(texts: Iterable[str], paired: Paired) -> _Conjuncts:
    """Sort conjuncts about one side."""
    found = _Conjuncts()
    for text in texts:
        inner = call(text, "isnotnull")
        if inner is not None:
            name = paired.columns.source(inner).field
            found.not_null |= {name} if name is not None else set()
            continue
        if _says_nothing(text):
            continue
        compared = _compared(text, paired)
        if compared is None:
            found.unread.append(text)
        else:
            found.compared.add(compared)
    return found


def _says_nothing(text: str) -> bool:
    """Whether a column is compared with itself, as Spark infers from equal times and a bound."""
    asked = relation(text)
    left, right = (linear(asked.left), linear(asked.right)) if asked is not None else (None, None)
    return left is not None and right is not None and bool(left.columns) and not left.minus(right).columns


def _compared(text: str, paired: Paired) -> Compared | None:
    asked = relation(text)
    if asked is None or asked.op not in COMPARISONS:
        return None
    for column, op, number in (
        (asked.left, asked.op, asked.right),
        (asked.right, FLIPPED[asked.op], asked.left),
    ):
        name = paired.columns.source(column).field
        if name is None:
            continue
        if paired.side.field(name, BIGINT).made.kind == STRING:
            if _IS_PLAIN(number):
                return name, op, number
        elif _IS_NUMBER(number):
            return name, op, Decimal(number)
    return None


def compare_filters(contract: Contract, laid: Laid, notes: Notes) -> None:
    """Hold what is asked of each side alone against the plan."""
    for paired, own in zip(laid.sides, (LEFT, RIGHT), strict=True):
        conditions = of_side(contract.condition, own)
        filters = (*paired.side.filters, *of_side(contract.where, own))
        above = [text for text in laid.above if paired.owns(text)]
        if paired.preserved:
            below = read_conjuncts([*paired.plan.filters, *above], paired)
            below.inferred = _mirrored(below, paired, laid)
            _hold("filters of", paired, filters, below, notes)
            _hold("condition on", paired, conditions, read_conjuncts(paired.plan.only, paired), notes)
            _compare_null_time(paired, below, notes)
        else:
            found = read_conjuncts([*paired.plan.filters, *paired.plan.only, *above], paired)
            found.inferred = _mirrored(found, paired, laid)
            _hold("filters of", paired, (*filters, *conditions), found, notes)


def _wanted(paired: Paired, filters: Iterable[Filter], notes: Notes) -> _Wanted:
    """The filters that compare numbers, or text that a plan shows as it is."""
    found = _Wanted()
    for one in filters:
        made = paired.side.field(one.field, BIGINT).made
        number = literal_of(one.value, made) if made.kind in NUMBERS else None
        if made.kind == STRING and _IS_PLAIN(str(one.value)):
            found.compared.add((one.field, one.op, str(one.value)))
        elif number is not None and math.isfinite(number):
            found.compared.add((one.field, one.op, Decimal(str(number))))
        else:
            found.unsure.add(one.field)
            notes.skip(
                f"filters of {paired.side.topic}: whether {one.field} {one.op} {one.value} is in the plan"
            )
    return found


def _mirrored(found: _Conjuncts, paired: Paired, laid: Laid) -> set[Compared]:
    """Comparisons of a key that Spark may have inferred from the key of the other side."""
    other = laid.other(paired)
    there = read_conjuncts([*other.plan.filters, *other.plan.only, *laid.above], other).compared
    pairs = {
        tuple(laid.column(text).field for text in (texts if paired is laid.left else texts[::-1]))
        for texts in laid.keys
    }
    return {
        (name, op, number)
        for name, op, number in found.compared
        if any((partner, op, number) in there for own, partner in pairs if own == name)
    }


def _hold(place: str, paired: Paired, filters: Iterable[Filter], found: _Conjuncts, notes: Notes) -> None:
    part, wanted = f"{place} {paired.side.topic}", _wanted(paired, filters, notes)
    missing, extra = wanted.compared - found.compared, found.compared - wanted.compared - found.inferred
    missing = {
        one for one in missing if not any(_may_be_about(text, one[0], paired) for text in found.unread)
    }  # what may be in there is said below
    for name in sorted({one[0] for one in missing | extra} - wanted.unsure):
        says, has = (
            " and ".join(f"{name} {op} {value}" for of, op, value in sorted(group, key=str) if of == name)
            for group in (missing, extra)
        )
        hint = "correct the filter of the pipeline, or the contract's"
        if not says or not has:
            hint = (
                "leave it out, or write it into the contract"
                if has
                else "ask for it in the pipeline, or correct the contract"
            )
        notes.differs(part, says or f"nothing of {has}", has or "nothing of it", hint)
    for name, op, value in sorted(extra, key=str):
        if name in wanted.unsure:
            notes.skip(f"{part}: {name} {op} {value} is in the plan")
    for text in found.unread:
        notes.skip(f"{part}: {tidy(text)} is in the plan")


def _may_be_about(text: str, name: str, paired: Paired) -> bool:
    """Whether a conjunct that is not read may ask for a field: it names it, or a column that cannot be followed."""
    columns = [paired.columns.source(found[0]).field for found in ATTRIBUTE.finditer(text)]
    return name in text or name in columns or None in columns


def _compare_null_time(paired: Paired, below: _Conjuncts, notes: Notes) -> None:
    """Rows without an event time matter where their NULL row would have to come out."""
    side = paired.side
    filtered = side.time in below.not_null
    if filtered != side.keeps_null_event_time:
        return
    if not filtered and any(side.time in text for text in below.unread):
        notes.skip(f"rows of {side.topic} without {side.time}: whether the filters drop them")
        return
    kept, dropped = f"rows without {side.time} reach the join", f"rows without {side.time} are filtered out"
    says, has = (kept, dropped) if side.keeps_null_event_time else (dropped, kept)
    notes.differs(
        f"filters of {side.topic}", says, has, "filter them in the pipeline, or set keeps_null_event_time"
    )


def compare_terms(contract: Contract, laid: Laid, notes: Notes) -> None:
    """Hold what is asked of fields of both sides against the plan."""
    terms = [term for term in (*contract.condition, *contract.where) if term.value is None]
    wanted = {(term.left, term.op, term.right) for term in terms}
    found, unread = set(), []
    for text in (*laid.both, *laid.above):
        is_of_bound = text in laid.both and (_names_times(text, laid) or laid.time_limit(text) is not None)
        if is_of_bound or any(paired.owns(text) for paired in laid.sides):
            continue
        read = two_fields(text, laid)
        if read is None:
            unread.append(tidy(text))
        else:
            found.add(read)
    part, hint = "condition", "correct the join's condition, or the contract's condition and where"
    for left, op, right in sorted(wanted - found, key=str):
        if not unread:
            notes.differs(part, f"left {left} {op} right {right}", "nothing of it", hint)
    for left, op, right in sorted(found - wanted, key=str):
        said = f"left {left} {op} right {right}"
        notes.differs(part, f"nothing of {said}", said, hint)
    for text in unread:
        notes.skip(f"{part}: {text} is in the plan")


def two_fields(text: str, laid: Laid) -> tuple[str, str, str] | None:
    """A conjunct that compares a field of each side: left field, operator, right field."""
    asked = relation(text)
    if asked is None or asked.op == "<=>":
        return None
    left, op, right = asked.left, asked.op, asked.right
    if laid.left.owns(right):
        left, op, right = right, FLIPPED[op], left
    names = laid.column(left).field, laid.column(right).field
    if not laid.left.owns(left) or not laid.right.owns(right) or None in names:
        return None
    return str(names[0]), op, str(names[1])
