"""What is copied into the evidence before it is deleted with the stack."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tidemark.runner.log_files import keep_checkpoint


def test_a_checkpoint_is_copied_with_all_its_folders(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "state" / "0" / "1").mkdir(parents=True)
    (tmp_path / "checkpoint" / "state" / "0" / "1" / "1.delta").write_bytes(b"\0\1")
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    assert keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept") == []
    assert (tmp_path / "kept" / "state" / "0" / "1" / "1.delta").read_bytes() == b"\0\1"
    assert (tmp_path / "kept" / "metadata").read_text() == "{}"


def test_a_file_that_cannot_be_copied_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "state").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    for name in ("unreadable", "state/unreadable"):
        os.symlink(tmp_path / "nowhere", tmp_path / "checkpoint" / name)
    [note] = keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept")
    assert note.startswith("the checkpoint: it could not be copied whole: [Errno 2] ")
    assert note.endswith("unreadable', and 1 more")
    assert (tmp_path / "kept" / "metadata").read_text() == "{}"


def test_files_that_vanish_while_they_are_copied_are_told_from_those_that_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoint" / "state").mkdir(parents=True)
    for name in (".5.delta.tmp", "4.delta", "full"):
        (tmp_path / "checkpoint" / "state" / name).write_bytes(b"\0")
    copy = shutil.copyfile

    def copy_of_a_query_that_runs(source, target, **more):
        path = Path(source)
        if path.name == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if path.name.endswith(".tmp"):
            path.rename(path.with_name("5.delta"))
        return copy(source, target, **more)

    monkeypatch.setattr(shutil, "copyfile", copy_of_a_query_that_runs)
    assert keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept") == [
        f"the checkpoint: it could not be copied whole: [Errno {errno.ENOSPC}] No space left on device",
        "the checkpoint: files vanished while it was copied: state/.5.delta.tmp",
    ]
    assert (tmp_path / "kept" / "state" / "4.delta").read_bytes() == b"\0"


def test_a_missing_checkpoint_is_noted(tmp_path: Path) -> None:
    [note] = keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept")
    assert note.startswith("the checkpoint: it could not be copied: [Errno 2] ")
