"""Changes of evidence that may leave a verdict ``VALID``: places that no comparison depends on, each with its reason.

A change is found by comparing the damaged files with the sound ones, so that a flipped bit counts as what it did.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from tests.evidence.damages import INSIDE, Sound
from tests.evidence.parquet_items import read_items
from tidemark.formats.chain import is_chain
from tidemark.formats.contract import PRESERVED
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.jsonlines import open_lines

ORDER = "order"
"""The place of a change that only puts records in another order."""

COMPARED = (
    r"batchId|stateOperators\.\d+\.(numRows(Updated|Removed|DroppedByWatermark|Total)|operatorName)|"
    r"sources\.\d+\.endOffset|stateOperators|sources"
)
"""What is compared of a progress report."""
IMMATERIAL: tuple[tuple[str, str, str], ...] = (
    ("manifest", r"(seed|backend|started_utc|command|notes|code_sha256|pipeline_sha256|sink)(\..*)?",
     "says how the run came about; nothing is compared with it"),
    ("manifest", r"versions(\..*)?", "no version whose rules differ from those of this Spark"),
    ("manifest", r"inputs\.\w+\.topic", "the name of the topic in Kafka; records name the logical topic"),
    ("manifest", r"pace", "asks for less (a late row, at the pace stepped), or for more"),
    ("manifest", r"(goals|waived)(\..*)?", "asks for another coverage goal, which was met or need not be"),
    ("manifest", r"state\.(provider|changelog|note|format|asked_format)|state",
     "is shown; the rules of state formats 1 to 3 are the same"),
    ("manifest", r"state\.batches(\..*)?", "names a batch fewer: its rows would be refused, and it had none"),
    ("manifest", r"records(\..*)?", "counts a file fewer, or one that is not there"),
    ("manifest", r"(trace|flush)_sha256", "was left out: the file is as it was"),
    ("manifest", r"parquet_sha256(\..*)?", "was left out: the digest of the records is compared"),
    ("manifest", r"query_id", "was left out: the first output record says it"),
    ("batches", r"(committed|runs|restarted|failed_tasks)",
     "permits repeats and a watermark that waits: no row came again, and all inputs had rows"),
    ("batches", r"(planned|committed)_at_ms", "is measured; these runs demand nothing in time"),
    ("output", r"(key|timestamp_ms)", "is compared only for records that a producer sent twice"),
    ("output", r"headers\.(?!(batch|query)(\.|$)).*",
     "headers besides batch and query say which task wrote the record"),
    ("output", r"(partition|offset)", "where the record is, in order and once: it is the same row"),
    ("state", ORDER, "the state is compared as a multiset"),
    ("executors", r".*", "where state partitions were; it is shown, and decides nothing"),
    ("faults", r"(at_utc|ended_at_utc|recovery_s|proof)(\..*)?|order", "is shown; nothing was permitted because of it"),
    ("progress", ORDER, "reports say which batch they are of"),
    ("progress", "(sources|stateOperators).order", "sources and operators say which they are"),
    ("faults", "batch", "is of a planned batch; what a fault permits goes by how often batches ran"),
    ("progress", rf"(?!({COMPARED})$).*", "a number of Spark that nothing is compared with"),
)  # fmt: skip
"""File, place (a whole match), reason. Those that depend on the contract are in :func:`_is_uncompared`."""


def unexplained(sound: Sound, path: Path) -> list[str]:
    """The places of a damaged directory that no reason covers; none: the verdict may stay as it was."""
    found = []
    for file, place, before, after in changes(sound, path):
        if _same(file, place, before, after) or _is_uncompared(file, place, sound):
            continue
        if (file, place) == ("progress", "batchId") and _says_the_same(sound, before, after):
            continue
        if not any(file == of and re.fullmatch(pattern, place) for of, pattern, _ in IMMATERIAL):
            found.append(f"{file} {place}: {str(before)[:60]} -> {str(after)[:60]}")
    return found


def _same(file: str, place: str, before: Any, after: Any) -> bool:
    """Whether two values mean the same: a field that is left out has its default.

    The component of a fault counts with rows or ends in its proof, which that of an executor has not.
    """
    if file == "faults" and place == "component" and str(before).startswith("executor"):
        return True
    if file == "batches" and before in (False, 0, 1) and after is None and place != "batch":
        return True
    if file == "manifest" and ".start_offsets" in place and before == 0 and after is None:
        return True
    if file == "manifest" and place == "plan_differs" and not before and not after:
        return True
    return before is None and after is None and file == "output"


def _is_uncompared(file: str, place: str, sound: Sound) -> bool:
    """Whether the contract says nothing of a column, or Spark keeps up no flag on the side of a row."""
    contract = sound.manifest["contract"]
    if file == "output" and place.startswith("value."):
        output = contract["output"]
        named = output if isinstance(output, list) else [
            name for names in output.values() for name in ([names] if isinstance(names, str) else names or ())
        ]  # fmt: skip
        return place.split(".")[1] not in named
    if file == "state" and place.endswith("matched"):
        preserved = PRESERVED.get(contract.get("kind"), ())
        return place.split(".", maxsplit=1)[0] not in {("left", "right")[side] for side in preserved}
    return False


def _says_the_same(sound: Sound, before: Any, after: Any) -> bool:
    """Whether a chain's report that names another batch now has the end offsets of that batch, which had no data.

    Nothing else of a chain's reports is compared, and a batch need not have one: a driver that is killed leaves none of
    its last batch.
    """
    ends: dict[Any, list[Any]] = {}
    for report in sound.files["progress"]:
        ends[report.get("batchId")] = [source.get("endOffset") for source in report.get("sources", ())]
    return is_chain(sound.manifest["contract"]) and ends.get(before) == ends.get(after)


def changes(sound: Sound, path: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """File, place, value before and after of each change; a file that cannot be read is a change of all of it."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        yield "manifest", "all", None, None
        return
    yield from _differences("manifest", (), sound.manifest, manifest)
    run = RunDirectory(path)
    for name, before in sound.files.items():
        try:
            after = _records(run.file(name), name)
        except (OSError, ValueError, RecursionError, zstandard.ZstdError):
            yield name, "all", None, None
            continue
        yield from _of_file(name, before, after)


def _records(path: Path, name: str) -> list[Any]:
    if path.suffix == ".parquet":
        return read_items(path, name)
    with open_lines(path) as lines:
        return [json.loads(line) for line in lines if not line.isspace()]


def _of_file(name: str, before: list[Any], after: list[Any]) -> Iterator[tuple[str, str, Any, Any]]:
    texts = [[json.dumps(one, sort_keys=True) for one in records] for records in (before, after)]
    if texts[0] == texts[1]:
        return
    if Counter(texts[0]) == Counter(texts[1]):
        yield name, ORDER, None, None
        return
    if len(before) != len(after):
        yield name, "records", len(before), len(after)
        return
    for one, other in zip(before, after, strict=True):
        of_side = (str(one.get("side")),) if name == "state" else ()
        yield from _differences(name, of_side, _opened(name, one), _opened(name, other))


def _opened(name: str, record: Any) -> Any:
    """A record with the JSON inside of it, where that is an object, and its headers by name."""
    if name == "output" and isinstance(record, dict):
        record = record | {"headers": _by_name(record.get("headers"))}
    field = INSIDE.get(name)
    if field is None or not isinstance(record, dict) or not isinstance(record.get(field), str):
        return record
    try:
        inside = json.loads(record[field])
    except (ValueError, RecursionError):
        return record
    return record | {field: inside} if isinstance(inside, dict) else record


def _by_name(headers: Any) -> Any:
    named: dict[str, list[Any]] = {}
    try:
        for name, value in headers:
            named.setdefault(name, []).append(value)
    except (TypeError, ValueError):
        return headers
    return {ORDER: list(named), **named}


def _differences(
    file: str, above: tuple[str, ...], before: Any, after: Any
) -> Iterator[tuple[str, str, Any, Any]]:
    if type(before) is type(after) and before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key in before and key in after:
                yield from _differences(file, (*above, key), before[key], after[key])
            else:
                yield file, ".".join((*above, key)), before.get(key), after.get(key)
        return
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if Counter(map(json.dumps, before)) == Counter(map(json.dumps, after)):
            yield file, ".".join((*above, ORDER)), before, after
            return
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(file, (*above, str(number)), one, other)
        return
    yield file, ".".join(above), before, after
