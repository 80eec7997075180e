"""How the judge grows: seconds and memory over the number of events, as a table and as a graph.

    python -m bench._judge_sizes [--events 100000 1000000 ...] [--scratch DIR] [--results FILE]
    python -m bench._judge_sizes --plot FILE.svg [--results FILE]

Each run directory is a left outer join in Parquet, made set by set (``bench._large_evidence``), sealed, judged in a
process of its own, and removed. A result is a line of the file; a size that is there already is not measured again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec

from bench._evidence import measure
from bench._large_evidence import make_large_run
from tidemark.formats.seal import seal

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
RESULTS = Path(__file__).parent / "judge-sizes.jsonl"
BATCHES = 40


class Measured(msgspec.Struct):
    """One size: wall-clock and processor seconds, the most memory in bytes, of the evidence the size on disk."""

    events: int
    judge_s: float
    cpu_s: float
    resident_bytes: int
    evidence_bytes: int
    verdict: str


def measured(events: int, scratch: Path | None) -> Measured:
    """Make a run directory, judge it, remove it."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-", dir=scratch) as folder:
        run = make_large_run(Path(folder) / "run", events, BATCHES)
        seal(run.path)
        size = sum(path.stat().st_size for path in run.path.iterdir())
        return msgspec.convert(
            {**measure(run.path), "events": events, "evidence_bytes": size}, Measured, strict=False
        )


def read(path: Path) -> list[Measured]:
    """What was measured, by size."""
    lines = path.read_bytes() if path.is_file() else b""
    found = msgspec.json.Decoder(Measured).decode_lines(lines)
    return sorted(found, key=lambda one: one.events)


def table(found: list[Measured]) -> str:
    """The rows of a Markdown table."""
    rows = [
        f"| {one.events:,} | {one.judge_s:.1f} | {one.cpu_s:.1f} | {one.resident_bytes / 1e6:,.0f}"
        f" | {one.evidence_bytes / 1e6:,.0f} | {one.verdict} |"
        for one in found
    ]
    head = "| events | seconds | processor seconds | memory, MB | evidence, MB | verdict |"
    return "\n".join([head, "|---:|---:|---:|---:|---:|---|", *rows])


def plot(found: list[Measured], path: Path) -> None:
    """Seconds and memory over events, both axes logarithmic; a dashed line shows linear growth."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        sys.exit("matplotlib is missing: `make docs` installs what the documents need")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    events = [one.events for one in found]
    curves = (
        ("seconds", [one.judge_s for one in found]),
        ("memory, MB", [one.resident_bytes / 1e6 for one in found]),
    )
    for axis, (name, values) in zip(axes, curves, strict=True):
        axis.loglog(events, values, marker="o")
        if name == "seconds":
            axis.loglog(events, [values[-1] * one / events[-1] for one in events], linestyle="--", alpha=0.5)
        axis.set(xlabel="events", ylabel=name)
        axis.grid(visible=True, which="major", alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Measure what is missing and print the table, or draw the graph."""
    parser = argparse.ArgumentParser(
        prog="python -m bench._judge_sizes", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--events", type=int, nargs="+", default=SIZES)
    parser.add_argument("--scratch", type=Path, help="make run directories here")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw what was measured")
    args = parser.parse_args()
    if args.plot is None:
        known = {one.events for one in read(args.results)}
        for events in [one for one in args.events if one not in known]:
            line = msgspec.json.encode(measured(events, args.scratch))
            with args.results.open("ab") as file:
                file.write(line + b"\n")
            sys.stderr.write(line.decode() + "\n")
    found = read(args.results)
    if args.plot is not None:
        plot(found, args.plot)
    sys.stdout.write(table(found) + "\n")


if __name__ == "__main__":
    main()
