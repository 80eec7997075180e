"""The values of clear evidence, and whether any of them stands in files that are to have none."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from tidemark.formats.events import read_time_us
from tidemark.formats.evidence import STORED, TRACES, RunDirectory
from tidemark.formats.record_columns import read_lines
from tidemark.formats.record_files import is_parquet, read_records
from tidemark.formats.trace import TraceReader

_PACKED = re.compile(r'<template id="run-data">([A-Za-z0-9+/=]+)</template>')
LEAST = 4
"""A shorter value may stand anywhere by chance."""
OF_A_HASH = frozenset("abcdefghijklmnopqrstuvwxyz234567")
LONG = 9
"""What has letters and digits of a hash only, and is not so long, may be a part of one by chance."""


def values_of(run: Path) -> set[str]:
    """The distinctive text in the records of a run: ids, keys, payload, keys and headers of Kafka; no times."""
    directory, found = RunDirectory(run), set()
    known = known_names(directory)
    for name in TRACES:
        if directory.file(name).is_file():
            with TraceReader(directory.file(name)) as reader:
                for record in reader:
                    found |= {*texts_of(record.value or ""), record.key or ""}
                    found |= {value for _, value in record.headers if isinstance(value, str)}
    for records in read_records(directory.file("output"), STORED["output"]):
        for record in records:
            found |= {*texts_of(record.value or ""), record.key or ""}
    return {one for one in found if one not in known and is_distinctive(one)}


def is_distinctive(text: str) -> bool:
    """Whether a text is no time and no number, and stands in no file by chance."""
    is_number = not set(text) - set("0123456789.-+")
    is_like_a_hash = not set(text) - OF_A_HASH and len(text) < LONG
    return len(text) >= LEAST and not is_number and not is_like_a_hash and read_time_us(text) is None


def texts_of(value: str) -> Iterator[str]:
    """The text of a record's JSON, at any depth; of what is no JSON all of it."""
    try:
        yield from _inside(json.loads(value))
    except ValueError:
        yield value


def _inside(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _inside(one)
    elif isinstance(value, list):
        for one in value:
            yield from _inside(one)
    elif isinstance(value, str):
        yield value


def known_names(directory: RunDirectory) -> set[str]:
    """What a reader may see: names of topics and of the contract's fields, as far as a value can be one of them."""
    return {*directory.manifest.inputs, "redacted"}


def content_of(folder: Path) -> str:
    """All files below a folder as one text, those that are compressed and Parquet as the lines that they say."""
    return "\n".join(_text(path) for path in sorted(folder.rglob("*")) if path.is_file())


def _text(path: Path) -> str:
    if path.suffix == ".zst":
        with zstandard.open(path, "rb") as file:
            return str(file.read().decode())
    if is_parquet(path):
        return b"".join(read_lines(path, STORED[path.stem])).decode() + path.read_bytes().decode("latin-1")
    return _PACKED.sub(_unpacked, path.read_bytes().decode("utf-8", "replace"))


def _unpacked(found: re.Match[str]) -> str:
    """What a page's script reads, as it is: compressed and in base64 it would have short values by chance."""
    return zlib.decompress(base64.b64decode(found[1])).decode()


def found_in(values: set[str], text: str) -> list[str]:
    """The values that stand in a text, as they are or as JSON within JSON writes them."""
    return sorted(one for one in values if one in text or json.dumps(one)[1:-1] in text)
