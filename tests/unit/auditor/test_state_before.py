"""What Spark is given to read a state: copies and links in a folder of its own; no change reaches the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.oracle.histories import contract
from tidemark.auditor import state_before
from tidemark.auditor.state_before import CHECKPOINT_FORMAT, StateWanted, lay_out, write_state_before
from tidemark.errors import DaemonDied, DeadlineExceeded

PART = "state/0/1/left-keyToNumValues"
FILES = (
    "metadata", "offsets/7", "offsets/8", "commits/7", "sources/0/0", "state/0/_metadata/metadata",
    f"{PART}/3.snapshot", f"{PART}/8.delta", f"{PART}/.8.delta.crc", f"{PART}/9.delta",
    "state/0/2/12_f00.zip", "state/0/2/8_f00.changelog", "state/0/2/SSTs/000012-f00.sst",
)  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    folder = tmp_path / "checkpoint"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_log_of_the_batch_is_copied_and_its_state_linked_without_later_versions(checkpoint, tmp_path):
    lay_out(checkpoint, tmp_path / "laid", 7)

    later = {"offsets/8", "sources/0/0", f"{PART}/9.delta", "state/0/2/12_f00.zip"}
    assert files(tmp_path / "laid") == {name: name for name in FILES if name not in later}
    links = {
        str(path.relative_to(tmp_path / "laid"))
        for path in (tmp_path / "laid").rglob("*")
        if path.is_symlink()
    }
    assert links == {name for name in FILES if name.startswith("state/") and name not in later}


def test_what_is_made_deleted_or_put_in_place_there_does_not_reach_the_checkpoint(checkpoint, tmp_path):
    before = files(checkpoint)
    lay_out(checkpoint, tmp_path / "laid", 7)

    (tmp_path / "laid" / PART / "8.delta").unlink()
    (tmp_path / "laid" / PART / "new").write_text("made")
    (tmp_path / "laid" / PART / "new").replace(tmp_path / "laid" / PART / "3.snapshot")
    (tmp_path / "laid" / "offsets" / "7").write_text("changed")

    assert files(checkpoint) == before


def wanted(checkpoint: Path) -> StateWanted:
    return StateWanted(checkpoint, contract(), 2, 7, 1000)


def test_a_checkpoint_without_a_state_is_a_reason_and_no_error(tmp_path):
    (tmp_path / "offsets").mkdir()
    for name in ("metadata", "offsets/7"):
        (tmp_path / name).write_text("")

    problem = write_state_before(wanted(tmp_path), tmp_path / "state.jsonl")

    assert problem is not None
    assert problem.startswith("its files cannot be read: ")
    assert not (tmp_path / "state.jsonl").exists()


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (DaemonDied("the reader of the state ended before it answered", detail="a\nno memory", hint="-"),
         "the reader of the state ended before it answered; no memory"),
        (DeadlineExceeded("timed out", hint="-"), "timed out"),
    ],
)  # fmt: skip
def test_a_reader_that_dies_is_a_reason_and_no_error(checkpoint, tmp_path, monkeypatch, raised, said):
    def dies(*_given: object) -> None:
        raise raised

    monkeypatch.setattr(state_before, "_reader", dies)

    assert write_state_before(wanted(checkpoint), tmp_path / "state.jsonl") == said


@pytest.mark.parametrize(
    ("commit", "settings"),
    [
        ('v1\n{"nextBatchWatermarkMs":5}', {}),
        ('v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["f00"]]}}', {CHECKPOINT_FORMAT: "2"}),
        ("nonsense", {}),
    ],
)
def test_a_state_whose_files_have_unique_ids_is_read_by_them(
    checkpoint, tmp_path, monkeypatch, commit, settings
):
    asked = []

    def sees(given: dict[str, object], _folder: Path) -> None:
        asked.append(given["conf"])
        raise DeadlineExceeded("timed out", hint="-")

    (checkpoint / "commits" / "7").write_text(commit)
    monkeypatch.setattr(state_before, "_reader", sees)
    write_state_before(wanted(checkpoint), tmp_path / "state.jsonl")

    assert asked == [settings]
