"""What became of each red run: a line of JSON each, and the table that is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tidemark.reports.markdown import table

ABOUT = """# Red runs made smaller

Made by `python -m tests.shrunk` from real runs: {}. Rows, faults, slices and bytes: before → after, without sentinels.
*At most* is what was asked for, in rows and seconds; × 2.4: `--times-as-slow 2.4` gave so much more time, because
`python -m bench.judge --events 1000000 --unsealed` takes 2.4 times the 9.2 s of the bench's machine. *Told by rules*
are candidates that Spark's rules rejected, so that nothing was run. *Red*: how many of the last runs of the smallest
show the finding. `test_NAME.py` was run by pytest: as it came, and with the pipeline, its settings or its sink
repaired. `repro.py`, plain PySpark, is red if what came is not what is right. *Another Spark* is the newest that does
not have the known defect: there `repro.py` has to be green. A dash: there is none; under *another Spark* also: it was
not tried.
"""
NONE = "—"
HEAD = (
    "run", "finding", "rows", "faults", "slices", "bytes", "at most", "trials:", "told by rules:", "seconds:", "red",
    "test", "repaired", "repro.py", "another Spark",
)  # fmt: skip


class ShrunkLine(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one item; pairs are before and after. ``problems`` say what is not as it was asked for."""

    name: str
    finding: str
    rows: tuple[int, int]
    faults: tuple[int, int]
    slices: tuple[int, int]
    bytes: tuple[int, int]
    at_most: tuple[int, float]
    trials: int
    told: int
    seconds: float
    red: tuple[int, int]
    test: str
    repaired: str
    repro: str
    versions: dict[str, str]
    other_spark: str = NONE
    problems: list[str] = []
    times_as_slow: float = 1.0
    """How many times as long as the machine of the bench this one takes: its seconds are so many more."""


def read_lines(path: Path) -> dict[str, ShrunkLine]:
    """The lines that there are, by name."""
    if not path.is_file():
        return {}
    found = msgspec.json.Decoder(ShrunkLine).decode_lines(path.read_bytes())
    return {one.name: one for one in found}


def write_lines(path: Path, lines: Iterable[ShrunkLine]) -> None:
    """Write the lines."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(lines)))


def document(lines: Sequence[ShrunkLine], missing: Sequence[str]) -> str:
    """The table, and what is not in it."""
    versions = lines[-1].versions if lines else {}
    shown = [ABOUT.format(_versions(versions)), *table(HEAD, map(_row, lines)), ""]
    problems = [f"- {one.name}: {problem}" for one in lines for problem in one.problems]
    shown += ["## Not as it was asked for", "", *(problems or ["None."]), ""]
    if missing:
        shown += ["## Not run yet", "", *(f"- {name}" for name in missing), ""]
    return "\n".join(shown)


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name.title()} {versions[name]}" for name in ("spark", "kafka") if name in versions)


def _times(factor: float) -> str:
    return "" if factor == 1 else f" × {factor:g}"


def _row(one: ShrunkLine) -> tuple[object, ...]:
    pairs = (one.rows, one.faults, one.slices, one.bytes)
    rows, faults, slices, sizes = (f"{before:,} → {after:,}" for before, after in pairs)
    at_most = f"{one.at_most[0]} rows, {one.at_most[1]:g} s{_times(one.times_as_slow)}"
    return (
        one.name, one.finding, rows, faults if one.faults[0] else NONE, slices, sizes, at_most, one.trials,
        one.told, f"{one.seconds:.0f}",
        f"{one.red[0]} of {one.red[1]}", one.test, one.repaired, one.repro,
        one.other_spark,
    )  # fmt: skip
