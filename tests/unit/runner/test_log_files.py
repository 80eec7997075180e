"""What is copied into the evidence before it is deleted with the stack."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidemark.errors import TestbedError
from tidemark.runner.log_files import keep_checkpoint


def test_a_checkpoint_is_copied_with_all_its_folders(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "state" / "0" / "1").mkdir(parents=True)
    (tmp_path / "checkpoint" / "state" / "0" / "1" / "1.delta").write_bytes(b"\0\1")
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept")
    assert (tmp_path / "kept" / "state" / "0" / "1" / "1.delta").read_bytes() == b"\0\1"
    assert (tmp_path / "kept" / "metadata").read_text() == "{}"


def test_a_file_that_cannot_be_copied_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    os.symlink(tmp_path / "nowhere", tmp_path / "checkpoint" / "gone")
    with pytest.raises(TestbedError, match="could not be copied whole") as raised:
        keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept")
    assert "checkpoint/gone" in str(raised.value.detail)
    assert (tmp_path / "kept" / "metadata").read_text() == "{}"


def test_a_missing_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="could not be copied whole"):
        keep_checkpoint(tmp_path / "checkpoint", tmp_path / "kept")
