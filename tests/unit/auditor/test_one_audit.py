"""An audit from a checkpoint to a verdict, on topics that are lists: what is read, written, refused and cleaned up."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tidemark
from tests.unit.auditor.listed_cluster import Cluster, Message
from tidemark.auditor import AuditOptions, audited_topics, run_audit
from tidemark.errors import DeadlineExceeded, TestbedError, UsageError
from tidemark.formats.evidence import RunDirectory


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_audit_reads_what_was_planned_and_leaves_evidence_that_is_judged_alike(cluster, asked):
    before = files(Path(asked.checkpoint))

    result = run_audit(asked)

    assert (result.verdict.verdict, result.verdict.findings_total) == ("VALID", {})
    assert result.verdict.counts["rows_in"] == 4
    assert result.verdict.audit.owed_to == 0
    assert tidemark.check(result.run_dir) == result.verdict
    assert files(Path(asked.checkpoint)) == before
    assert cluster.asked == [
        ("impressions", "read_uncommitted"),
        ("clicks", "read_uncommitted"),
        ("out", "read_committed"),
    ]


def test_an_offset_without_a_record_is_one_without_a_value_in_the_evidence(cluster, asked):
    run = RunDirectory(run_audit(asked).run_dir)

    clicks = [(one.offset, one.value is None) for one in run.inputs() if one.topic == "clicks"]
    assert clicks == [(0, False), (1, True), (2, True), (3, False)]
    assert run.manifest.audit is not None
    assert run.manifest.audit.unheld == {"clicks": 2}


def test_deleted_offsets_are_in_the_manifest(cluster, asked):
    cluster.starts["clicks"] = 3
    del cluster.records["clicks"][0]

    result = run_audit(asked)

    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    assert manifest.audit.deleted == {"clicks": {"0": (0, 3)}}
    assert result.verdict.findings_total == {}
    assert result.verdict.verdict == "UNKNOWN"


def test_a_contradiction_between_contract_and_log_is_a_finding(cluster, asked):
    path = Path(asked.checkpoint) / "offsets" / "1"
    path.write_text(
        path.read_text().replace(
            '"conf": {}', '"conf": {"spark.sql.streaming.multipleWatermarkPolicy": "max"}'
        )
    )

    verdict = run_audit(asked).verdict

    assert "plan_differs" in verdict.findings_total
    assert "the contract says min, the log of the query max" in verdict.findings[0].message
    assert asked.run_dir is not None
    assert "the contract says min, the log of the query max" in (asked.run_dir / "report.html").read_text()


@pytest.mark.parametrize("where", ["write_inputs", "write_output", "held"])
def test_after_ctrl_c_nothing_is_left_behind(cluster, asked, monkeypatch, where):
    def interrupted(*_given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audited_topics.AuditedTopics, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_audit(asked)

    assert asked.run_dir is not None
    assert list(asked.run_dir.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, TestbedError, "the evidence does not fit into"),
        (errno.EDQUOT, TestbedError, "the evidence does not fit into"),
        (errno.EFBIG, TestbedError, "the evidence does not fit into"),
        (errno.EROFS, UsageError, "the evidence cannot be written to"),
        (errno.EACCES, UsageError, "the evidence cannot be written to"),
    ],
)
@pytest.mark.parametrize("where", ["write_lines", "write_json"])
def test_what_cannot_be_written_is_an_error_and_leaves_nothing_behind(
    cluster, asked, monkeypatch, where, number, kind, said
):
    def fails(*_given: object) -> None:
        raise OSError(number, "as the kernel says it")

    monkeypatch.setattr(RunDirectory, where, fails)
    with pytest.raises(kind, match=said) as caught:
        run_audit(asked)

    assert "as the kernel says it" in caught.value.detail
    assert caught.value.hint
    assert asked.run_dir is not None
    assert list(asked.run_dir.parent.iterdir()) == []


def test_a_cluster_that_stops_answering_while_it_is_read_is_named(cluster, asked, monkeypatch):
    def stops(*_given: object, **_named: str) -> Iterator[Message]:
        raise DeadlineExceeded("timed out after 60 s waiting for the records", hint="-")
        yield

    monkeypatch.setattr(audited_topics.kafka, "read_messages", stops)
    with pytest.raises(
        DeadlineExceeded, match="the topic 'impressions' could not be read to its end"
    ) as caught:
        run_audit(asked)
    assert caught.value.detail == "timed out after 60 s waiting for the records"
    assert caught.value.hint.startswith("audit again once 127.0.0.1:9 answers")


def test_a_topic_that_ends_before_the_query_did_is_another_one(cluster, asked):
    cluster.ends["clicks"] = 3

    with pytest.raises(UsageError, match="clicks/0 ends at offset 3, and the query read it up to offset 4"):
        run_audit(asked)


def test_a_cluster_that_would_make_a_topic_when_it_is_read_is_not_read(cluster, asked, monkeypatch):
    monkeypatch.setattr(audited_topics.kafka, "partitions", lambda _broker: {"impressions": 1})

    with pytest.raises(UsageError, match="a broker makes it once a client reads"):
        run_audit(asked)
    assert cluster.asked == []


def test_a_directory_that_has_anything_in_it_is_refused(cluster, asked):
    assert asked.run_dir is not None
    asked.run_dir.mkdir()
    (asked.run_dir / "mine").write_text("kept")

    with pytest.raises(UsageError, match="is not empty"):
        run_audit(asked)
    assert (asked.run_dir / "mine").read_text() == "kept"


FUNCTIONS = """
def decode(record):
    name, second = record.value.decode().split("|")
    return {"iid": name, "user": "a", "time": f"2026-01-01T00:00:{second}Z"}
"""
DECODED = {"decode": "decode", "encode": "encode"}


@pytest.fixture
def decoded(cluster: Cluster, asked: AuditOptions, tmp_path: Path) -> AuditOptions:
    """The same audit of impressions that are no JSON, with the file of the function that reads them."""
    cluster.records["impressions"] = {0: "i1|10", 1: "i2|30"}
    path = Path(asked.contract)
    described = json.loads(path.read_text())
    described["left"] |= DECODED
    path.write_text(json.dumps(described))
    (tmp_path / "in" / "readers.py").write_text(FUNCTIONS)
    return replace(asked, functions=str(tmp_path / "in" / "readers.py"))


def test_records_that_a_function_decodes_are_audited_and_judged_again_without_it(cluster, decoded):
    before = files(Path(decoded.checkpoint))

    result = run_audit(decoded)

    assert (result.verdict.verdict, result.verdict.findings_total) == ("VALID", {})
    assert result.verdict.counts["unreadable"] == 0
    assert f"--functions {decoded.functions}" in result.command
    assert (result.run_dir / "functions.py").read_text() == FUNCTIONS
    assert files(Path(decoded.checkpoint)) == before
    Path(decoded.functions).unlink()
    assert tidemark.check(result.run_dir) == result.verdict
    assert '{\\"iid\\": \\"i1\\"' in (result.run_dir / "decoded_trace.jsonl").read_text()


def test_an_offset_without_a_record_is_not_decoded(cluster, decoded):
    cluster.records["impressions"] = {1: "i2|30"}

    run = RunDirectory(run_audit(decoded).run_dir)

    values = [one.value for one in run.inputs() if one.topic == "impressions"]
    assert values[0] is None
    assert json.loads(values[1] or "")["iid"] == "i2"
    assert "unreadable" not in " ".join(run.manifest.notes)


def test_a_record_for_which_the_function_raises_is_unreadable_and_named_with_the_reason(cluster, decoded):
    cluster.records["impressions"] = {0: "no time", 1: "i2|x|y"}

    verdict = run_audit(decoded).verdict

    assert verdict.counts["unreadable"] == 2
    [said] = [one for one in verdict.inconclusive if "nothing of topic 'impressions'" in one]
    assert "(partition 0, offset 0): decode raised ValueError: not enough values to unpack" in said
    assert "its value is b'no time'" in said


def test_the_contract_may_be_that_of_a_python_file_which_has_the_functions(cluster, decoded, tmp_path):
    described = json.loads(Path(decoded.contract).read_text())
    own = tmp_path / "in" / "pipeline.py"
    own.write_text(
        f"from tidemark import Contract\n\nCONTRACT = Contract.from_json({described!r})\n{FUNCTIONS}"
    )

    result = run_audit(
        replace(decoded, contract=str(own), functions="", python=Path(sys.executable), project=tmp_path)
    )

    assert (result.verdict.verdict, result.verdict.findings_total) == ("VALID", {})
    for words in (f"--contract {own}", f"--spark {sys.executable}", f"--project {tmp_path}"):
        assert words in result.command


@pytest.mark.parametrize(
    ("functions", "text", "said"),
    [
        ("", FUNCTIONS, "names functions that decode records, and .* has none"),
        ("nowhere.py", FUNCTIONS, "there is no file 'nowhere.py'"),
        (None, FUNCTIONS.replace("def decode", "def other"), "has no function decode"),
        (None, "import nothing_of_this_name", "cannot be imported"),
        ("adteam.nowhere", FUNCTIONS, "there is no module 'adteam'"),
    ],
)
def test_functions_that_are_not_there_are_refused_before_kafka_is_asked(
    cluster, decoded, functions, text, said
):
    Path(decoded.functions).write_text(text)
    asked = decoded if functions is None else replace(decoded, functions=functions)

    with pytest.raises(UsageError, match=said) as caught:
        run_audit(asked)

    assert caught.value.hint
    assert cluster.asked == []
    assert decoded.run_dir is not None
    assert list(decoded.run_dir.parent.iterdir()) == []


def test_functions_for_a_contract_that_names_none_are_refused(asked):
    with pytest.raises(UsageError, match="names no functions"):
        run_audit(replace(asked, functions="readers.py"))
