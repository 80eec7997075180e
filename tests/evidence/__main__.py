"""``python -m tests.evidence``: damages the evidence of real runs thousands of times, and judges each.

A verdict on damaged evidence has to be ``INVALID`` or ``UNKNOWN``, or there is none (exit code 2). ``VALID`` may only
be what a reason explains (``explained.py``), and never with a seal. Writes ``tests/results/EVIDENCE.md`` if all held.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.evidence.campaign import BAD, GOOD, UNCHANGED, Tally, carry_out, names
from tests.evidence.explained import IMMATERIAL
from tests.evidence.judging import LIMIT_BYTES, LIMIT_S
from tests.evidence.recording import OPTIONS, record

DOCUMENT = Path(__file__).parents[1] / "results" / "EVIDENCE.md"


def main() -> int:
    """Returns 1 if a damage had an outcome that it must not have."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence", description=__doc__)
    parser.add_argument("--damages", type=int, default=5_000, help="how many, without a seal (5,000)")
    parser.add_argument("--sealed", type=int, default=1_000, help="how many, with the seal (1,000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=2, help="how many are judged at once (2)")
    parser.add_argument("--markdown", type=Path, default=DOCUMENT, help="where the document goes")
    parser.add_argument(
        "--record",
        nargs="*",
        choices=OPTIONS,
        metavar="NAME",
        help="make these runs again (all), and do nothing else",
    )
    args = parser.parse_args()
    if args.record is not None:
        for name in args.record or OPTIONS:
            record(name)
        return 0
    tasks = [(args.first + number, False) for number in range(args.damages)]
    tasks += [(args.first + number, True) for number in range(args.sealed)]
    tally = Tally()
    for number, result in enumerate(carry_out(tasks, args.workers), 1):
        tally.add(result)
        if result.problem:
            print(
                f"seed {result.seed}, {result.run}: {result.damage}\n  {result.problem}\n  {result.said[-300:]}"
            )
        if number % 500 == 0:
            print(f"{number:,} of {len(tasks):,} damages, {len(tally.problems)} problems", flush=True)
    if tally.problems:
        print(f"{len(tally.problems)} of {len(tasks):,} damages must not have ended so")
        return 1
    args.markdown.write_text(document(tally))
    print(f"{len(tasks):,} damages; written: {args.markdown}")
    return 0


def document(tally: Tally) -> str:
    """The document of a campaign that held."""
    columns = [UNCHANGED, *GOOD, "VALID", *BAD]
    rows = [
        f"| {'sealed' if sealed else 'unsealed'} | {kinds.total():,} | "
        + " | ".join(f"{kinds[name]:,}" for name in columns) + " |"
        for sealed, kinds in tally.kinds.items()
    ]  # fmt: skip
    reasons = [f"| `{file}` | `{place}` | {reason} |" for file, place, reason in _escaped()]
    return f"""# Damaged evidence

Made by `python -m tests.evidence`: the evidence of {len(names())} real runs, each as JSON Lines and as Parquet. A seed
chooses each damage: files removed, emptied, cut, doubled, exchanged, replaced by a pipe, a folder or a loop; bytes
flipped; columns removed, renamed, retyped, exchanged, emptied, added; records dropped, doubled, swapped, moved to
another file; fields removed, retyped, resized, changed, or given the value of another record; and the same inside of
the JSON of a record. `refused` is exit code 2 with file and reason. A judgement may take {LIMIT_S} s and
{LIMIT_BYTES >> 20} MB. The runs: {", ".join(names())}.

| evidence | damages | {" | ".join(columns)} |
|---|---|{"---|" * len(columns)}
{chr(10).join(rows)}

## What may stay `VALID` without a seal

Each `VALID` above is a change at one of these places only. Any other fails the campaign.

| file | place | because |
|---|---|---|
{chr(10).join(reasons)}
"""


def _escaped() -> list[tuple[str, str, str]]:
    """What is explained, with the bars of its patterns as a table takes them."""
    return [(file, place.replace("|", "\\|"), reason) for file, place, reason in IMMATERIAL]


if __name__ == "__main__":
    sys.exit(main())
