"""Passes over what is no record and no fault: run mode, partitions, settings; and over a contract that is the query.

Free of Kafka and Spark; none of them knows the bug. A contract is changed only where the query is made of it
(``Case.pipeline`` is empty): of a program it is the promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.campaigns.shrink.shrinkable import RESTARTS, Shrinkable
from tidemark.campaigns.shrink.shrinker import Pass, Removal, Rewrite
from tidemark.errors import BrokenContract
from tidemark.formats.contract import Bound, Contract, Side, WatermarkPolicy
from tidemark.formats.trace import Record

SETTINGS = "settings"
"""The pass over settings of the session: Spark may refuse some without others, of which its rules say nothing."""
ROUND_MS = (0, 1_000, 2_000, 5_000, 10_000, 60_000)
"""Lengths of time that are tried in the place of any other, in milliseconds."""


def coarse_passes() -> list[Pass[Shrinkable]]:
    """What is tried before records: what makes a trial dearer, and the layout of topics."""
    return [
        Removal("interruptions", lambda one: one.case.stops, _without_stops),
        Rewrite("run mode", _simpler_modes),
        Rewrite("partitions", _one_partition),
    ]


def fine_passes() -> list[Pass[Shrinkable]]:
    """What is tried after records: layout, settings, and what the contract says."""
    return [
        Rewrite("the query made of the contract alone", _described),
        Rewrite("sink", _sparks_own_sink),
        Removal(SETTINGS, lambda one: sorted(one.case.conf), _without_settings),
        Rewrite("delays, bound and conditions", _simpler_contracts),
    ]


def _without_stops(one: Shrinkable, gone: frozenset[int]) -> Shrinkable:
    stops = tuple(stop for at, stop in enumerate(one.case.stops) if at not in gone)
    return _with_case(one, stops=stops, mode=one.case.mode if stops else "backlog")


def _simpler_modes(one: Shrinkable) -> Iterator[Shrinkable]:
    """A run mode that needs less to be said, with the same slices; a backlog first."""
    simpler = [mode for mode, rank in RESTARTS.items() if rank < RESTARTS[one.case.mode]]
    return (_with_case(one, mode=mode, stops=()) for mode in simpler)


def _one_partition(one: Shrinkable) -> Iterator[Shrinkable]:
    """All records in one partition of each topic, in the order in which a backlog reads them, or that of the trace."""
    if one.case.partitions == 1:
        return
    for order in (_as_read(one.case.records), range(len(one.case.records))):
        records = (one.case.records[at] for at in order)
        yield one.in_one_partition(sorted(records, key=lambda record: record.slice))


def _as_read(records: Sequence[Record]) -> list[int]:
    """The numbers of records by how far into its partition each is: of a backlog, Spark reads all alike."""
    counts = Counter((record.topic, record.partition) for record in records)
    seen: Counter[tuple[str, int]] = Counter()
    shares = list[tuple[float, int]]()
    for at, record in enumerate(records):
        place = record.topic, record.partition
        seen[place] += 1
        shares.append(((seen[place] - 0.5) / counts[place], at))
    return [at for _, at in sorted(shares)]


def _described(one: Shrinkable) -> Iterator[Shrinkable]:
    """The query that the contract describes, in the place of a program: then it is no bug of the program."""
    if (
        one.case.pipeline
        and not one.case.contract.is_decoded
        and not isinstance(one.case.contract, ChainInputs)
    ):
        yield _with_case(one, pipeline="")


def _sparks_own_sink(one: Shrinkable) -> Iterator[Shrinkable]:
    if one.case.sink != "spark":
        yield _with_case(one, sink="spark")


def _without_settings(one: Shrinkable, gone: frozenset[int]) -> Shrinkable:
    names = [name for at, name in enumerate(sorted(one.case.conf)) if at not in gone]
    return _with_case(one, conf={name: one.case.conf[name] for name in names})


def _simpler_contracts(one: Shrinkable) -> Iterator[Shrinkable]:
    """Contracts that say less, one change each, where the query is made of it."""
    if one.case.pipeline:
        return
    contract = one.case.contract
    for changes in _changes(contract):
        try:
            yield _with_case(one, contract=replace(contract, **changes))
        except BrokenContract:  # a change that does not go with the rest of it
            continue


def _changes(contract: Contract) -> Iterator[dict[str, Any]]:
    for name in ("condition", "where"):
        terms = getattr(contract, name)
        yield from ({name: terms[:at] + terms[at + 1 :]} for at in range(len(terms)))
    for name, side in (("left", contract.left), ("right", contract.right)):
        yield from ({name: changed} for changed in _simpler_sides(side))
    for at in range(len(contract.left.keys) - 1, -1, -1):
        if len(contract.left.keys) > 1:
            both = (contract.left, contract.right)
            left, right = (replace(one, keys=one.keys[:at] + one.keys[at + 1 :]) for one in both)
            yield {"left": left, "right": right}
    yield {"policy": WatermarkPolicy.MIN}
    yield from ({"bound": bound} for bound in _simpler_bounds(contract.bound))


def _simpler_sides(side: Side) -> Iterator[Side]:
    filters = side.filters
    yield from (replace(side, filters=filters[:at] + filters[at + 1 :]) for at in range(len(filters)))
    if side.watermark_delay_ms:
        yield from (replace(side, watermark_delay_ms=delay_ms) for delay_ms in ROUND_MS)


def _simpler_bounds(bound: Bound) -> Iterator[Bound]:
    if bound.window_ms is None:
        for lower_ms in _simpler_ends(bound.lower_ms):
            yield replace(bound, lower_ms=lower_ms)
        for upper_ms in _simpler_ends(bound.upper_ms):
            yield replace(bound, upper_ms=upper_ms)
    yield replace(bound, lower_strict=False)
    yield replace(bound, upper_strict=False)


def _simpler_ends(end_ms: int | None) -> list[int]:
    """Round ends of a bound on the same side of 0."""
    return [of_ms if end_ms > 0 else -of_ms for of_ms in ROUND_MS] if end_ms else []


def _with_case(one: Shrinkable, **changes: Any) -> Shrinkable:
    return replace(one, case=replace(one.case, **changes))
