"""One damage after the other, each judged in a process with limits, and what came of all of them."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.evidence.damages import Sound
from tests.evidence.explained import unexplained
from tests.evidence.judging import judged, limit_memory
from tidemark.formats.storage import STORAGES

RUNS = Path(__file__).parent / "runs"
GOOD = ("refused", "UNKNOWN", "INVALID")
UNCHANGED = "unchanged"
"""A place was chosen at which there is nothing to change."""
BAD = ("crashed", "hung", "too large")


@dataclass(frozen=True)
class Result:
    """What came of one damage; ``problem``: why it must not have come, or nothing."""

    seed: int
    run: str
    sealed: bool
    damage: str
    kind: str
    said: str
    problem: str


@dataclass
class Tally:
    """How many damages ended how."""

    kinds: dict[bool, Counter[str]] = field(default_factory=lambda: {True: Counter(), False: Counter()})
    problems: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count one."""
        self.kinds[result.sealed][result.kind] += 1
        if result.problem:
            self.problems.append(result)


def names() -> list[str]:
    """The recorded runs."""
    return sorted(path.name for path in RUNS.iterdir() if path.is_dir())


def all_sounds() -> list[Sound]:
    """Each recorded run, as JSON Lines and as Parquet."""
    return [Sound(RUNS / name, storage) for name in names() for storage in STORAGES]


def tried(sound: Sound, rng: Random, seed: int, *, sealed: bool) -> Result:
    """Damage a run, judge it, and say whether that may come of it."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / "run"
        damage = sound.damaged(rng, path)
        if not sealed:
            (path / "seal.json").unlink()
        outcome = judged(path)
        kind, problem = outcome.kind, ""
        if kind in BAD:
            problem = kind
        elif damage.action == "nothing":
            kind = UNCHANGED
        elif sealed and outcome.kind != "refused":
            problem = f"{outcome.kind} under a seal"
        elif outcome.kind == "VALID":
            left = unexplained(sound, path)
            if left:
                problem = f"VALID: {left[0]}"
        return Result(seed, sound.name, sealed, str(damage), kind, outcome.said, problem)


def _memory() -> str | None:
    """A folder in memory, where there is one: a damage writes a dozen small files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


_sounds: list[Sound] = []
_TASKS = 100


def _one(task: tuple[int, bool]) -> Result:
    seed, sealed = task
    rng = Random(seed)
    return tried(_sounds[seed % len(_sounds)], rng, seed, sealed=sealed)


def carry_out(tasks: list[tuple[int, bool]], workers: int) -> Iterator[Result]:
    """The results, as they come; a task is a seed, and whether the directory keeps its seal."""
    _sounds[:] = all_sounds()
    # Each process is new after some tasks: what it ever had at most is measured, and limited.
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, initializer=limit_memory, maxtasksperchild=_TASKS) as pool:
        yield from pool.imap_unordered(_one, tasks, chunksize=1)
