"""The cells of the matrix: join x bound x state x no-data batches, and what is run in each.

A cell is *unsupported* where Spark refuses its state, or keeps it in another format than the one asked for, as a real
attempt shows. It is known beforehand which cells these are (``tidemark.campaigns.state_stores``): another
that is refused has failed, and so has one of them that is not.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemark.campaigns.case import NO_DATA, Case
from tidemark.campaigns.random_cases import ARRIVAL_MS, flush_of, generate_records, make_contract
from tidemark.campaigns.state_stores import STATES, UNSUPPORTED
from tidemark.formats.contract import Bound, Contract, JoinKind
from tidemark.formats.trace import Record

BOUNDS = {
    "inclusive range": Bound(-3_000, 4_000),
    "strict range": Bound(-3_000, 4_000, lower_strict=True, upper_strict=True),
    "one-sided range": Bound(-4_000),
    "equal time": Bound(equal=True),
    "equal time and range": Bound(-2_000, 3_000, equal=True),
    "equal window": Bound(equal=True, window_ms=5_000),
    "window inequality": Bound(0, window_ms=3_000),
    "one watermark": Bound(-3_000, 4_000),
}
STATE_BATCHES = 2
"""After how many batches of a cell the state is read."""
RUN_MODES = ("backlog", "stepped", "interrupted")
SINKS = ("spark", "exactly-once")
GOALS = ("rows_joined", "semi_row_emitted", "null_row_after_eviction")


@dataclass(frozen=True)
class Cell:
    """One cell."""

    kind: JoinKind
    bound: str
    state: str
    no_data: bool

    def __str__(self) -> str:
        return f"{self.kind}, {self.bound}, {self.state}, no-data batches {'on' if self.no_data else 'off'}"

    def contract(self) -> Contract:
        """The join of this cell: a right outer join is the left one's mirror image."""
        bound, mirrored = BOUNDS[self.bound], self.kind is JoinKind.RIGHT_OUTER
        if mirrored and bound.upper_ms is None:
            bound = replace(
                bound, lower_ms=None, upper_ms=None if bound.lower_ms is None else -bound.lower_ms
            )
        contract = make_contract("matrix", self.kind, bound)
        if self.bound != "one watermark":
            return contract
        if mirrored:
            return replace(contract, right=replace(contract.right, watermark_delay_ms=None))
        return replace(contract, left=replace(contract.left, watermark_delay_ms=None))

    def case(self, number: int) -> Case:
        """What is run: the trace is the cell's own, run mode and sink go round by ``number``."""
        contract, rng = self.contract(), random.Random(str(self))
        mode = RUN_MODES[number % len(RUN_MODES)]
        return Case(
            name=str(self),
            contract=contract,
            records=(*certain(contract), *generate_records(rng, contract, slices=3, rows=(4, 6))),
            flush=flush_of(contract, rounds=1 if self.no_data else 2),
            mode=mode,
            sink=SINKS[number // len(RUN_MODES) % len(SINKS)],
            conf={**STATES[self.state], **({} if self.no_data else {NO_DATA: "false"})},
            stops=(2,) if mode == "interrupted" else (),
            states=STATE_BATCHES,
            goals=() if self.bound == "one watermark" else GOALS,
        )


def certain(contract: Contract) -> tuple[Record, ...]:
    """A pair that matches under every bound, and a row without a partner on each side: early, so that none is late."""
    found = []
    for side, rows in ((contract.left, "pl"), (contract.right, "pr")):
        for key in rows:
            value = {"id": f"certain-{side.topic}-{key}", "k0": f"certain-{key}", "t": "1970-01-01T00:00:01Z"}
            found.append(Record(topic=side.topic, value=json.dumps(value), arrival_ms=ARRIVAL_MS))
    return tuple(found)


def cells() -> list[Cell]:
    """All of them, in order."""
    return [Cell(*parts) for parts in itertools.product(JoinKind, BOUNDS, STATES, (True, False))]


def pairwise() -> list[Cell]:
    """A choice in which each two values of different factors meet: greedy, and the same every time.

    The factors are join, bound, store, format, changelog checkpointing, and no-data batches. Of cells that are worth
    the same, one whose state, or whose no-data batches, were chosen least. A state that Spark does not support
    counts for no pair, and is in one cell.
    """
    return [
        *_covering(_supported(STATES), _pairs),
        *(next(cell for cell in cells() if cell.state == state) for state in UNSUPPORTED),
    ]


def choice(number: int, states: Collection[str]) -> list[Cell]:
    """So many cells with these states, if there are so many: in the first of them each two values meet, as in
    :func:`pairwise`; those that follow have the threes that were in none before, and the rest is drawn.
    """
    every = _supported(states)
    chosen = _covering(every, _pairs)
    known = {three for cell in chosen for three in _threes(cell)}
    chosen += _covering(every, lambda cell: _threes(cell) - known)
    rest = [cell for cell in every if cell not in chosen]
    return [*chosen, *random.Random("rest").sample(rest, len(rest))][:number]


def _supported(states: Collection[str]) -> list[Cell]:
    return [cell for cell in cells() if cell.state in states and cell.state not in UNSUPPORTED]


def each_value() -> list[Cell]:
    """A part of the pairwise choice in which each value of each factor is, and each state that is not supported."""
    every = pairwise()
    return [*_covering(every, _values), *(cell for cell in every if cell.state in UNSUPPORTED)]


def _covering(every: Sequence[Cell], parts: Callable[[Cell], set[Any]]) -> list[Cell]:
    """Cells that together have all parts that ``every`` cell has: greedy, and the same every time."""
    chosen, used = list[Cell](), Counter[str | bool]()
    wanted = {part for cell in every for part in parts(cell)}
    while wanted:
        best = max(
            every, key=lambda cell: (len(wanted & parts(cell)), -used[cell.state] - used[cell.no_data])
        )
        chosen.append(best)
        used.update((best.state, best.no_data))
        wanted -= parts(best)
    return chosen


def _values(cell: Cell) -> set[tuple[int, object]]:
    store, form, *changelog = cell.state.split(", ")
    return set(enumerate((cell.kind, cell.bound, store, form, bool(changelog), cell.no_data)))


def _pairs(cell: Cell) -> set[tuple[object, ...]]:
    return set(itertools.combinations(sorted(_values(cell)), 2))


def _threes(cell: Cell) -> set[tuple[object, ...]]:
    return set(itertools.combinations(sorted(_values(cell)), 3))
