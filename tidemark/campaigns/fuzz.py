"""Many seeds: a case each, generated, run and judged, until one disagrees with what Spark did.

A seed *holds* if its verdict is ``VALID``, or ``INVALID`` by nothing but known defects of Spark. One that does not
is kept as a run directory, and ``tidemark fuzz --first SEED --seeds 1`` runs it again.
"""

from __future__ import annotations

import shutil
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tidemark.campaigns.campaign import Campaign
from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import generate
from tidemark.campaigns.state_stores import named, other_than
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Bound
from tidemark.oracle import Verdict


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a seed. ``defects`` counts findings by known defect; ``problem`` says why it does not hold.

    ``traits`` are those of its input (``tidemark.campaigns.input_traits``).
    """

    seed: int
    kind: str
    bound: str
    mode: str
    sink: str
    state: str
    verdict: str
    batches: int = 0
    rows: int = 0
    late: int = 0
    restarts: int = 0
    states: int = 0
    defects: dict[str, int] = {}
    traits: list[str] = []
    problem: str = ""
    run_dir: str | None = None
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong but what is known to be."""
        return not self.problem


Fuzz = Campaign[int, Outcome]


def campaign(**options: Any) -> Fuzz:
    """The campaign of seeds; ``options`` are those of every campaign."""
    return Fuzz(
        "fuzz", Outcome, lambda one: one.holds, what="seeds",
        line=lambda one: f"seed {one.seed} ({one.kind}, {one.bound}): {one.problem or one.verdict}", **options,
    )  # fmt: skip


def fuzz(seeds: Sequence[int], workers: WarmWorkers, seeded: Fuzz) -> None:
    """Run seeds. Raises ``TidemarkError`` if a worker cannot go on."""
    seeded.run(seeds, partial(run_seed, folder=workers.folder), workers)


def summary(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """How many seeds there were of each sort."""
    sorts = ("verdict", "kind", "bound", "mode", "sink", "state")
    counted = {sort: Counter(str(getattr(one, sort)) for one in outcomes) for sort in sorts}
    counted["defect"] = sum((Counter(dict.fromkeys(one.defects, 1)) for one in outcomes), Counter())
    counted["input"] = Counter(name for one in outcomes for name in one.traits or ["plain"])
    counted["restarts"] = Counter(f"{one.restarts}x" for one in outcomes)
    totals = ("batches", "rows", "late", "restarts", "states")
    counted["total"] = Counter({name: sum(getattr(one, name) for one in outcomes) for name in totals})
    return {sort: dict(sorted(counts.items())) for sort, counts in counted.items()}


def run_seed(seed: int, warm: WarmDriver, folder: Path) -> Outcome:
    """Run one seed; its evidence stays only if it does not hold."""
    case, start_s = warm.as_possible(generate(seed)), time.monotonic()
    run_dir = (folder / f"seed-{seed}").resolve()
    shutil.rmtree(run_dir, ignore_errors=True)
    outcome = Outcome(
        seed=seed,
        kind=str(case.contract.kind),
        bound=sort_of(case.contract.bound),
        mode=case.mode,
        sink=case.sink,
        state=named(case.conf),
        verdict="FAILED",
        traits=list(case.traits),
    )
    try:
        verdict = warm.run(case, run_dir)
    except TidemarkError as error:
        outcome.problem = str(error)
    except Exception as error:  # noqa: BLE001 (of a seed that is to be kept and told, whatever it is)
        outcome.problem = "".join(traceback.format_exception(error))
    else:
        _take(outcome, case, verdict)
    if outcome.holds:
        shutil.rmtree(run_dir, ignore_errors=True)
    else:
        outcome.run_dir = str(run_dir)
    outcome.seconds = round(time.monotonic() - start_s, 3)
    return outcome


def _take(outcome: Outcome, case: Case, verdict: Verdict) -> None:
    outcome.verdict = verdict.verdict
    outcome.batches, outcome.rows = verdict.counts.get("batches", 0), verdict.counts.get("rows_in", 0)
    outcome.late = verdict.counts.get("late", 0)
    outcome.restarts = len(case.stops) + case.rounds + (case.slices - 1 if case.mode == "stepped" else 0)
    outcome.defects = dict(verdict.defects_total)
    problems = _unexplained(verdict) or verdict.inconclusive
    if (spark_account := verdict.spark_account) is not None:
        outcome.states = len(spark_account.state_batches)
        if other := other_than(outcome.state, spark_account):
            problems = [*problems, other]
    outcome.problem = "; ".join(problems[:2])


def _unexplained(verdict: Verdict) -> list[str]:
    """How many findings of each property no known defect explains, and the first of them; empty if there is none."""
    if not verdict.unexplained_total:
        return []
    counts = ", ".join(f"{name} {count:,}" for name, count in verdict.unexplained_total.items())
    return [counts, next(one.message for one in verdict.findings if not one.defect)]


def sort_of(bound: Bound) -> str:
    """What kind of time bound it is, in a word or two."""
    ends = sum(end is not None for end in (bound.lower_ms, bound.upper_ms))
    if bound.window_ms is not None:
        return "equal window" if bound.equal else "window inequality"
    if bound.equal:
        return "equal time and range" if ends else "equal time"
    if ends == 0:
        return "none"
    strict = bound.lower_strict or bound.upper_strict
    return f"{'strict' if strict else 'inclusive'} {'range' if ends == 2 else 'one-sided range'}"
