"""Which faults a run of a soak has: drawn from those that its stack and its sink can have, some of them overlapping."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tidemark.errors import UsageError
from tidemark.faults.overlaps import FaultPart, drawn_pairs, every_fault
from tidemark.faults.schedule import FaultSpec
from tidemark.formats.faults import (
    IN_ROLE,
    LINK_FAULTS,
    NETWORK_ACTIONS,
    POINTS,
    SINK_STEPS,
    FaultAction,
    FaultComponent,
)
from tidemark.runner.run_options import SINKS

WEIGHT = 2
WEIGHTS = {
    (FaultComponent.DRIVER, FaultAction.KILL): 4,
    (FaultComponent.DRIVER, FaultAction.KILL_TWICE): 1,
    (FaultComponent.EXECUTOR, FaultAction.KILL): 6,
    (FaultComponent.EXECUTOR, FaultAction.PAUSE): 6,
    **dict.fromkeys(LINK_FAULTS, 1),
}
"""How often a fault comes, if not ``WEIGHT``. Drivers and executors have most points, and their death is what a
checkpoint is for. A driver takes longest to come back: with more of them a soak has fewer faults."""

ONLY_HINT = (
    f"steps of the {SINKS[0]} sink need --sink {SINKS[0]}, a leader or a coordinator needs `tidemark up --brokers 3`,"
    " and the network what docs/howto/inject-faults.md says"
)

TOGETHER = 0.22
"""The share of draws that are two faults that overlap."""


def schedule(
    rng: random.Random,
    count: int,
    can: Callable[[FaultPart], bool] = lambda _part: True,
    unmet: Collection[FaultPart] = (),
) -> tuple[FaultSpec, ...]:
    """So many faults, of all kinds that ``can`` be injected, some of them two that overlap.

    Those that are ``unmet`` come before the others, each once.
    """
    kinds = [FaultSpec(*part) for part in every_fault() if can(part)]
    weights = [_weight(kind) for kind in kinds]
    first = [kind for kind in kinds if kind.as_parts[0] in unmet]
    rng.shuffle(first)
    pairs = [_pair(pair) for pair in drawn_pairs() if all(map(can, pair))]
    of_pairs = [_weight(pair) * _weight(pair.beside[0]) for pair in pairs]
    drawn, left = list[FaultSpec](), count
    while left > 0:
        together = bool(pairs) and left > 1 and rng.random() < TOGETHER
        if first and not together:
            one = first.pop()
        else:
            [one] = rng.choices(pairs, of_pairs) if together else rng.choices(kinds, weights)
        drawn.append(one)
        left -= 1 + len(one.beside)
    return tuple(drawn)


def can_be_drawn(
    part: FaultPart,
    *,
    links: Collection[tuple[FaultComponent, FaultAction]],
    brokers: int,
    sink: str = SINKS[0],
) -> bool:
    """Whether a soak draws a fault: nothing of a link that cannot be done to it, no step of a sink that is not
    the run's, no broker in a role that no other could take over.
    """
    needs_transactions = part.point in SINK_STEPS or part.component is FaultComponent.COORDINATOR
    return (
        ((part.component, part.action) in links or part.action not in NETWORK_ACTIONS)
        and (brokers > 1 or part.component not in IN_ROLE)
        and (sink == SINKS[0] or not needs_transactions)
    )


def chosen_faults(words: Sequence[str]) -> list[FaultPart]:
    """The faults that these words name; all if there is none. Raises ``UsageError`` for a word that names none."""
    names = {part: {str(part), str(part).partition("@")[0]} for part in every_fault()}
    for word in words:
        if all(word not in of_part for of_part in names.values()):
            known = dict.fromkeys(str(part).partition("@")[0] for part in names)
            raise UsageError(
                f"{word!r} is no fault",
                hint=f"one of {', '.join(known)}; with @POINT at one commit point alone",
            )
    return [part for part, of_part in names.items() if not words or of_part & {*words}]


def drawable(
    only: Sequence[str], sink: str, links: Collection[tuple[FaultComponent, FaultAction]], brokers: int
) -> list[FaultPart]:
    """The faults that a run with a sink draws from, of all or of ``only``. Raises ``UsageError`` if there is none."""
    found = [
        part for part in chosen_faults(only) if can_be_drawn(part, links=links, brokers=brokers, sink=sink)
    ]
    if not found:
        raise UsageError(
            f"none of {', '.join(only)} can be injected into a run with the sink {sink} on this stack",
            hint=f"leave --only out, or give others; {ONLY_HINT}",
        )
    return found


def must_be_possible(
    only: Sequence[str],
    sinks: Sequence[str],
    links: Collection[tuple[FaultComponent, FaultAction]],
    brokers: int,
) -> None:
    """Refuse each of ``only`` that no run could inject, and a sink with which nothing is left."""
    for word in only:
        if not any(
            can_be_drawn(part, links=links, brokers=brokers, sink=sink)
            for part in chosen_faults([word])
            for sink in sinks
        ):
            raise UsageError(
                f"{word} can be injected into no run of this soak",
                hint=f"leave out --only {word}; {ONLY_HINT}",
            )
    for sink in sinks:
        drawable(only, sink, links, brokers)


def _weight(spec: FaultSpec) -> float:
    what = spec.component, spec.action
    return WEIGHTS.get(what, WEIGHT) / len(POINTS[what])


def _pair(parts: tuple[FaultPart, FaultPart]) -> FaultSpec:
    first, then = (FaultSpec(*part) for part in parts)
    return replace(first, beside=(then,))
