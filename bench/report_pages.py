"""The page of a run: its size, how long it takes to make beyond judging, and how long until its picture is seen.

    python -m bench.report_pages [--runs 5] [--demo DIR] [--write]

The demo is run first (``--demo DIR``: its evidence, if it is there already); a million events are made without Kafka
and Spark; the others are recorded evidence. Each page is made in a process of its own, and shown in Chromium in a
context of its own, from a file, until the picture has been painted. ``--write`` puts the table into
``docs/howto/look-at-a-report.md``. The aims are 1 s for either, and 3 s for a million events.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench._large_evidence import make_large_run
from bench._summary import print_result, say, summary
from docs.page_browser import browser, opened
from tidemark.formats.evidence import open_run
from tidemark.formats.seal import seal
from tidemark.reports.batch_counts import size_of

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "howto" / "look-at-a-report.md"
BEGIN, END = "<!-- written by python -m bench.report_pages -->", "<!-- end of it -->"
GOLDEN = ROOT / "tests" / "golden" / "evidence"
RECORDED = {
    "a left semi join that lost rows": "left_semi_readme",
    "a driver killed under Spark's own sink": "faults_spark_sink_as_exactly_once",
    "an audit": "audit_spark_3_5",
}
DEMO = ("left_outer", "--impressions", "20000", "--kill-executors", "3")
EVENTS, BATCHES = 1_000_000, 40
AIM_BYTES, AIM_S, AIM_LARGE_S = 1_200_000, 1.0, 3.0
_MAKE = """
import json, sys, time
from pathlib import Path
from tidemark.formats.evidence import open_run
from tidemark.oracle import judge
from tidemark.reports.html_report import write_report
run = open_run(Path(sys.argv[1]))
verdict = judge(run)
started = time.monotonic()
write_report(run, verdict, Path(sys.argv[2]))
print(json.dumps(time.monotonic() - started))
"""


def measured(run: Path, page: Path, runs: int) -> dict[str, Any]:
    """The page of one run directory, which is left at ``page``."""
    made = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", _MAKE, str(run), str(page)], check=True, capture_output=True, text=True
        )
        made.append(float(json.loads(done.stdout)))
    seen = []
    with browser() as shown:
        for _ in range(runs):
            with opened(shown, page) as one:
                one.wait_until_drawn()
                seen.append(one.drawn_after_s())
    return {
        "records": size_of(open_run(run).manifest),
        "bytes": page.stat().st_size,
        "made": summary("made", "s", made),
        "seen": summary("seen", "s", seen),
    }


def demo(folder: Path) -> Path:
    """Run the demo, on a stack that ends with it."""
    run = folder / "demo"
    command = [sys.executable, "-m", "tidemark", "run", *DEMO, "--run-dir", str(run)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return run


def table(results: dict[str, dict[str, Any]]) -> str:
    """The rows of a Markdown table."""
    rows = [
        f"| {name} | {one['records']:,} | {one['bytes'] / 1e6:.2f} MB"
        f" | {_spread(one['made'])} | {_spread(one['seen'])} |"
        for name, one in results.items()
    ]
    head = "| page of | records | size | made, beyond judging | picture seen after |"
    return "\n".join([head, "|---|---:|---:|---:|---:|", *rows])


def _spread(one: dict[str, Any]) -> str:
    return f"{one['median']:.2f} s ({one['min']:.2f} to {one['max']:.2f})"


def write(text: str, document: Path = DOCUMENT) -> None:
    """Put the table into the document, between its marks."""
    before, _, rest = document.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Measure all of them and print the result."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report_pages", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--demo", type=Path, metavar="DIR", help="evidence of the demo that is there already")
    parser.add_argument("--write", action="store_true", help=f"into {DOCUMENT.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    results = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        large = make_large_run(folder / "million", EVENTS, BATCHES)
        seal(large.path)
        runs = {
            "the demo": args.demo or demo(folder),
            **{title: GOLDEN / evidence for title, evidence in RECORDED.items()},
            "a million events": large.path,
        }
        for title, run in runs.items():
            say(title)
            results[title] = measured(run, folder / "page.html", args.runs)
    if args.write:
        write(table(results))
    say(table(results).replace("\n", "\n  "))
    aims = {"aim_bytes": AIM_BYTES, "aim_s": AIM_S, "aim_large_s": AIM_LARGE_S}
    print_result({"pages": results, **aims})


if __name__ == "__main__":
    main(sys.argv[1:])
