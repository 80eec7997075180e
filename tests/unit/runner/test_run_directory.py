"""A run writes into a directory that is new or empty, and deletes only what it made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.unit.test_report import CONTRACT
from tidemark import paths, pytest_plugin
from tidemark.errors import UsageError
from tidemark.runner import RunOptions, new_run_directory, one_run
from tidemark.runner.pipeline_code import Described
from tidemark.stack import StackSpec


def test_a_directory_that_is_not_empty_is_refused_and_left_unchanged(tmp_path):
    (tmp_path / "thesis.txt").write_text("three years")

    with pytest.raises(UsageError, match="is not empty") as error:
        new_run_directory(RunOptions("left_outer", run_dir=tmp_path), CONTRACT)

    assert error.value.detail == "it has thesis.txt"
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "run").touch()

    with pytest.raises(UsageError, match="is no directory"):
        new_run_directory(RunOptions("left_outer", run_dir=tmp_path / "run"), CONTRACT)


@pytest.mark.parametrize("name", [".", "new"])
def test_an_empty_directory_is_accepted_like_a_new_one(name, tmp_path):
    made = new_run_directory(RunOptions("left_outer", run_dir=tmp_path / name), CONTRACT)

    assert {file.name for file in made.path.iterdir()} == {"logs", "code.zip", "contract.json"}


@pytest.fixture
def of_a_test(monkeypatch, tmp_path):
    """A function: what is left of the run directory of a test that passed or failed; no stack is started for it."""

    def left(*, failed, **options):
        monkeypatch.setattr(paths, "runs_dir", lambda: tmp_path / "runs")
        monkeypatch.setattr(one_run, "described_without_session", lambda _code: Described(CONTRACT, False))
        monkeypatch.setattr(
            one_run, "run", lambda _asked, _contract, directory, **_: SimpleNamespace(run_dir=directory.path)
        )
        config = SimpleNamespace(stash={})
        node = SimpleNamespace(name="test_a[1]", stash={pytest_plugin.FAILED: failed}, config=config)
        request = SimpleNamespace(node=node, getfixturevalue=lambda _name: SimpleNamespace(spec=StackSpec()))
        fixture = pytest_plugin.run_pipeline.__wrapped__(request)
        path = next(fixture)("left_outer", **options).run_dir
        assert path.is_dir()
        assert list(fixture) == []
        return path

    return left


def test_a_directory_named_by_a_test_is_kept_whether_the_test_passes_or_fails(of_a_test, tmp_path):
    for failed in (False, True):
        path = of_a_test(failed=failed, run_dir=tmp_path / f"mine-{failed}")
        assert (path / "contract.json").is_file()


def test_a_default_directory_is_kept_only_if_the_test_failed(of_a_test, tmp_path):
    assert of_a_test(failed=True).parent == tmp_path / "runs" / "tests"
    assert not of_a_test(failed=False).exists()
