"""Files that are seen whole or not at all, also where several write the same one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemark.atomic_files import unfinished_path, write_atomically


def test_threads_that_write_the_same_file_at_once_all_succeed(tmp_path):
    path = tmp_path / "program.py"
    contents = [bytes([letter]) * 100_000 for letter in range(8)]

    with ThreadPoolExecutor(8) as pool:
        for _ in range(25):
            list(pool.map(lambda content: write_atomically(path, content), contents))

    assert path.read_bytes() in contents
    assert os.listdir(path.parent) == [path.name]


def test_a_write_that_fails_leaves_the_former_content_and_no_other_file(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_atomically(path, b"before")

    def refuse(_path, _target):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"after")

    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]


def test_the_modification_time_is_set_before_the_file_is_visible(tmp_path):
    write_atomically(tmp_path / "a.jar", b"jar", modified_s=315_532_800)

    assert (tmp_path / "a.jar").stat().st_mtime == 315_532_800


def test_each_unfinished_path_is_used_once(tmp_path):
    assert unfinished_path(tmp_path / "a") != unfinished_path(tmp_path / "a")
