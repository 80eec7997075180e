"""Where Spark puts what a join's condition and filters say: upstream of the watermark, into the join, or nowhere.

Free of I/O. A contract says what a user wrote; this says what the optimizer makes of it:

* what is asked of the joined row and holds for no NULL turns an outer join into one that does not have those NULLs
  (``EliminateOuterJoin``), and what speaks of one side alone then goes to that side;
* a conjunct over one side that the join need not preserve goes below its watermark
  (``PushPredicateThroughJoin``, ``PushPredicateThroughNonJoin``): who fails it is neither late nor seen by the
  watermark; so does ``IsNotNull`` of every field that the condition compares (``InferFiltersFromConstraints``);
* what is asked of a key of one side may be asked of the equal key of the other, too, unless that side is preserved
  (``InferFiltersFromConstraints`` of a join), and then goes below its watermark. Whether it is depends on how the query
  makes the key of its records, and differs from batch to batch: of a field of ``from_json`` Spark infers nothing, but
  in a batch in which the other side has no new rows it does. Rows that fail it match nothing. They are *optional*:
  Spark may drop them, or they move the watermark and are stored;
* a conjunct over a preserved side stays in the join: a row that fails it is answered with its NULL row at once, and
  is not stored (``preJoinFilter``);
* a conjunct over both sides picks among the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.formats.contract import COMPARISONS, PRESERVED, Contract, Filter, JoinKind, Term
from tidemark.formats.field_values import literal_of
from tidemark.formats.record_fields import NUMBERS, Field
from tidemark.oracle.spark.outer_join_elimination import kind_of_filtered
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT


@dataclass(frozen=True)
class Pushdown:
    """Of each side: the filters ``below`` the watermark, those ``early`` in the join, and the fields that are read.

    ``inferable`` are those that Spark may put upstream of the watermark, too, because they are asked of the other side.
    ``pairs`` are the conjuncts over both sides. ``limits_ms`` are the times up to which rows may be evicted at most,
    because Spark takes a lower bound of another column for one of the event time (``StreamingJoinHelper``).
    """

    below: tuple[tuple[Filter, ...], tuple[Filter, ...]]
    early: tuple[tuple[Filter, ...], tuple[Filter, ...]]
    pairs: tuple[Term, ...]
    fields: tuple[tuple[str, ...], tuple[str, ...]]
    limits_ms: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    inferable: tuple[tuple[Filter, ...], tuple[Filter, ...]] = ((), ())


def passes(value: int | None, what: Filter) -> bool:
    """Whether a field's value passes a filter; NULL passes none."""
    return value is not None and COMPARISONS[what.op](value, what.value)


def as_planned(contract: Contract) -> Contract:
    """The contract that a filter on the joined row amounts to: another kind perhaps, and nothing in ``where``."""
    if not contract.where:
        return contract
    return replace(
        contract,
        kind=kind_of_filtered(contract.kind, contract.where),
        left=replace(contract.left, filters=contract.left.filters + of_side(contract.where, LEFT)),
        right=replace(contract.right, filters=contract.right.filters + of_side(contract.where, RIGHT)),
        condition=contract.condition + of_both(contract.where),
        where=(),
    )


def place(contract: Contract) -> Pushdown:
    """Where everything goes; of a contract that :func:`as_planned` gave."""
    preserved = PRESERVED.get(contract.kind, ())
    own = of_side(contract.condition, LEFT), of_side(contract.condition, RIGHT)
    pairs = of_both(contract.condition)
    below = tuple(
        tuple(dict.fromkeys([*side.filters, *(() if at in preserved else own[at])]))
        for at, side in enumerate((contract.left, contract.right))
    )
    inferable = _inferable(contract, LEFT), _inferable(contract, RIGHT)
    early = tuple(own[side] if side in preserved else () for side in (LEFT, RIGHT))
    compared = [term.left for term in pairs], [term.right for term in pairs]
    fields = tuple(
        tuple(
            dict.fromkeys(
                [
                    *(one.field for one in (*below[side], *early[side], *inferable[side])),
                    *filter(None, compared[side]),
                ]
            )
        )
        for side in (LEFT, RIGHT)
    )
    values = contract.values
    limits = [() if contract.bound.equal else _limits_ms(early[side], values[side]) for side in (LEFT, RIGHT)]
    return Pushdown(
        (below[0], below[1]),
        (early[0], early[1]),
        pairs,
        (fields[0], fields[1]),
        (limits[0], limits[1]),
        inferable,
    )


def _inferable(contract: Contract, side: int) -> tuple[Filter, ...]:
    """What Spark can infer of the rows of a side: asked of a key of the other side, and not of its own."""
    if side in PRESERVED.get(contract.kind, ()):
        return ()
    sides = contract.left, contract.right
    asked = [one.filters + of_side(contract.condition, at) for at, one in enumerate(sides)]
    pairs = list(zip(sides[1 - side].keys, sides[side].keys, strict=True))
    mirrored = [
        replace(one, field=own) for one in asked[1 - side] for other, own in pairs if one.field == other
    ]
    return tuple(one for one in dict.fromkeys(mirrored) if one not in asked[side])


def _limits_ms(filters: Sequence[Filter], fields: Mapping[str, Field]) -> tuple[int, ...]:
    """``price > 5`` is read as a time later than 5 s, ``price >= 5`` as one 1 ms earlier; of numbers only."""
    strict = {">": 0, ">=": 1}
    numbers = [
        (literal_of(what.value, fields[what.field].made), strict[what.op])
        for what in filters
        if what.op in strict and fields[what.field].made.kind in NUMBERS
    ]
    return tuple(int(number * 1000) - ms for number, ms in numbers if math.isfinite(number))


def must_be_there(pushdown: Pushdown, side: int, kind: JoinKind) -> list[str]:
    """The fields whose NULLs are filtered out upstream of the watermark, because a pair with one is none."""
    if side in PRESERVED.get(kind, ()):
        return []
    return [field for term in pushdown.pairs if (field := term.right if side else term.left) is not None]


def of_side(terms: Sequence[Term], side: int) -> tuple[Filter, ...]:
    """The conjuncts over one side, with the field first."""
    found = (term.of_side(right=side == RIGHT) for term in terms)
    return tuple(one for one in found if one is not None)


def of_both(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The conjuncts that compare a field of one side with one of the other."""
    return tuple(term for term in terms if term.value is None)
