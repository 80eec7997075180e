"""``python -m tests.golden``: judge every directory again, say what changed, and rewrite the expectations.

New texts, renamed names and new directories are written. Facts that changed (a verdict, a finding, a row, a count) are
shown, and written only with ``--accept-facts``; until then the exit code is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import msgspec
import zstandard

from tests.golden.changes import changed, renamed, with_new_names
from tests.golden.judging import EVIDENCE, FACTS, TEXTS, Expectations, judge_again, names, read, write
from tidemark.formats.evidence import open_run
from tidemark.formats.jsonlines import open_lines

KEPT = ("trace", "flush", "batches", "output", "state", "state_keys", "executors", "faults", "progress")
"""The files that a judgement reads, besides the manifest."""
PATH = re.compile(rb"(?<![\w/])/(?:[\w.+-]+/)+")
"""Where files were, on the machine that made the run."""


def main(arguments: list[str]) -> int:
    """Returns 1 if facts changed and were not accepted."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--accept-facts", action="store_true", help="write facts that changed, too")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--add", nargs=2, metavar=("RUN", "NAME"), help="take over a run directory as NAME")
    args = parser.parse_args(arguments)
    if args.add:
        add(Path(args.add[0]), EVIDENCE / args.add[1])
    facts, texts = judge_all()
    is_accepted = report(facts, texts) or args.accept_facts
    if not args.dry_run:
        write(TEXTS, texts)
        if is_accepted:
            write(FACTS, facts)
    return 0 if is_accepted else 1


def add(run: Path, target: Path) -> None:
    """Take over what a judgement reads of a run directory, compressed, without paths of this machine."""
    directory = open_run(run)
    target.mkdir(parents=True)
    manifest = PATH.sub(b"", msgspec.json.encode(directory.manifest))
    (target / "manifest.json").write_bytes(msgspec.json.format(manifest, indent=1) + b"\n")
    for name in KEPT:
        if (path := directory.file(name)).is_file():
            with open_lines(path) as lines:
                compressed = zstandard.ZstdCompressor(level=19).compress(PATH.sub(b"", lines.read()))
            (target / f"{name}.jsonl.zst").write_bytes(compressed)


def judge_all() -> tuple[Expectations, Expectations]:
    """Facts and texts of every directory."""
    facts, texts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names():
            judged = judge_again(name, Path(folder))
            facts[name], texts[name] = judged.facts, judged.texts
    return facts, texts


def report(facts: Expectations, texts: Expectations) -> bool:
    """Print what changed; returns whether all facts are what they were, but for their names."""
    old, old_texts = read(FACTS), read(TEXTS)
    new_names = renamed(old, facts)
    for kind, pairs in new_names.items():
        for before, after in pairs.items():
            print(f"renamed  {kind}: {before} -> {after}")
    old, changes, worded = with_new_names(old, new_names), 0, 0
    for name in sorted({*old, *facts}):
        if name not in facts:
            print(f"gone     {name}")
            changes += 1
        elif name not in old:
            print(f"added    {name}: {facts[name].get('verdict', 'not readable')}")
        else:
            lines = list(changed(old[name], facts[name]))
            changes += len(lines)
            for line in lines:
                print(f"CHANGED  {name}: {line}")
            worded += texts[name] != old_texts.get(name)
    print(f"{len(facts)} directories; facts changed: {changes}; other texts in {worded}")
    if changes:
        print("facts are written only with --accept-facts")
    return not changes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
