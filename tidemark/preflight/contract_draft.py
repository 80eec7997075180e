"""A contract drafted from a query's plan: what the plan says, where it says it, and what a person has to decide.

Free of I/O. A draft is read by a person before it is a promise: the plan says what the query does, not what it should
do. Every line has a note about where it was read, and a question where the plan leaves a choice or says what no
contract has. The draft is compared with the plan that it was made of; what differs is a question, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tidemark.formats.contract import (
    Bound,
    Contract,
    Filter,
    JoinKind,
    Literal,
    Output,
    Side,
    Term,
    WatermarkPolicy,
)
from tidemark.formats.record_fields import BIGINT, DOUBLE, STRING, Field
from tidemark.oracle.spark.time_ranges import US_PER_MS
from tidemark.preflight.json_output import json_columns
from tidemark.preflight.json_schema import number_of_time, time_form, type_in_plan
from tidemark.preflight.physical_plan import JoinPlan, QueryPlan, SidePlan, UnreadablePlan
from tidemark.preflight.plan_columns import Column, PlanColumns
from tidemark.preflight.plan_comparison import compare
from tidemark.preflight.plan_conditions import read_conjuncts, tightest, time_limits, two_fields
from tidemark.preflight.plan_expressions import ATTRIBUTE, bare, call, linear, relation, split, tidy
from tidemark.preflight.plan_sides import SPARKS_NAME, End, Laid, Paired, lay

_KINDS = {name: kind for kind, name in SPARKS_NAME.items()}
UNKNOWN = "unknown"
"""The name of a field that the plan does not say."""


@dataclass
class ContractDraft:
    """``notes`` and ``questions`` are by the path of what they are about: ``left.keys``, ``bound``, ``output``."""

    contract: Contract
    notes: dict[str, str] = field(default_factory=dict)
    questions: dict[str, list[str]] = field(default_factory=dict)

    def ask(self, about: str, question: str) -> None:
        """Add a question."""
        self.questions.setdefault(about, []).append(question)


@dataclass(frozen=True)
class PlanSource:
    """What is known besides a plan.

    ``topics`` are those of the query's first and its second input, whichever the join has on its left, or of the join's
    left and right side if they ``are_sides``. ``columns`` are those of the output, by default those of the last
    projection, or of the JSON that it writes. ``policy`` is the query's ``multipleWatermarkPolicy``.
    """

    topics: Sequence[str]
    columns: Sequence[str] = ()
    policy: str | None = None
    are_sides: bool = False


def draft_contract(plan: QueryPlan, name: str, source: PlanSource) -> ContractDraft:
    """Draft the contract of a query's join.

    Raises ``UnreadablePlan`` if the plan has no join of two streams, or more than one.
    """
    if len(plan.joins) != 1:
        raise UnreadablePlan(
            f"the plan has {len(plan.joins)} joins of two streams, and a draft is made of one; what has more is a chain"
        )
    [join] = plan.joins
    if join.kind not in _KINDS:
        raise UnreadablePlan(f"the plan has a join of kind {join.kind}, which no contract has")
    return _Drafting(plan, join).draft(name, source)


class _Drafting:
    """The steps."""

    def __init__(self, plan: QueryPlan, join: JoinPlan) -> None:
        self._plan = plan
        self._join = join
        self._columns = plan.columns
        self._kind = _KINDS[join.kind]
        self._notes: dict[str, str] = {"kind": f"the plan's join is {join.kind}"}
        self._questions: list[tuple[str, str]] = []

    def draft(self, name: str, source: PlanSource) -> ContractDraft:
        """All of it."""
        sides = [
            self._side(side, plan, topic)
            for side, plan, topic in zip(
                ("left", "right"), (self._join.left, self._join.right), self._topics(source), strict=True
            )
        ]
        left, right, output = self._output(sides[0], sides[1], source.columns)
        contract = Contract(
            name, self._kind, left, right, Bound(), output, policy=self._policy(source.policy)
        )
        laid = lay(contract, self._plan, self._join)
        contract = replace(contract, bound=self._bound(laid))
        contract = self._conjuncts(contract, laid)
        if not contract.output.has_refs:  # else its state is compared by the places of the records
            contract = replace(
                contract,
                left=self._named(contract.left, self._join.left),
                right=self._named(contract.right, self._join.right),
            )
        made = ContractDraft(contract, self._notes)
        for about, question in self._questions:
            made.ask(about, question)
        compared = compare(contract, self._plan)
        for mismatch in compared.mismatches:
            made.ask("contract", f"the draft is not what the plan does: {mismatch}")
        for sentence in compared.not_compared:
            made.ask("contract", f"not read from the plan: {sentence}")
        return made

    def _ask(self, about: str, question: str) -> None:
        self._questions.append((about, question))

    def _policy(self, name: str | None) -> WatermarkPolicy:
        """The policy that the query had; of one that is not known the default of Spark."""
        if name is not None:
            self._notes["policy"] = f"the query ran with spark.sql.streaming.multipleWatermarkPolicy={name}"
        return WatermarkPolicy.MIN if name is None else WatermarkPolicy(name)

    def _topics(self, source: PlanSource) -> tuple[str, str]:
        """The topic of the join's left and right side: the source of the second input has headers."""
        first, second = source.topics
        left_is_second = not source.are_sides and any("headers#" in leaf for leaf in self._join.left.leaves)
        return (second, first) if left_is_second else (first, second)

    def _side(self, name: str, plan: SidePlan, topic: str) -> Side:
        time, form, zone, delay_ms = self._time(name, plan)
        keys = self._keys(name, plan)
        kinds = {**keys, time: self._number_of_time(plan)}
        return Side(
            topic=topic, id=UNKNOWN, keys=tuple(keys), time=time, watermark_delay_ms=delay_ms,
            fields=tuple(Field(path, type=kind) for path, kind in kinds.items() if kind not in (STRING, None)),
            time_format=form, time_zone=zone,
        )  # fmt: skip

    def _named(self, side: Side, plan: SidePlan) -> Side:
        """A side whose id, keys and time are called as their columns are: by these names its state is compared."""
        columns: dict[str, str] = {}
        for text in (
            *plan.keys,
            *(mark.column for mark in plan.watermarks),
            *self._columns.names(plan.ids).values(),
        ):
            path, attribute = self._field(text), ATTRIBUTE.fullmatch(text)
            if path is not None and attribute is not None and not attribute["path"]:
                columns.setdefault(path, attribute["name"])
        wanted = {path: columns.get(path, path) for path in dict.fromkeys((side.id, *side.keys, side.time))}
        taken = [*wanted.values(), *(one.name for one in side.fields if one.name not in wanted)]
        names = {path: name if taken.count(name) == 1 else path for path, name in wanted.items()}
        known = {one.name: one for one in side.fields}
        fields = [one for one in side.fields if one.name not in names]
        for path, name in names.items():
            kind = known[path].type if path in known else None
            if name != path:
                fields.append(Field(name, column=path, type=kind))
            elif path in known:
                fields.append(known[path])
        keys = tuple(names[key] for key in side.keys)
        return replace(side, id=names[side.id], keys=keys, time=names[side.time], fields=tuple(fields))

    def _keys(self, name: str, plan: SidePlan) -> dict[str, str | None]:
        """The key fields, with their types; a time is the bound's."""
        found: dict[str, str | None] = {}
        for text, other in zip(plan.keys, self._other(plan).keys, strict=True):
            if self._is_time(text, plan) and self._is_time(other, self._other(plan)):
                continue
            if call(text, "isnull") is not None:
                continue
            coalesced = call(text, "coalesce")
            if coalesced is not None:
                text = split(coalesced, ", ")[0]
                said = f"the query compares {tidy(text)} by <=>, which joins NULL with NULL"
                self._ask(f"{name}.keys", f"{said}, and NULL keys of a contract match nothing: is = meant?")
            path = self._field(text)
            if path is None:
                self._ask(
                    f"{name}.keys", f"the key {tidy(text)} is made of more than a field: which field is it?"
                )
                found[f"{UNKNOWN}_{len(found)}"] = None
            else:
                found[path] = type_in_plan(self._columns, text)
        self._notes[f"{name}.keys"] = "the equalities of the join: " + " and ".join(
            f"{tidy(one)} = {tidy(two)}"
            for one, two in zip(self._join.left.keys, self._join.right.keys, strict=True)
        )
        return found

    def _other(self, plan: SidePlan) -> SidePlan:
        return self._join.right if plan is self._join.left else self._join.left

    def _is_time(self, text: str, plan: SidePlan) -> bool:
        """Whether a key is the column of a watermark, a window of it, or another time."""
        if (
            type_in_plan(self._columns, text) == "timestamp"
            or self._columns.source(text).window_us is not None
        ):
            return True
        marked = [self._columns.source(mark.column) for mark in plan.watermarks]
        column = self._columns.source(text)
        return any((one.field, one.id) == (column.field, column.id) for one in marked)

    def _field(self, text: str) -> str | None:
        """The path in the record of an expression, if it is one."""
        column = self._columns.source(text)
        return None if self._columns.is_input(column) else column.field

    def _time(self, name: str, plan: SidePlan) -> tuple[str, str, str, int | None]:
        """Field, form and zone of the event time, and the delay of its watermark."""
        about = f"{name}.time"
        texts = [mark.column for mark in plan.watermarks] or self._times_elsewhere(plan)
        if len(plan.watermarks) > 1:
            self._ask(
                about,
                f"the plan has {len(plan.watermarks)} watermarks on this side: which one is the contract's?",
            )
        if not texts:
            self._ask(
                about, "the plan has no watermark here, and compares no time: which field is the event time?"
            )
            return UNKNOWN, "iso", "UTC", None
        path, form = self._field(texts[0]), time_form(self._columns, texts[0])
        if path is None:
            self._ask(
                about, f"the event time {tidy(texts[0])} is made of more than a field: which field is it?"
            )
        elif form is None:
            self._ask(f"{name}.time_format", f"how is {path} written in the record?")
        self._notes[about] = (
            f"{'withWatermark' if plan.watermarks else 'the condition of the join'} on {tidy(texts[0])}"
        )
        delay_ms = plan.watermarks[0].delay_ms if plan.watermarks else None
        delay = (
            f"withWatermark, {plan.watermarks[0].delay}"
            if plan.watermarks
            else "the plan has no watermark here"
        )
        self._notes[f"{name}.watermark_delay_ms"] = delay
        if plan.watermarks and delay_ms is None:
            self._ask(
                f"{name}.watermark_delay_ms",
                f"the delay {plan.watermarks[0].delay!r} is not read: how long is it?",
            )
        return path or UNKNOWN, *(form or ("iso", "UTC")), delay_ms

    def _number_of_time(self, plan: SidePlan) -> str | None:
        """The type of an event time that is a number with a fraction, which a contract has to say."""
        found = number_of_time(self._columns, plan.watermarks[0].column) if plan.watermarks else None
        return None if found == BIGINT else found

    def _times_elsewhere(self, plan: SidePlan) -> list[str]:
        """Times of a side that the join's keys or its condition compare."""
        found = list(plan.keys)
        for text in self._join.both:
            asked = relation(text)
            sums = [linear(one) for one in (asked.left, asked.right)] if asked is not None else []
            found += [name for one in sums if one is not None for name in one.columns]
        return [text for text in found if _is_of(text, plan) and self._makes_time(text)]

    def _makes_time(self, text: str) -> bool:
        """Whether an expression is read, or cast, as a time."""
        cast = call(self._columns.expression(text), "cast") or ""
        return type_in_plan(self._columns, text) == "timestamp" or cast.endswith(" as timestamp")

    def _bound(self, laid: Laid) -> Bound:
        """The time bound: times that are keys, and conjuncts that limit their difference."""
        equal = [
            texts for texts in laid.keys
            if self._is_time(texts[0], laid.left.plan) and self._is_time(texts[1], laid.right.plan)
        ]  # fmt: skip
        limits = time_limits(laid)
        lower, upper = tightest(limits)
        texts = [*(limit.text for limit in limits), *(" = ".join(pair) for pair in equal)]
        self._notes["bound"] = (
            " and ".join(map(tidy, texts)) or "the condition limits no difference of the times"
        )
        windows = {laid.column(text).window_us for pair in equal for text in pair} | {
            laid.column(text).window_us for limit in limits for text in (limit.left, limit.right)
        }
        if len(windows) > 1:
            self._ask("bound", "the times are windows of different lengths: a contract has one length")
        window_us = next(iter(windows), None)
        for end in (lower, upper):
            if end is not None and end.us % US_PER_MS:
                self._ask("bound", f"an end is {end.us} microseconds, and a contract has milliseconds")
        return Bound(
            lower_ms=_ms(lower), upper_ms=_ms(upper), lower_strict=lower is not None and lower.strict,
            upper_strict=upper is not None and upper.strict, equal=bool(equal),
            window_ms=None if window_us is None else window_us // US_PER_MS,
        )  # fmt: skip

    def _conjuncts(self, contract: Contract, laid: Laid) -> Contract:
        """Filters of each side, and terms of the condition."""
        left, right = (self._filters(laid, paired) for paired in laid.sides)
        terms = [*left[1], *right[1]]
        sides = [left[0], right[0]]
        for text in (*laid.both, *laid.above):
            found = two_fields(text, laid) if laid.time_limit(text) is None else None
            if found is not None:
                terms.append(Term(found[1], left=found[0], right=found[2]))
                pairs = zip(sides, (found[0], found[2]), laid.sides, strict=True)
                sides = [self._with_type(side, path, paired.plan) for side, path, paired in pairs]
        if terms:
            self._notes["condition"] = "the join's condition"
        left_side, right_side = _with_equal_types(*sides)
        return replace(contract, left=left_side, right=right_side, condition=tuple(terms))

    def _filters(self, laid: Laid, paired: Paired) -> tuple[Side, list[Term]]:
        """A side with its filters, and what the condition of the join asks of it alone."""
        is_left, plan, side = paired is laid.left, paired.plan, paired.side
        name = "left" if is_left else "right"
        above = [text for text in laid.above if paired.owns(text)]
        typed = replace(paired, side=self._with_texts(side, plan, [*plan.filters, *plan.only, *above]))
        inside = read_conjuncts(plan.only if paired.preserved else [], typed)
        below = read_conjuncts([*plan.filters, *above, *([] if paired.preserved else plan.only)], typed)
        for text in (*below.unread, *inside.unread):
            self._ask(
                f"{name}.filters", f"the query asks for {tidy(text)}: is that a filter of the contract?"
            )
        kinds = {path: self._type_of(path, plan) for path, _, _ in {*below.compared, *inside.compared}}
        filters = [
            Filter(path, op, _literal(number, kinds[path])) for path, op, number in sorted(below.compared)
        ]
        asked = [
            Filter(path, op, _literal(number, kinds[path])) for path, op, number in sorted(inside.compared)
        ]
        for path in kinds:
            side = self._with_type(side, path, plan)
        if filters:
            self._notes[f"{name}.filters"] = "filters below or above the join"
        is_mentioned = side.time in below.not_null or any(side.time in text for text in below.unread)
        keeps = paired.preserved and bool(plan.watermarks) and not is_mentioned
        if keeps:
            self._notes[f"{name}.keeps_null_event_time"] = "no filter drops records without an event time"
        terms = [_term(one, is_left=is_left) for one in asked]
        return replace(side, filters=tuple(filters), keeps_null_event_time=keeps), terms

    def _with_texts(self, side: Side, plan: SidePlan, texts: Iterable[str]) -> Side:
        """A side that knows which fields in these conjuncts are text."""
        paths = {self._field(operand) for operand in _operands(texts)}
        for path in sorted(one for one in paths if one is not None):
            if self._type_of(path, plan) == STRING:
                side = self._with_type(side, path, plan)
        return side

    def _with_type(self, side: Side, path: str, plan: SidePlan) -> Side:
        """A side whose field has the type that the plan reads it as."""
        kind = self._type_of(path, plan)
        if kind in (BIGINT, None) or path in {one.name for one in side.fields}:
            return side
        return replace(side, fields=(*side.fields, Field(path, type=kind)))

    def _type_of(self, path: str, plan: SidePlan) -> str | None:
        """The type of a field that is compared, of the first column that is this field."""
        texts = [*self._columns.names(plan.ids).values(), *_operands([*plan.filters, *plan.only])]
        found = (
            type_in_plan(self._columns, text) for text in texts if self._columns.source(text).field == path
        )
        return next((one for one in found if one is not None), None)

    def _output(self, left: Side, right: Side, columns: Sequence[str]) -> tuple[Side, Side, Output]:
        """The ids, and what the output calls them, and the columns with partition and offset of each input."""
        known = self._output_columns(columns)
        self._notes["output"] = f"the output has {', '.join(known) or 'no column that is known'}"
        left, left_id, left_ref = self._of_output("left", left, known)
        if self._kind is JoinKind.LEFT_SEMI:
            right, _, _ = self._of_output("right", right, self._columns.names(self._join.right.ids))
            output = Output(left_id, None, left_ref)
        else:
            right, right_id, right_ref = self._of_output("right", right, known)
            has_both = left_ref is not None and right_ref is not None
            output = Output(left_id, right_id, *((left_ref, right_ref) if has_both else ()))
        if not output.has_refs:
            self._ask(
                "output",
                "the output does not say which record of a topic a row is made of (partition and offset): rows are then"
                " compared by their ids alone. Select both columns of each input, and name them here, to know more",
            )
        return left, right, output

    def _of_output(
        self, name: str, side: Side, known: Mapping[str, str]
    ) -> tuple[Side, str, tuple[str, str] | None]:
        """A side with its id, the column of that, and the columns with partition and offset."""
        plan, other = self._join.left, self._join.right
        if name == "right":
            plan, other = other, plan
        mine = {one: self._columns.source(text) for one, text in known.items() if _is_of(text, plan)}
        chosen = self._id(name, side, mine, self._columns.fields(other.ids))
        field = mine[chosen].field if chosen is not None else None
        return replace(side, id=field or UNKNOWN), chosen or UNKNOWN, _ref(self._columns, mine)

    def _output_columns(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns of the output: name -> the expression in the plan."""
        items, ids = {}, self._join.left.ids | self._join.right.ids
        for text in self._plan.selected:
            attribute = ATTRIBUTE.fullmatch(text.rpartition(" AS ")[2])
            if attribute is not None:
                items[attribute["name"]] = self._columns.below(attribute[0], ids)
        if written := json_columns(self._columns.expression(items.get("value", ""))):
            items = {name: self._columns.below(bare(text), ids) for name, text in written.items()}
        if not items:
            items = self._columns.names(self._join.left.ids)
            if self._kind is not JoinKind.LEFT_SEMI:
                items |= self._columns.names(self._join.right.ids)
        by_name = {name.casefold(): text for name, text in items.items()}
        return (
            {one: by_name[one.casefold()] for one in columns if one.casefold() in by_name}
            if columns
            else items
        )

    def _id(self, name: str, side: Side, columns: dict[str, Column], of_other: set[str]) -> str | None:
        """The column that is most likely the id of a side's records: a field that the other side has not, an ``id``."""
        fields = {
            one: column.field for one, column in columns.items()
            if column.field is not None and not self._columns.is_input(column)
        }  # fmt: skip
        others = {one: path for one, path in fields.items() if path not in (*side.keys, side.time)}
        likely = sorted(
            others, key=lambda one: (not others[one].lower().endswith("id"), others[one] in of_other)
        )
        if not likely:
            self._ask(
                f"{name}.id",
                "no column of the output is a field of this side that could be its id: which one is?",
            )
            return None
        self._notes[f"{name}.id"] = f"the column {likely[0]} is this field"
        if told := ", ".join(likely[1:]):
            self._ask(
                f"{name}.id",
                f"does {likely[0]} name a record of {side.topic}, and no other record? There is also: {told}",
            )
        return likely[0]


def _with_equal_types(left: Side, right: Side) -> tuple[Side, Side]:
    """Both sides, with the type of a key that is described for the key that it is equal to, too."""
    for own, other in zip(left.keys, right.keys, strict=True):
        mine = next((one.type for one in left.fields if one.name == own), None)
        theirs = next((one.type for one in right.fields if one.name == other), None)
        if mine is not None and theirs is None:
            right = replace(right, fields=(*right.fields, Field(other, type=mine)))
        if theirs is not None and mine is None:
            left = replace(left, fields=(*left.fields, Field(own, type=theirs)))
    return left, right


def _is_of(text: str, plan: SidePlan) -> bool:
    ids = {found["id"] for found in ATTRIBUTE.finditer(text)}
    return bool(ids) and ids <= plan.ids


def _ref(columns: PlanColumns, mine: dict[str, Column]) -> tuple[str, str] | None:
    """The output columns that are partition and offset of the record in Kafka."""
    found = {column.field: one for one, column in mine.items() if columns.is_input(column)}
    return (found["partition"], found["offset"]) if {"partition", "offset"} <= found.keys() else None


def _operands(texts: Iterable[str]) -> list[str]:
    asked = [relation(text) for text in texts]
    return [operand for one in asked if one is not None for operand in (one.left, one.right)]


def _term(asked: Filter, *, is_left: bool) -> Term:
    return (
        Term(asked.op, left=asked.field, value=asked.value)
        if is_left
        else Term(asked.op, right=asked.field, value=asked.value)
    )


def _literal(value: Decimal | str, kind: str | None) -> Literal:
    if isinstance(value, str):
        return value
    if kind == DOUBLE:
        return float(value)
    return int(value) if value == value.to_integral_value() else str(value)


def _ms(end: End | None) -> int | None:
    return None if end is None else end.us // US_PER_MS
