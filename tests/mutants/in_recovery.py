"""Mutants of Spark's side of a recovery: what it does wrong only if a driver is killed at one commit point.

The program that starts the query again finds the checkpoint of a killed driver, as in ``tests.mutants.in_state``, and
does what a wrong recovery would do, if that batch was at the point. Each names a schedule with which it does nothing.
"""

from __future__ import annotations

from tests.mutants.in_state import TAMPERING
from tests.mutants.mutants import Mutant
from tidemark.runner.possible_faults import SNAPSHOTS_OFTEN

SEEN = """
    import json

    def number(file):
        return int(file.name)

    planned = max((checkpoint() / "offsets").glob("[0-9]*"), key=number)
    commit = checkpoint() / "commits" / planned.name
    if {unless_committed}:
        return
    sources = planned.read_text().splitlines()[2:]
    reads = sources != planned.with_name(str(number(planned) - 1)).read_text().splitlines()[2:]
    version = f"{{number(planned) + 1}}.delta"
    stores = {{}}
    for store in checkpoint().glob("state/0/[0-9]*/*"):
        stores.setdefault(store.parent, []).append((store / version).exists())
    empty = min((file.read_bytes() for file in checkpoint().glob("state/0/[0-9]*/*/*.delta")), key=len)
"""
RUNS = SEEN.format(unless_committed="commit.exists() or number(planned) == 0")
COMMITS = """
    if {when}:
        before = commit.with_name(str(number(planned) - 1)).read_text().splitlines()[0]
        watermark = json.loads(planned.read_text().splitlines()[1])["batchWatermarkMs"]
        put(commit, "\\n".join([before, json.dumps({{"nextBatchWatermarkMs": watermark}})]).encode())
        for store in checkpoint().glob("state/0/[0-9]*/*"):
            if not (store / version).exists():
                put(store / version, empty)
"""
NOTHING_DONE = "reads and not any(any(done) for done in stores.values())"
ONE_TASK_DONE = (
    "any(all(done) for done in stores.values()) and not all(all(done) for done in stores.values())"
)
OLD_WATERMARK = (
    RUNS
    + """
    if not reads:
        before = planned.with_name(str(number(planned) - 1)).read_text().splitlines()
        version, metadata, *sources = planned.read_text().splitlines()
        metadata = {**json.loads(metadata), "batchWatermarkMs": json.loads(before[1])["batchWatermarkMs"]}
        put(planned, "\\n".join([version, json.dumps(metadata), *sources]).encode())
"""
)
FORGOTTEN_COMMIT = (
    SEEN.format(unless_committed="not commit.exists() or number(planned) == 0")
    + """
    put(commit, b"")
    commit.unlink()
"""
)
BEGUN_ANEW = (
    RUNS
    + """
    for partition, done in stores.items():
        if len(set(done)) > 1:
            for file in partition.glob("*/*.delta"):
                put(file, empty)
"""
)
UNFINISHED_SNAPSHOT = (
    RUNS
    + """
    for begun in checkpoint().glob("state/0/[0-9]*/*/.*.snapshot.*.tmp"):
        for store in begun.parents[1].glob("*-*"):
            put(store / f"{number(planned)}.snapshot", empty)
"""
)


def _committed(when: str) -> str:
    return TAMPERING.format(RUNS + COMMITS.format(when=when))


RECOVERY = {
    "batch taken for committed once it is planned": Mutant(
        {"left_outer": "lost_rows"}, added=_committed(NOTHING_DONE), sink="spark",
        faults="driver@planned", harmless="driver@no-data",
    ),
    "batch taken for committed once a task of it is done": Mutant(
        {"left_outer": "misplaced_rows"}, added=_committed(ONE_TASK_DONE), sink="spark",
        faults="driver@half-written", harmless="driver@planned",
    ),
    "watermark of a batch that reads nothing forgotten": Mutant(
        {"left_outer": "wrong_watermarks"}, added=TAMPERING.format(OLD_WATERMARK), sink="spark",
        faults="driver@no-data", harmless="driver@planned",
    ),
    "partition begun anew whose stores are not of one version": Mutant(
        {"left_outer": "missing_nulls"}, added=TAMPERING.format(BEGUN_ANEW), sink="spark",
        faults="driver@state", harmless="driver@planned",
    ),
    "snapshot taken for whole that is not finished": Mutant(
        {"left_outer": "missing_nulls"}, added=TAMPERING.format(UNFINISHED_SNAPSHOT), sink="spark",
        conf=SNAPSHOTS_OFTEN, faults="driver@snapshot", harmless="driver@planned",
    ),
    "commit forgotten that is the last": Mutant(
        {"left_outer": "duplicate_rows"}, added=TAMPERING.format(FORGOTTEN_COMMIT), sink="spark",
        faults="driver@committed", harmless="driver@planned",
    ),
    "at-least-once sink that promises exactly-once, its commit removed": Mutant(
        {"left_outer": "duplicate_rows"}, sink="spark", delivery="exactly-once",
        faults="driver@deleted-commit", harmless="driver@committed",
    ),
}  # fmt: skip
