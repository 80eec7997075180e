"""What becomes of a query that goes on, from its checkpoint, with another contract or with other settings.

Free of I/O. Spark compares the types of the state's columns in their order, and nothing else
(``StateSchemaCompatibilityChecker``). Its guide calls other keys and another type of the join not allowed, and other
changes of the condition ill-defined ("Recovery Semantics after Changes in a Streaming Query"). Seen on Spark 4.2
(``tests/upgrades/changed.py``): other delays, bounds, filters of a side, keys, more keys, times that have to be equal,
a condition on new fields, outer to inner, outer to semi, another topic, and settings. What is said of other changes
follows from those rules. What no contract names, a column more in the output, say, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidemark.formats.contract import Bound, Contract, JoinKind, Side, Term
from tidemark.formats.record_fields import STRING, Field
from tidemark.formats.time_forms import ISO
from tidemark.oracle.compare.wording import bound_text, term_text
from tidemark.oracle.spark.pushdown import as_planned, place

KEY_NOT_COMPATIBLE = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]"
VALUE_NOT_COMPATIBLE = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE]"
NEW_CHECKPOINT = (
    "start the new query on a new checkpoint, at offsets early enough for its bound, and remove from its output, by the"
    " ids of both rows, what the old one has written already"
)
JUDGE_SINCE = (
    "judge the batches since: audit a copy of the checkpoint without the offsets and commits that are older than the"
    " last batch before the change"
)
NO_EFFECT = "leave the setting as it is, or start the query on a new checkpoint"
LEFT, RIGHT = 0, 1
SIDES = ("left", "right")


class Effect(StrEnum):
    """What a change does to the rows of a query that goes on."""

    REFUSED = "refused"
    WRONG = "wrong rows"
    KEPT = "not in effect"
    SINCE = "right since"


@dataclass(frozen=True)
class RestartChange:
    """One change: what of the query, from what to what, what Spark does with it, and what can be done."""

    effect: Effect
    what: str
    before: str
    after: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.effect}: {self.what}: {self.before} becomes {self.after}"


def changes_of_contract(old: Contract, new: Contract) -> tuple[RestartChange, ...]:
    """All that differs and matters for rows, but for the policy, which is a setting.

    Names of the contract, accepted defects and the delivery do not. Where Spark refuses the query nothing else is said.
    """
    refused = (*_topics(old, new), *_keys_of_the_state(old, new), *_columns_of_the_state(old, new))
    return refused or (
        *_kind(old, new),
        *(change for number in (LEFT, RIGHT) for change in _side(number, old, new)),
        *_bound(old.bound, new.bound),
        *_conditions(old, new),
        *_output(old, new),
    )


def changes_of_settings(kept: Mapping[str, str], asked: Mapping[str, str]) -> tuple[RestartChange, ...]:
    """The settings asked for of which the query's log keeps another value, ``kept``: the query goes on with that."""
    return tuple(
        RestartChange(
            Effect.KEPT, name, kept[name], value,
            "the log of the query keeps the setting, and goes before that of the session; Spark only logs a warning",
            NO_EFFECT,
        )
        for name, value in asked.items() if name in kept and kept[name] != value
    )  # fmt: skip


def _of(contract: Contract, number: int) -> Side:
    return (contract.left, contract.right)[number]


def _topics(old: Contract, new: Contract) -> Iterator[RestartChange]:
    for number, name in enumerate(SIDES):
        before, after = _of(old, number).topic, _of(new, number).topic
        if before != after:
            reason = (
                "the partitions of the old topic count as deleted, and with failOnDataLoss, its default, that ends the"
                " query; without, the rows in the state are of the old topic"
            )
            yield _refused(f"the topic of the {name} side", before, after, reason)


def _keys_of_the_state(old: Contract, new: Contract) -> Iterator[RestartChange]:
    before, after = _equal(old.bound), _equal(new.bound)
    if before != after:
        reason = f"times that have to be equal are a key of the state: {KEY_NOT_COMPATIBLE}"
        yield _refused("the bound", _range(old.bound), _range(new.bound), reason)
    for number, name in enumerate(SIDES):
        keys = [[(one, key) for key in _of(one, number).keys] for one in (old, new)]
        types = [[_type(contract, number, key) for contract, key in of] for of in keys]
        if len(keys[0]) != len(keys[1]) or any(map(_other, types[0], types[1])):
            reason = f"the key of the state has other columns: {KEY_NOT_COMPATIBLE}"
            yield _refused(
                f"the keys of the {name} side", _keys(_of(old, number)), _keys(_of(new, number)), reason
            )


def _columns_of_the_state(old: Contract, new: Contract) -> Iterator[RestartChange]:
    for number, name in enumerate(SIDES):
        before, after = ([(one, column) for column in _columns(one, number)] for one in (old, new))
        types = [[_type(contract, number, column) for contract, column in of] for of in (before, after)]
        if len(before) != len(after) or any(map(_other, *types)):
            said = [
                ", ".join(_read(_of(one, number), column) for one, column in of) for of in (before, after)
            ]
            reason = f"the rows in the state have other columns: {VALUE_NOT_COMPATIBLE}"
            yield _refused(f"the columns of the {name} side in the state", said[0], said[1], reason)


def _columns(contract: Contract, number: int) -> list[str]:
    """What a side's rows have in the state: what comes out, is joined by, or is compared in the join.

    A condition on one side is in the join if that side is preserved; else Spark makes it a filter before the join.
    """
    side, output = _of(contract, number), contract.output
    is_out = number == LEFT or contract.kind is not JoinKind.LEFT_SEMI
    refs = (output.left_ref, output.right_ref)[number] or ()
    both = [
        one
        for one in (*contract.condition, *contract.where)
        if one.left is not None and one.right is not None
    ]
    compared = [name for one in both if (name := (one.left, one.right)[number]) is not None]
    compared += [one.field for one in place(as_planned(contract)).early[number]]
    return list(dict.fromkeys((*((side.id,) if is_out else ()), *side.keys, side.time, *compared, *refs)))


def _kind(old: Contract, new: Contract) -> Iterator[RestartChange]:
    if old.kind != new.kind:
        reason = (
            "the rows in the state, and those that came out, are those of the old kind: NULL rows that were due never"
            " come, or some came that the new kind has not"
        )
        yield _wrong("the kind of the join", old.kind, new.kind, reason)


def _side(number: int, before: Contract, after: Contract) -> Iterator[RestartChange]:
    name, old, new = SIDES[number], _of(before, number), _of(after, number)
    yield from _delay(name, old.watermark_delay_ms, new.watermark_delay_ms)
    parts: tuple[tuple[str, Callable[[Side], str], str], ...] = (
        ("keys", _keys, "the rows in the state lie under their old keys"),
        ("event time", _time, "the rows in the state have the old event time"),
        ("id", lambda side: _read(side, side.id), "the rows in the state have the old id"),
        ("filters", _filters, "the rows in the state passed the old filters, and are not filtered again"),
        ("function decode", lambda side: side.decode or "none", "the rows in the state were read by the old one"),
    )  # fmt: skip
    for what, said, reason in parts:
        if said(old) != said(new):
            yield _wrong(f"the {what} of the {name} side", said(old), said(new), reason)


def _delay(name: str, old_ms: int | None, new_ms: int | None) -> Iterator[RestartChange]:
    what = f"the watermark delay of the {name} side"
    if old_ms == new_ms:
        return
    before, after = (_seconds(one) for one in (old_ms, new_ms))
    if old_ms is None or new_ms is None:
        yield _wrong(what, before, after, "rows went from the state, or stayed there, by the old watermark")
        return
    reason = (
        "the watermark stands until the event times are past it by the new delay"
        if new_ms > old_ms
        else "the watermark goes ahead in the first batch, and rows of the state with it"
    )
    reason += (
        "; no row is lost by the change itself, but over all batches no one delay explains the watermarks"
    )
    yield RestartChange(Effect.SINCE, what, before, after, reason, JUDGE_SINCE)


def _bound(old: Bound, new: Bound) -> Iterator[RestartChange]:
    if _range(old) == _range(new):
        return
    reasons = []
    if not _within(new, old):
        reasons.append(
            "rows that the old bound has removed from the state are gone, and pairs with them are lost"
        )
    if not _within(old, new):
        reasons.append("pairs have come that are too far apart, and rows leave the state in the first batch")
    yield _wrong(
        "the bound", _range(old), _range(new), "; ".join(reasons) or "pairs have come that are none now"
    )


def _within(inner: Bound, outer: Bound) -> bool:
    """Whether a bound permits nothing that another does not, as far as its ends say."""
    return (outer.lower_ms is None or (inner.lower_ms is not None and inner.lower_ms >= outer.lower_ms)) and (
        outer.upper_ms is None or (inner.upper_ms is not None and inner.upper_ms <= outer.upper_ms)
    )


def _conditions(old: Contract, new: Contract) -> Iterator[RestartChange]:
    for what, before, after, reason in (
        ("the condition", old.condition, new.condition, "which rows have had a partner was decided by the old one"),
        (
            "the filter of joined rows", old.where, new.where,
            "Spark filters a side before the join where it can, and the rows in the state were not",
        ),
    ):  # fmt: skip
        if {*before} != {*after}:
            yield _wrong(what, _terms(before), _terms(after), reason)


def _output(old: Contract, new: Contract) -> Iterator[RestartChange]:
    if old.output != new.output and old.kind == new.kind:
        reason = "the rows that came before have the old names: no one contract reads all of the output"
        yield RestartChange(
            Effect.SINCE, "the fields of the output", _names(old), _names(new), reason, JUDGE_SINCE
        )


def _wrong(what: str, before: str, after: str, reason: str) -> RestartChange:
    return RestartChange(Effect.WRONG, what, before, after, f"Spark goes on: {reason}", NEW_CHECKPOINT)


def _refused(what: str, before: str, after: str, reason: str) -> RestartChange:
    return RestartChange(Effect.REFUSED, what, before, after, f"Spark refuses it: {reason}", NEW_CHECKPOINT)


def _equal(bound: Bound) -> tuple[bool, int | None]:
    """Whether the times are join keys, and as windows of which length."""
    return bound.equal, bound.window_ms if bound.equal else None


def _type(contract: Contract, number: int, name: str) -> str | None:
    """The type of a field in the state; ``None``: the contract leaves it to what the field is compared with."""
    side = _of(contract, number)
    if name == side.time:
        return "time"
    found = _field(side, name)
    undeclared = None if name in contract.compared[number] else STRING
    return str(found.made) if found.cast or found.type else undeclared


def _other(before: str | None, after: str | None) -> bool:
    return None not in (before, after) and before != after


def _field(side: Side, name: str) -> Field:
    return next((one for one in side.fields if one.name == name), Field(name))


def _read(side: Side, name: str) -> str:
    """Where a field is, and what it is read as where the contract says so."""
    field = _field(side, name)
    more = (
        f" as {field.type}" if field.type else "",
        f" cast to {field.cast}" if field.cast else "",
        f" rounded to {field.round}" if field.round is not None else "",
    )
    return f"{field.column or name}{''.join(more)}"


def _keys(side: Side) -> str:
    return ", ".join(_read(side, key) for key in side.keys)


def _time(side: Side) -> str:
    form = "" if side.time_format == ISO else f" in the form {side.time_format}"
    zone = "" if side.time_zone == "UTC" else f" of {side.time_zone}"
    return f"{_read(side, side.time)}{form}{zone}"


def _filters(side: Side) -> str:
    texts = sorted({f"{_read(side, one.field)} {one.op} {one.value}" for one in side.filters})
    texts += ["rows without an event time are kept"] if side.keeps_null_event_time else []
    return " AND ".join(texts) or "none"


def _range(bound: Bound) -> str:
    """What it permits; where times have to be equal its ends permit no less."""
    if bound.is_open:
        return "none"
    ends = replace(
        bound,
        lower_strict=bound.lower_strict and bound.lower_ms is not None,
        upper_strict=bound.upper_strict and bound.upper_ms is not None,
    )
    return bound_text(ends) + (f" in windows of {bound.window_ms / 1000:g} s" if bound.window_ms else "")


def _seconds(delay_ms: int | None) -> str:
    return "none" if delay_ms is None else f"{delay_ms / 1000:g} s"


def _terms(terms: Iterable[Term]) -> str:
    return " AND ".join(map(term_text, terms)) or "none"


def _names(contract: Contract) -> str:
    output = contract.output
    refs = [name for ref in (output.left_ref, output.right_ref) if ref for name in ref]
    return ", ".join(filter(None, (output.left_id, output.right_id, *refs)))
