"""What ``tidemark contract --draft`` refuses before a stack is started."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.unit.preflight.test_event_plans import QUERY, log, reported, started, tree
from tidemark.cli import app
from tidemark.errors import UsageError


def refused(*words: str) -> UsageError:
    """The error that a command line ends with."""
    done = CliRunner().invoke(app, ["contract", *words])
    assert isinstance(done.exception, UsageError), (done.exception, done.output)
    return done.exception


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("src/adteam/none.py", "--draft"), "there is no pipeline file"),
        (("none.txt", "--draft"), "the plan 'none.txt' cannot be read"),
        (("notes.txt", "--draft"), "'notes.txt' has no plan"),
        (("notes.txt", "--draft", "--query", "orders"), "is no event log of Spark, and --query 'orders'"),
        (("inner", "--query", "orders"), "--query is given without --draft"),
        (("adteam.join:pairs", "--draft", "--conf", "a=b"), "--draft is given, and --conf"),
        (("adteam.join:pairs", "--draft", "--jars", "a.jar"), "--draft is given, and --conf"),
        (("adteam.join:pairs", "--draft", "--packages", "g:a:1"), "--draft is given, and --conf"),
        (("adteam.join:pairs", "--draft", "--json"), "--draft and --json are given"),
    ],
)
def test_what_cannot_be_drafted_is_refused(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("no plan\n")

    error = refused(*words)

    assert says in error.message
    assert error.hint


def test_the_draft_of_an_event_log_is_printed_and_its_questions_are_counted(tmp_path):
    path = log(tmp_path / "app-1", started(tree("inner")), reported("shown", "clicked"))

    done = CliRunner().invoke(app, ["contract", "--draft", str(path), "--query", QUERY])

    assert done.exit_code == 0, done.output
    assert 'topic="shown"' in done.stdout
    assert done.stderr == "orders: 2 questions in the draft\n"
