"""``python -m tests.shrunk``: what ``tidemark shrink`` makes of known red runs, on a real stack, with the size of each.

Items: a run of the bundled left semi join, one of 100,000 rows, and one under thirteen faults; the case of each known
defect of a single join, padded with 500 rows that have nothing to do with it; the first seed of the fuzz that shows
each known defect; each mutant of a pipeline, on its first join, and one of a chain; and the audit of a program, whose
evidence is made smaller. Each item is run, and what is found is made smaller; the ``test_NAME.py`` and the ``repro.py``
that come of it are run, too, and have to be red, the test green once the pipeline is repaired, and the program green on
a Spark that does not have the defect, if there is one.

Words select items by name. What becomes of an item is kept in ``tests/results/shrunk.jsonl``; ``--resume`` runs those
that are not there. ``tests/results/SHRUNK.md`` is made of all that are, after each item. On a slow machine
``--times-as-slow 2.4`` gives each so much more time; the machine of the bench needs 9.2 s for ``python -m bench.judge
--events 1000000 --unsealed``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from tests.plain_programs import FAILED, answer_of
from tests.shrunk.audit_items import AuditItem, audit_items
from tests.shrunk.red_items import ShrunkItem, items
from tests.shrunk.shrunk_table import NONE, ShrunkLine, document, read_lines, write_lines
from tests.shrunk.unaffected_spark import is_as_known, outcome_elsewhere
from tidemark import paths
from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions, ShrunkRun, shrink_red_run
from tidemark.campaigns.shrink.shrunk_files import write_shrunk
from tidemark.errors import EXIT_INTERRUPTED, TidemarkError
from tidemark.stack import DRIVER, Stack, lease, spec_to_lease

RESULTS = paths.root() / "tests" / "results"
DOCUMENT, LINES = RESULTS / "SHRUNK.md", RESULTS / "shrunk.jsonl"
PROGRAM_S = 300
PER_DRIVER = 3
"""Items until the stack's driver is started anew. It keeps each query for an hour after it was stopped
(``SparkConnectStreamingQueryCache``): after 490 of them a trial took 15 s that had taken 4.
"""
NOT_INJECTED_AGAIN = 2
"""How often a test is run again whose fault was not injected, as may be on a busy machine: such a run is neither."""


def shrunk(
    item: ShrunkItem | AuditItem, stack: Stack, folder: Path, times_as_slow: float = 1.0
) -> ShrunkLine:
    """Run an item, and make its run smaller. Raises ``TidemarkError`` if it is not red."""
    if isinstance(item, AuditItem):
        return item.shrunk(stack, folder, times_as_slow)
    folder.mkdir(parents=True)
    red = item.make(stack, folder)
    options = ShrinkOptions(folder / "small", item.budget_s * times_as_slow, say=partial(print, flush=True))
    found = shrink_red_run(red, stack, options)
    write_shrunk(found, options.folder)
    line = _line(item, found, options.folder, stack)
    line = msgspec.structs.replace(line, times_as_slow=times_as_slow)
    return msgspec.structs.replace(line, problems=list(_problems(item, line)))


def _line(item: ShrunkItem, found: ShrunkRun, folder: Path, stack: Stack) -> ShrunkLine:
    before, after, signature = found.before, found.after, found.signature
    return ShrunkLine(
        name=item.name,
        finding=f"{signature.property} of {signature.about}"
        + (f", `{signature.defect}`" if signature.defect else ""),
        rows=(before.rows, after.rows),
        faults=(before.faults, after.faults),
        slices=(before.batches, after.batches),
        bytes=(before.bytes, after.bytes),
        at_most=(item.rows, item.seconds),
        trials=found.trials,
        told=found.told,
        seconds=found.seconds,
        red=(found.shrunk.final.red, found.shrunk.final.of),
        test=outcome_of_test(folder),
        repaired=outcome_when_repaired(item, folder),
        repro=outcome_of_repro(folder),
        other_spark=outcome_elsewhere(signature.defect, folder / "repro.py", PROGRAM_S),
        versions=dict(stack.versions),
    )


def _problems(item: ShrunkItem, line: ShrunkLine) -> list[str]:
    found = []
    if line.rows[1] > item.rows or line.faults[1] > item.faults:
        found.append(f"{line.rows[1]} rows and {line.faults[1]} faults are left")
    if line.seconds > item.seconds * line.times_as_slow:
        found.append(f"it took {line.seconds:.0f} s")
    if not line.red[0]:
        found.append("its last runs do not show the finding")
    wanted = (
        ("test", line.test, "red"),
        ("repaired", line.repaired, "green"),
        ("repro.py", line.repro, "red"),
    )
    found += [f"{name}: {said}" for name, said, right in wanted if said not in (NONE, right)]
    if not is_as_known(line.other_spark):
        found.append(f"repro.py is {line.other_spark}")
    return found


def outcome_of_test(folder: Path) -> str:
    """What the test does under pytest: red, green, or what went wrong; a dash if there is none."""
    if not (tests := list(folder.glob("test_*.py"))):
        return NONE
    words = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), str(tests[0])]
    words += ["-p", "no:cacheprovider", "-p", "no:xdist"]
    for _ in range(1 + NOT_INJECTED_AGAIN):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
        except subprocess.TimeoutExpired:
            return f"{FAILED}: it did not end within {PROGRAM_S} s"
        if "'every_fault_done' is required and was not met" not in done.stdout:
            break
    if done.returncode not in (0, 1) or (done.returncode == 1 and "findings" not in done.stdout):
        return f"{FAILED}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}"
    return "red" if done.returncode else "green"


def outcome_when_repaired(item: ShrunkItem, folder: Path) -> str:
    """What the test does once pipeline, settings or sink are repaired; a dash if nothing repairs it here."""
    if item.repair is None or not list(folder.glob("test_*.py")):
        return NONE
    repaired = folder.with_name("repaired")
    repaired.mkdir()
    for file in (one for one in folder.iterdir() if one.suffix in (".py", ".json", ".jsonl")):
        shutil.copy(file, repaired)
    item.repair(repaired)
    return outcome_of_test(repaired)


def outcome_of_repro(folder: Path) -> str:
    """What the program does: red, green, or what went wrong; a dash if there is none."""
    if not (folder / "repro.py").is_file():
        return NONE
    found = answer_of(folder / "repro.py", Path(sys.executable), PROGRAM_S)
    return f"{FAILED}: {found.end.splitlines()[-1:]}" if found.answer == FAILED else found.answer


def main() -> int:
    """Returns 1 if an item is not red, or is not made as small as it must be; 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.shrunk", description=__doc__)
    parser.add_argument("words", nargs="*", help="items whose name has one of these words; default: all")
    parser.add_argument("--resume", action="store_true", help="run only the items that have no result yet")
    parser.add_argument(
        "--times-as-slow", type=float, default=1.0, metavar="N", help="how slow the machine is"
    )
    parser.add_argument("--folder", type=Path, default=paths.runs_dir() / "shrunk", help="where results go")
    args = parser.parse_args()
    try:
        return int(_run(args))
    except KeyboardInterrupt:
        print(f"interrupted: what was run is in {LINES}; --resume runs what is not there", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(args: argparse.Namespace) -> bool:
    """Run the items that are asked for; whether one is not as it was asked for."""
    base, failed, done = args.folder / time.strftime("%Y%m%d-%H%M%S"), False, 0
    with lease(spec_to_lease(None)) as stack:
        every = [*items(stack.versions["spark"]), *audit_items()]
        names = [item.name for item in every]
        for number, item in enumerate(every):
            if args.words and not any(word in item.name for word in args.words):
                continue
            if args.resume and item.name in read_lines(LINES):
                continue
            if done and done % PER_DRIVER == 0:
                stack.kill(DRIVER)
                stack.start(DRIVER)
            done += 1
            print(f"{item.name} …", flush=True)
            try:
                line = shrunk(item, stack, base / str(number), args.times_as_slow)
            except TidemarkError as error:
                print(f"{item.name}: {error}", flush=True)
                failed = True
                continue
            failed = failed or bool(line.problems)
            print(f"{line.rows} rows, {line.seconds:.0f} s, {line.problems or 'as it must be'}", flush=True)
            _keep(line, names)
    return failed


def _keep(line: ShrunkLine, names: Sequence[str]) -> None:
    """Add a line to those that are there by now: another process may have added some, too."""
    lines = {**read_lines(LINES), line.name: line}
    kept = [lines[name] for name in names if name in lines]
    write_lines(LINES, kept)
    DOCUMENT.write_text(document(kept, [name for name in names if name not in lines]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
