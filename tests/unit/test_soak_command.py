"""What ``tidemark soak`` says, writes and leaves with; the soak itself is tests/chaos/test_soak.py's."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.unit.test_soak import fault, ran
from tidemark.campaigns import soak as soaking
from tidemark.campaigns.soak import Soak
from tidemark.cli import app


@pytest.fixture
def soaked(monkeypatch):
    """A function: runs the command on runs that are done, and returns its result."""

    def go(*words, runs, over=True):
        def soak(options, _stack, say):
            done = Soak(options, seconds=90.0, over=over)
            for one in runs:
                done.runs.append(one)
                say(done, one)
            return done

        monkeypatch.setattr(soaking, "soak", soak)
        monkeypatch.setattr(
            "tidemark.stack.lease", lambda _: nullcontext(SimpleNamespace(versions={"spark": "4"}))
        )
        return CliRunner().invoke(app, ["soak", *words])

    return go


HELD = ran(0, [fault(), fault("broker@planned", recovery_s=8.0)])
FOUND = ran(1, [fault()], "INVALID", findings={"duplicate_rows": 2})
MISSED = ran(1, [fault(injected=False, recovery_s=None)], "UNKNOWN")


def test_each_run_has_a_line_and_what_all_add_up_to_so_far(soaked):
    result = soaked(runs=[HELD, FOUND])

    said = result.stderr.splitlines()
    assert said[0].startswith("run   0  inner        spark         VALID  2 of 2 faults, 100 rows")
    assert said[1] == "1.5 of 30 minutes: 2 faults, 0 missed, 150 rows judged, nothing found"
    assert said[3] == "1.5 of 30 minutes: 3 faults, 0 missed, 300 rows judged, duplicate_rows 2"
    assert "evidence: run-1; reproduce: tidemark run inner" in result.stdout


@pytest.mark.parametrize(
    ("runs", "over", "code"),
    [
        ([HELD], True, 0),
        ([HELD, FOUND], True, 1),
        ([HELD, MISSED], True, 3),
        ([HELD], False, 130),
        ([FOUND], False, 1),
    ],
)
def test_its_exit_code(soaked, runs, over, code):
    assert soaked(runs=runs, over=over).exit_code == code


def test_json_has_what_was_done_where_and_how_long_it_took_to_recover(soaked):
    said = json.loads(soaked("--json", runs=[HELD, MISSED]).stdout)

    assert said["coverage"] == [
        {"fault": "kill broker", "point": "planned", "join": "inner", "done": 1, "missed": 0},
        {"fault": "kill driver", "point": "written", "join": "inner", "done": 1, "missed": 1},
    ]
    assert said["recovery"]["driver"] == {"faults": 1, "least": 4.0, "median": 4.0, "worst": 4.0}
    assert [one["verdict"] for one in said["runs"]] == ["VALID", "UNKNOWN"]
    assert said["missed"] == 1


def test_a_document_is_written_of_a_soak_that_lasted_its_time_only(soaked, tmp_path):
    document = tmp_path / "SOAK.md"

    interrupted = soaked("--markdown", str(document), runs=[HELD], over=False)
    assert "is left as it was: the time was not over" in interrupted.stderr
    assert not document.exists()

    assert soaked("--markdown", str(document), runs=[HELD]).exit_code == 0
    assert "**it holds**" in document.read_text()


def test_a_sink_that_is_none_is_refused_before_anything_begins(soaked):
    result = soaked("--sink", "best-effort", runs=[])

    assert result.exit_code == 2
    assert "'best-effort' is not one of exactly-once, spark" in result.stderr.replace("\n", " ").replace(
        "│ ", ""
    )
