"""What becomes of a query that goes on, from its checkpoint, with another contract or with other settings.

Free of I/O. Spark compares the columns of the state by number and type, and nothing else
(``StateSchemaCompatibilityChecker``); its guide calls a change of the join's type or of its keys not allowed, and other
changes of its condition ill-defined ("Recovery Semantics after Changes in a Streaming Query"). What is said here was
seen (``tests/upgrades/changed.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemark.formats.contract import Bound, Contract, JoinKind, Side, Term
from tidemark.oracle.compare.wording import bound_text, term_text

NEW_CHECKPOINT = (
    "start the new query on a new checkpoint, at offsets early enough for its bound, and drop by both ids what the old"
    " one has written"
)
JUDGE_SINCE = (
    "judge the batches since: audit a copy of the checkpoint without the offsets and commits that are older than the"
    " last batch before the change"
)
KEY_NOT_COMPATIBLE = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]"
VALUE_NOT_COMPATIBLE = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE]"
NO_EFFECT = "leave the setting as it is, or start the query on a new checkpoint"


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
    """All that differs and matters for rows, in the order of a contract. Names and accepted defects do not."""
    return (
        *_of_kind(old, new),
        *_of_side(0, old, new),
        *_of_side(1, old, new),
        *_of_bound(old, new),
        *_of_conditions(old, new),
        *_of_output(old, new),
        *_of_policy(old, new),
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


def _of_kind(old: Contract, new: Contract) -> Iterator[RestartChange]:
    if old.kind != new.kind:
        reason = "the rows in the state, and those that came out, are those of the old kind"
        if JoinKind.LEFT_SEMI in (old.kind, new.kind):
            reason += "; a left semi join keeps no left row that has come out"
        else:
            reason += ": NULL rows that were due never come, or some came that the new kind has not"
        yield _wrong("the kind of the join", old.kind, new.kind, reason)


def _of_side(number: int, before: Contract, after: Contract) -> Iterator[RestartChange]:
    name = ("left", "right")[number]
    old, new = ((one.left, one.right)[number] for one in (before, after))
    if old.topic != new.topic:
        yield _wrong(
            f"the topic of the {name} side", old.topic, new.topic,
            "the rows in the state are of the old topic; offsets are kept by topic, and the new one is read from where"
            " startingOffsets says",
        )  # fmt: skip
    yield from _of_delay(name, old.watermark_delay_ms, new.watermark_delay_ms)
    yield from _of_keys(name, number, before, after)
    for what, value in (
        ("event time", lambda side: (side.time, side.time_format, side.time_zone)),
        ("id", lambda side: side.id),
    ):
        if value(old) != value(new):
            reason = f"the rows in the state have the old {what}; it refuses that where types are others"
            yield _wrong(f"the {what} of the {name} side", value(old), value(new), reason)
    if (old.filters, old.keeps_null_event_time) != (new.filters, new.keeps_null_event_time):
        reason = (
            "the rows in the state passed the old filters, and are not filtered again; those that did not pass them are"
            " not there"
        )
        yield _wrong(f"the filters of the {name} side", _filters(old), _filters(new), reason)
    if (old.decode, old.encode) != (new.decode, new.encode):
        reason = "the rows in the state were read by the old functions"
        yield _wrong(f"the functions of the {name} side", old.decode or "none", new.decode or "none", reason)


def _of_delay(name: str, old_ms: int | None, new_ms: int | None) -> Iterator[RestartChange]:
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


def _of_keys(name: str, number: int, old: Contract, new: Contract) -> Iterator[RestartChange]:
    keys = [(one.left, one.right)[number].keys for one in (old, new)]
    fields = [one.values[number] for one in (old, new)]
    types = [[of[key].type for key in names] for names, of in zip(keys, fields, strict=True)]
    before, after = (
        ", ".join(f"{key} {of[key].type}" for key in names) for names, of in zip(keys, fields, strict=True)
    )
    if types[0] != types[1]:
        reason = f"the key of the state has other columns: {KEY_NOT_COMPATIBLE}"
        yield _refused(f"the keys of the {name} side", before, after, reason)
    elif keys[0] != keys[1]:
        reason = (
            "the rows in the state lie under their old keys; of the state's columns types and order are compared,"
            " not names"
        )
        yield _wrong(f"the keys of the {name} side", before, after, reason)


def _of_bound(old: Contract, new: Contract) -> Iterator[RestartChange]:
    before, after = old.bound, new.bound
    if before == after:
        return
    if before.equal != after.equal:
        reason = f"times that have to be equal are a key of the state: {KEY_NOT_COMPATIBLE}"
        yield _refused("the bound", _range(before), _range(after), reason)
        return
    reasons = []
    if not _within(after, before):
        reasons.append(
            "rows that the old bound has removed from the state are gone, and pairs with them are lost"
        )
    if not _within(before, after):
        reasons.append("pairs have come that are too far apart, and rows leave the state in the first batch")
    yield _wrong(
        "the bound", _range(before), _range(after), "; ".join(reasons) or "times are compared otherwise"
    )


def _within(inner: Bound, outer: Bound) -> bool:
    """Whether a bound permits nothing that another does not, as far as their ends say."""
    return (outer.lower_ms is None or (inner.lower_ms is not None and inner.lower_ms >= outer.lower_ms)) and (
        outer.upper_ms is None or (inner.upper_ms is not None and inner.upper_ms <= outer.upper_ms)
    )


def _of_conditions(old: Contract, new: Contract) -> Iterator[RestartChange]:
    for what, before, after in (
        ("the condition", old.condition, new.condition),
        ("the filter of joined rows", old.where, new.where),
    ):
        if before != after:
            reason = "which rows of the state have had a partner was decided by the old one"
            if what != "the condition":
                reason = (
                    "Spark filters a side before the join where it can, and the rows in the state were not"
                )
            yield _wrong(what, _terms(before), _terms(after), reason)


def _of_output(old: Contract, new: Contract) -> Iterator[RestartChange]:
    if old.output.has_refs != new.output.has_refs:
        before, after = (
            "with partitions and offsets" if one.output.has_refs else "without them" for one in (old, new)
        )
        reason = f"the rows in the state have other columns: {VALUE_NOT_COMPATIBLE}"
        yield _refused("the output", before, after, reason)
    elif old.output != new.output and old.kind == new.kind:
        reason = "the rows that came before have the old names"
        yield RestartChange(
            Effect.SINCE, "the fields of the output", _names(old), _names(new), reason, JUDGE_SINCE
        )


def _of_policy(old: Contract, new: Contract) -> Iterator[RestartChange]:
    setting = {"spark.sql.streaming.multipleWatermarkPolicy": str(old.policy)}
    yield from changes_of_settings(setting, dict.fromkeys(setting, str(new.policy)))


def _wrong(what: str, before: Any, after: Any, reason: str) -> RestartChange:
    return RestartChange(
        Effect.WRONG, what, str(before), str(after), f"Spark goes on: {reason}", NEW_CHECKPOINT
    )


def _refused(what: str, before: str, after: str, reason: str) -> RestartChange:
    return RestartChange(Effect.REFUSED, what, before, after, f"Spark refuses it: {reason}", NEW_CHECKPOINT)


def _range(bound: Bound) -> str:
    if bound.is_open:
        return "none"
    return bound_text(bound) + (f" in windows of {bound.window_ms / 1000:g} s" if bound.window_ms else "")


def _seconds(delay_ms: int | None) -> str:
    return "none" if delay_ms is None else f"{delay_ms / 1000:g} s"


def _filters(side: Side) -> str:
    texts = [f"{one.field} {one.op} {one.value}" for one in side.filters]
    texts += ["rows without an event time are kept"] if side.keeps_null_event_time else []
    return " AND ".join(texts) or "none"


def _terms(terms: tuple[Term, ...]) -> str:
    return " AND ".join(map(term_text, terms)) or "none"


def _names(contract: Contract) -> str:
    output = contract.output
    refs = [name for ref in (output.left_ref, output.right_ref) if ref for name in ref]
    return ", ".join(filter(None, (output.left_id, output.right_id, *refs)))
