"""Mutants in the checkpoint: files that are changed between two runs of one query.

The driver is killed; the program that starts the query again finds a checkpoint, and tampers with it first.
"""

from __future__ import annotations

from tests.mutants.mutants import Mutant

TAMPERING = """
import pathlib, sys

def checkpoint():
    [path] = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--checkpoint=")]
    return pathlib.Path(path)

def put(file, data):
    file.with_name("." + file.name + ".crc").unlink(missing_ok=True)
    file.write_bytes(data)

def tamper():
    {}

untouched = build

def build(left, right):
    if (checkpoint() / "commits").is_dir():
        tamper()
    return untouched(left, right)
"""
FORGOTTEN = """
    deltas = {file: file.read_bytes() for file in checkpoint().glob("state/0/*/*/*.delta")}
    empty = min(deltas.values(), key=len)
    for file in deltas:
        if file.parent.name.startswith("left-"):
            put(file, empty)
"""
EXCHANGED = """
    for file in checkpoint().glob("state/0/0/left-*/*.delta"):
        other = checkpoint() / "state/0/1" / file.parent.name / file.name
        mine, others = file.read_bytes(), other.read_bytes()
        put(file, others)
        put(other, mine)
"""
WATERMARK = """
    import json
    last = max((checkpoint() / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    version, metadata, *sources = last.read_text().splitlines()
    metadata = json.loads(metadata)
    metadata["batchWatermarkMs"] += 15_000
    put(last, "\\n".join([version, json.dumps(metadata), *sources]).encode())
"""
DELETED = """
    for file in checkpoint().glob("state/0/0/left-keyToNumValues/*.delta"):
        file.unlink()
"""

STATE = {
    "left side of the state forgotten": Mutant(
        {"left_outer": "missing_nulls"},
        added=TAMPERING.format(FORGOTTEN), sink="spark", faults="driver@written",
    ),
    "partitions of the state exchanged": Mutant(
        {"left_outer": "nulls_for_matched_rows"},
        added=TAMPERING.format(EXCHANGED), sink="spark", faults="driver@written",
    ),
    "watermark of a planned batch raised": Mutant(
        {"left_outer": "wrong_watermarks"},
        added=TAMPERING.format(WATERMARK), sink="spark", faults="driver@written",
    ),
}  # fmt: skip
"""Those that Spark runs with; the exactly-once sink refuses most, for the batch has other rows when it is run again."""

REFUSED = Mutant({}, added=TAMPERING.format(DELETED), faults="driver@written")
"""One that it does not: state files that it needs are gone."""
