"""Damage to the evidence of a run, by its structure: files, records, fields, and the JSON inside of a field.

A :class:`Sound` run is read once; :meth:`Sound.damaged` makes one change that a ``random.Random`` chooses, and writes
the directory with it. The :class:`Damage` says what was changed, so that a verdict on it can be explained. What was not
changed has the same bytes as before.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import zstandard

from tests.evidence.parquet_items import COLUMN_CHANGES, change_columns, write_items
from tidemark.formats.evidence import COUNTED, TRACES, RunDirectory
from tidemark.formats.jsonlines import open_lines
from tidemark.formats.seal import seal
from tidemark.formats.storage import Storage, store_run

Item = Any
"""A JSON value."""
INSIDE = {"trace": "value", "flush": "value", "output": "value"}
"""Fields whose text is JSON itself."""


@dataclass(frozen=True)
class Damage:
    """One change: the file, what was done, and where: record number (0 is the header of a trace) and path of the field.

    ``before`` and ``after`` are the values at that place (``None`` where a place was removed or added).
    """

    file: str
    action: str
    record: int | None = None
    path: tuple[str, ...] = ()
    before: Item = None
    after: Item = None

    def __str__(self) -> str:
        where = f" record {self.record}" if self.record is not None else ""
        field = f" field {'.'.join(self.path)}" if self.path else ""
        change = f": {_short(self.before)} -> {_short(self.after)}" if self.path else ""
        return f"{self.file}: {self.action}{where}{field}{change}"


class Sound:
    """The evidence of a run on which a judgement found nothing; its files are written without compression.

    ``storage`` says how the large files are written: as JSON Lines, or as Parquet.
    """

    def __init__(self, path: Path, storage: Storage = "jsonl") -> None:
        self.name = path.name if storage == "jsonl" else f"{path.name} as {storage}"
        self._stored: dict[str, bytes] = {}  # the Parquet files of a run without a change
        run = RunDirectory(path)
        self.manifest = json.loads((path / "manifest.json").read_bytes())
        self.files: dict[str, list[Item]] = {}
        self._texts = {name: (path / name).read_text() for name in ("manifest.json", "contract.json")}
        self._lines: dict[int, str] = {}  # of each record by its identity: an unchanged one keeps its bytes
        for name in COUNTED:
            file = run.file(name)
            if file.is_file():
                with open_lines(file) as lines:
                    texts = [line.decode() for line in lines if not line.isspace()]
                self.files[name] = [json.loads(text) for text in texts]
                self._lines |= zip(map(id, self.files[name]), texts, strict=True)
        with tempfile.TemporaryDirectory() as folder:
            self.write_records(Path(folder), {})
            seal(Path(folder))
            self._texts["seal.json"] = (Path(folder) / "seal.json").read_text()
            if storage == "parquet":
                self._store(Path(folder))

    def _store(self, folder: Path) -> None:
        """Take over what a conversion makes of the run."""
        stored = folder / "stored"
        shutil.copytree(folder, stored)
        store_run(stored, "parquet")
        self.manifest = json.loads((stored / "manifest.json").read_bytes())
        for name in ("manifest.json", "seal.json"):
            self._texts[name] = (stored / name).read_text()
        self._stored = {path.stem: path.read_bytes() for path in stored.glob("*.parquet")}

    def file_name(self, name: str) -> str:
        """How a file of evidence is called."""
        return f"{name}.parquet" if name in self._stored else f"{name}.jsonl"

    def damaged(self, rng: Random, target: Path) -> Damage:
        """Write the run to a new directory, with one change."""
        target.mkdir(parents=True)
        file = rng.choice(["manifest", *(name for name, records in self.files.items() if records)])
        if file == "manifest":
            changed = copy.deepcopy(self.manifest)
            damage = _in_value(rng, "manifest", None, changed)
            self.write_records(target, {})
            if damage.action != "nothing":
                (target / "manifest.json").write_text(_dump(changed))
            return damage
        kind = rng.choice([_of_file] + [_of_records] * 3 + [_in_record] * 6)
        return kind(self, rng, file, target)

    def write_records(self, target: Path, changed: dict[str, list[Item]]) -> None:
        """Write all files, some of them with other records."""
        for name, text in self._texts.items():
            (target / name).write_text(text)
        for name, records in (self.files | changed).items():
            path = target / self.file_name(name)
            if name not in self._stored:
                path.write_text("".join(map(self._line, records)))
            elif name in changed:
                write_items(path, name, [self._line(record) for record in records[:1]], records)
            else:
                path.write_bytes(self._stored[name])

    def _line(self, record: Item) -> str:
        return self._lines.get(id(record)) or _dump(record) + "\n"


def _of_file(run: Sound, rng: Random, name: str, target: Path) -> Damage:
    """Change a file as a whole."""
    run.write_records(target, {})
    path = target / run.file_name(name)
    content = path.read_bytes()
    is_parquet = path.suffix == ".parquet"
    actions: dict[str, Callable[[], object]] = {
        "removed": path.unlink,
        "emptied": lambda: path.write_bytes(b""),
        "cut": lambda: path.write_bytes(content[: rng.randrange(len(content))]),
        "bytes flipped": lambda: path.write_bytes(_flipped(rng, content)),
        "twice": lambda: path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(content)),
        "a pipe": lambda: (path.unlink(), os.mkfifo(path)),
        "a folder": lambda: (path.unlink(), path.mkdir()),
        "a loop": lambda: (path.unlink(), path.symlink_to(path.name)),
        "of another file": lambda: shutil.copyfile(
            target / run.file_name(rng.choice([one for one in run.files if one != name])), path
        ),
    }
    if is_parquet:
        actions |= {
            f"columns {change}": partial(change_columns, rng, path, change) for change in COLUMN_CHANGES
        }
    else:
        actions["compressed and cut"] = lambda: _cut_compressed(rng, path)
    # A flipped byte is one of many: in a page, in its header, in the metadata.
    action = rng.choice([*actions, *["bytes flipped"] * (2 * len(actions) if is_parquet else 0)])
    actions[action]()
    return Damage(name, action)


def _flipped(rng: Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _cut_compressed(rng: Random, path: Path) -> None:
    compressed = zstandard.compress(path.read_bytes())
    path.unlink()
    path.with_suffix(".jsonl.zst").write_bytes(compressed[: rng.randrange(len(compressed))])


def _of_records(run: Sound, rng: Random, name: str, target: Path) -> Damage:
    """Drop, double, swap, move or cut records."""
    records = list(run.files[name])
    first = name in TRACES
    if len(records) <= first:
        run.write_records(target, {})
        return Damage(name, "nothing")
    at = rng.randrange(first, len(records))
    action = rng.choice(
        ["dropped", "doubled", "doubled at the end", "swapped", "moved to the end", "cut", "moved to a file"]
    )
    other = at
    if action == "dropped":
        del records[at]
    elif action == "doubled":
        records.insert(at, records[at])
    elif action == "doubled at the end":
        records.append(records[at])
    elif action == "swapped":
        other = rng.randrange(first, len(records))
        records[at], records[other] = records[other], records[at]
    elif action == "moved to the end":
        records.append(records.pop(at))
    elif action == "cut":
        del records[at:]
    else:
        into = {"trace": "flush", "flush": "trace"}.get(name) or rng.choice(list(run.files))
        moved = records.pop(at)
        run.write_records(target, {name: records, into: [*run.files[into], moved]} if into != name else {})
        return Damage(name, f"moved to {into}" if into != name else "nothing", at, before=moved)
    same = records == run.files[name]
    run.write_records(target, {name: records})
    return Damage(
        name, "nothing" if same else action, at, before=run.files[name][at], after=run.files[name][other]
    )


def _in_record(run: Sound, rng: Random, name: str, target: Path) -> Damage:
    """Change a field of a record, or of the JSON inside of one."""
    records = list(run.files[name])
    if not records:
        run.write_records(target, {})
        return Damage(name, "nothing")
    at = rng.randrange(len(records))
    records[at] = copy.deepcopy(records[at])
    inside = INSIDE.get(name)
    text = records[at].get(inside) if inside and isinstance(records[at], dict) else None
    if isinstance(text, str) and rng.random() < 0.6:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, dict):
            damage = _in_value(rng, name, at, value)
            records[at][inside] = _dump(value)
            run.write_records(target, {name: records})
            return Damage(name, damage.action, at, (str(inside), *damage.path), damage.before, damage.after)
    if rng.random() < 0.1 and len(records) > 1:
        other = rng.choice(records)
        shared = [key for key in records[at] if key in other and other[key] != records[at][key]]
        if shared:
            key = rng.choice(shared)
            before, records[at][key] = records[at][key], other[key]
            run.write_records(target, {name: records})
            return Damage(name, "another record's", at, (key,), before, other[key])
    damage = _in_value(rng, name, at, records[at])
    run.write_records(target, {name: records})
    return damage


def _in_value(rng: Random, name: str, record: int | None, item: Item) -> Damage:
    """Change one place of a JSON object."""
    path = rng.choice(list(_paths(item)))
    holder = item
    for part in path[:-1]:
        holder = holder[part]
    key, before = path[-1], holder[path[-1]]
    said = tuple(map(str, path))
    action = rng.choice(["removed", "added", "retyped", "resized", "changed", "changed", "changed"])
    if action == "removed":
        del holder[key]
        return Damage(name, action, record, said, before)
    if action == "added":
        if isinstance(holder, dict):
            holder["unheard_of"] = 1
        else:
            holder.append(before)
        return Damage(name, action, record, said, None, before)
    pick = {"retyped": _retyped, "resized": _resized, "changed": _changed}[action]
    holder[key] = after = pick(rng, before)
    action = "nothing" if _same(after, before) else action
    return Damage(name, action, record, said, before, after)


def _same(one: Item, other: Item) -> bool:
    return type(one) is type(other) and one == other


def _paths(item: Item, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    found = []
    for key, value in inside:
        found += [(*above, key), *_paths(value, (*above, key))]
    return found


class Raw(str):
    """Text that is written as it is, where ``json`` would not write it."""


DEEP = Raw("[" * 5000 + "]" * 5000)
OTHERS: list[Item] = [None, True, 0, 1.5, "", "x", [], {}, [1], {"a": 1}, Raw("1e400"), Raw("NaN"), DEEP]


def _retyped(rng: Random, before: Item) -> Item:
    others = [other for other in OTHERS if type(other) is not type(before)]
    return rng.choice(others)


def _resized(rng: Random, before: Item) -> Item:
    if isinstance(before, bool) or before is None:
        return before
    if isinstance(before, int):
        return rng.choice([-before - 1, before * 10**9, -(10**18), 10**19, Raw("9" * 5000), 1 << 40])
    if isinstance(before, str):
        return rng.choice(
            [
                "",
                before * 1000,
                before + "\u0000",
                before + "\u00e9",
                Raw('"\\ud800"'),
                "9" * 5000,
                f"-{before}",
            ]
        )
    if isinstance(before, list):
        return rng.choice([[], before * 2, before[:-1], before * 1000])
    if isinstance(before, dict):
        return rng.choice([{}, dict(list(before.items())[:-1]), before | {str(n): n for n in range(1000)}])
    return before


def _changed(rng: Random, before: Item) -> Item:
    if isinstance(before, bool):
        return not before
    if isinstance(before, int):
        return before + rng.choice([1, -1, 2, 1000, -1000, 60_000])
    if isinstance(before, float):
        return before + 1.0
    if isinstance(before, str) and before:
        at = rng.randrange(len(before))
        letter = (
            str((int(before[at]) + 1) % 10) if before[at].isdecimal() else ("a" if before[at] != "a" else "b")
        )
        return before[:at] + letter + before[at + 1 :]
    if isinstance(before, list) and before:
        return list(reversed(before)) if rng.random() < 0.5 else [*before, before[-1]]
    if isinstance(before, dict) and before:
        key = rng.choice(list(before))
        return {("other_" + name if name == key else name): value for name, value in before.items()}
    return before


def _dump(item: Item) -> str:
    if isinstance(item, Raw):
        return item[:]
    if isinstance(item, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_dump(value)}" for key, value in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(map(_dump, item)) + "]"
    return json.dumps(item)


def _short(item: Item) -> str:
    text = _dump(item)
    return text if len(text) <= 80 else f"{text[:60]} … ({len(text):,} characters)"
