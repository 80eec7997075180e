"""What a campaign makes smaller at its end: what cannot be is said, and the campaign goes on."""

from __future__ import annotations

import errno

import pytest

from tidemark.cli import shrunk_failures
from tidemark.cli.shrunk_failures import RedItem, shrink_items
from tidemark.errors import UsageError


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), UsageError("the run is VALID")]
)
def test_an_item_that_cannot_be_made_smaller_is_said_and_the_next_one_is_tried(error, tmp_path, monkeypatch):
    said, tried = [], []

    def fails(_stack, red, _options):
        tried.append(red)
        raise error

    monkeypatch.setattr(shrunk_failures, "shrink_on", fails)
    items = [RedItem(name, tmp_path / name, lambda path: path.name) for name in ("one", "two")]

    shrink_items(items, None, 60.0, said.append)

    assert tried == ["one", "two"]
    assert said == [f"{name} was not made smaller: {error}" for name in tried]


@pytest.mark.parametrize("is_there", [True, False])
def test_ctrl_c_names_the_folder_only_if_something_is_there(is_there, tmp_path, monkeypatch):
    said = []

    def interrupted(_stack, _red, options):
        if is_there:
            options.folder.mkdir()
            (options.folder / "trace.jsonl").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(shrunk_failures, "shrink_on", interrupted)

    shrink_items([RedItem("one", tmp_path / "one", str)], None, 60.0, said.append)

    assert len(said) == 1
    assert said[0].startswith("interrupted at one; ")
    assert ("the best so far is in" in said[0]) is is_there
