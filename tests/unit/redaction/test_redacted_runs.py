"""Commands that redact keep nothing else, whatever happens on the way, and say nothing that has a value in it."""

from __future__ import annotations

import json
import shutil

import pytest

from pipelines.left_outer import CONTRACT
from tests.golden.judging import EVIDENCE, run_command
from tests.support.shown_values import content_of, found_in, values_of
from tidemark.errors import KafkaRefused, PipelineFailed, TestbedError, UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import TraceReader, write_trace
from tidemark.kafka import record as recording
from tidemark.oracle import judge
from tidemark.redaction import Redactor, clear_evidence
from tidemark.runner import RunOptions, RunResult, one_run

RECORDED = EVIDENCE.parents[1] / "evidence" / "runs" / "left_outer_faults"


@pytest.fixture
def recorded(monkeypatch):
    """A run that gives the recorded evidence, and the modes of the folders that it was given."""
    modes = []

    def copied(options, _contract, directory, **_stack):
        modes.append(directory.path.stat().st_mode & 0o777)
        options.say("secret-plan")
        shutil.rmtree(directory.path / "logs")
        shutil.copytree(RECORDED, directory.path, dirs_exist_ok=True)
        return RunResult(judge(directory), directory.path, "0" * 64, "tidemark run secret-command")

    monkeypatch.setattr(one_run, "run", copied)
    return modes


def test_a_run_keeps_redacted_evidence_alone_and_shows_no_value(recorded, tmp_path):
    code, out, err = run_command("run", "left_outer", "--redact", "--run-dir", str(tmp_path / "run"))

    assert code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    shown = content_of(tmp_path) + out + err
    assert found_in(values_of(RECORDED), shown) == []
    assert "secret" not in shown
    assert recorded == [0o700]
    assert "redacted       ids and keys" in out
    assert run_command("check", str(tmp_path / "run"))[0] == 0


def test_as_json_it_is_the_same(recorded, tmp_path):
    code, out, err = run_command(
        "chaos", "left_outer", "--redact", "--run-dir", str(tmp_path / "run"), "--json"
    )

    assert (code, err) == (0, "")
    assert json.loads(out)["redacted"] is True
    assert json.loads(out)["command"] == ""
    assert found_in(values_of(RECORDED), out) == []


def raising(error):
    def run(_options, _contract, directory, **_stack):
        (directory.path / "trace.jsonl").write_text("secret")
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted: no evidence is kept"),
        (PipelineFailed("the query under test failed: no secret", detail="secret", hint="see secret"), 4, "failed"),
        (UsageError("wrong trace", detail="line 3: secret", hint="give another"), 2, "give another"),
        (KafkaRefused("no login", detail="password of me", hint="name it"), 4, "password of me"),
        (ValueError("secret"), 4, "it ended with an unexpected ValueError"),
    ],
)  # fmt: skip
def test_a_run_that_does_not_end_leaves_nothing(error, code, says, monkeypatch, tmp_path):
    monkeypatch.setattr(one_run, "run", raising(error))

    ended, out, err = run_command("run", "left_outer", "--redact", "--run-dir", str(tmp_path / "run"))

    assert ended == code
    assert says in err
    assert "secret" not in out + err
    assert list(tmp_path.iterdir()) == []


def test_evidence_that_is_judged_otherwise_once_it_is_redacted_is_not_kept(recorded, monkeypatch, tmp_path):
    def judged(directory):
        verdict = judge(directory)
        verdict.verdict = "INVALID"
        return verdict

    monkeypatch.setattr(one_run, "judge", judged)

    code, _, err = run_command("run", "left_outer", "--redact", "--run-dir", str(tmp_path / "run"))

    assert code == 4
    assert "the evidence is VALID, and redacted it is judged INVALID" in err
    assert list(tmp_path.iterdir()) == []


def test_a_salt_without_redact_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing is to be redacted"):
        one_run.run_pipeline(
            RunOptions("left_outer", redact_salt=tmp_path / "salt", run_dir=tmp_path / "run")
        )
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_taken_is_refused_before_anything_runs(recorded, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()

    code, _, err = run_command("run", "left_outer", "--redact", "--run-dir", str(tmp_path / "run"))

    assert (code, recorded) == (2, [])
    assert "is not empty" in err


def test_clear_evidence_is_gone_after_an_error_which_keeps_message_and_hint(tmp_path):
    def fail():
        with clear_evidence(tmp_path / "run") as folder:
            (folder / "secret").touch()
            raise TestbedError("the broker is gone", detail="it said: secret", hint="start it")

    with pytest.raises(TestbedError, match="the broker is gone") as raised:
        fail()
    assert "secret" not in str(raised.value)
    assert "start it" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def topics(monkeypatch):
    """Topics that have the records of a recorded run."""

    def record(_broker, _options, path, _progress):
        with TraceReader(RunDirectory(RECORDED).file("trace")) as reader:
            return write_trace(path, reader.header, reader), reader.header

    monkeypatch.setattr(recording, "record", record)


def test_a_recorded_trace_is_redacted_and_has_a_contract(topics, tmp_path):
    (tmp_path / "contract.json").write_text(json.dumps(CONTRACT.to_json()))
    words = ["record", "--topic", "clicks=raw", "--bootstrap", "here:9092", "--redact", "--out"]
    code, out, err = run_command(
        *words, str(tmp_path / "new") + ".jsonl.zst", "--contract", str(tmp_path / "contract.json")
    )

    assert (code, err) == (0, "")
    assert f"contract      {tmp_path / 'new.contract.json'}" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "contract.json", "new.contract.json", "new.jsonl.zst",
    ]  # fmt: skip
    assert found_in(values_of(RECORDED), content_of(tmp_path)) == []
    assert Contract.from_json(json.loads((tmp_path / "new.contract.json").read_text())) == CONTRACT


def test_without_a_contract_nothing_is_known_of_a_record(topics, tmp_path):
    words = ["record", "--topic", "clicks=raw", "--bootstrap", "here:9092", "--redact", "--out"]

    code, _, err = run_command(*words, str(tmp_path / "new.jsonl"))

    assert code == 2
    assert "--redact is given without --contract" in err


def test_a_trace_whose_records_functions_read_is_not_redacted(tmp_path):
    contract = Contract.from_json(json.loads(json.dumps(CONTRACT.to_json())))
    decoded = {**contract.to_json()["left"], "decode": "decode", "encode": "encode"}
    contract = Contract.from_json({**contract.to_json(), "left": decoded})

    with pytest.raises(UsageError, match="names functions that decode"):
        Redactor().redact_trace(RunDirectory(RECORDED).file("trace"), contract, tmp_path / "new.jsonl")
