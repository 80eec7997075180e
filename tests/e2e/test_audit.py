"""``tidemark audit`` of a PySpark program that knows nothing of tidemark: killed in a batch, trimmed, input deleted.

The program is killed while a batch is half written, and started again: the rows that were written then come again. What
is found must be these, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

import tidemark
from tests.e2e.foreign_query import START_S, ForeignQuery, ForeignTexts, cluster_state
from tests.e2e.foreign_store import StoredForeignQuery
from tests.e2e.own_broker import commit_an_offset, own_broker
from tests.e2e.stored_copy import LOGIN
from tests.e2e.typed_query import COMMAND, Place
from tests.support.s3_server import s3_server
from tests.support.shown_values import content_of, found_in, values_of
from tidemark.errors import EXIT_INTERRUPTED
from tidemark.waiting import wait_until

SLOW = {"slow__ms": 20}
TRIMMED = {"spark__sql__streaming__minBatchesToRetain": 10}
DELIVERIES = ("at-least-once", "exactly-once")


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[str]:
    """A cluster that nobody else changes meanwhile, and in which a group has committed an offset."""
    with own_broker(tmp_path_factory.mktemp("broker")) as running:
        commit_an_offset(running.bootstrap)
        yield running.bootstrap


@pytest.fixture(scope="module")
def query(broker, tmp_path_factory) -> Iterator[ForeignQuery]:
    """A query that was killed in the middle of a batch and started again."""
    query = ForeignQuery(broker, tmp_path_factory.mktemp("foreign"), seed=7)
    with query.running(**SLOW) as program:
        query.read_slices(program, 3)
        query.feed(150)
        query.await_half_written(program, 10)
        query.audits["running"] = query.audit(
            tmp_path_factory.mktemp("running") / "audit", delivery="exactly-once"
        )
        query.await_all_read(program)
        query.kill_in_a_batch(program)
    with query.running() as program:
        query.await_all_read(program)
        query.read_slices(program, 2)
    assert query.repeats() > 0
    yield query
    query.drop()


@pytest.fixture(scope="module")
def trimmed(query, audited, tmp_path_factory) -> ForeignQuery:
    """The same later on: its log has ten batches, and it was killed in one of them."""
    with query.running(**SLOW, **TRIMMED) as program:
        query.feed(20, payments=False)  # the watermark stands, for payments have shown none since the start
        query.await_all_read(program)
        query.audits["started again"] = query.audit(
            tmp_path_factory.mktemp("again") / "audit", delivery="exactly-once"
        )
        query.read_slices(program, 7)
        query.kill_in_a_batch(program)
    with query.running(**TRIMMED) as program:
        query.await_all_read(program)
        query.read_slices(program, 2)
    return query


@pytest.fixture(scope="module")
def audited(query, tmp_path_factory) -> dict[str, tidemark.AuditResult]:
    """Audits of the query with its whole log, by delivery; the cluster is as it was."""
    before = cluster_state(query.bootstrap)
    found = {name: query.audit(tmp_path_factory.mktemp(name) / "audit", delivery=name) for name in DELIVERIES}
    assert cluster_state(query.bootstrap) == before
    return found


def test_a_batch_that_is_half_written_is_no_finding(query):
    verdict = query.audits["running"].verdict

    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})
    assert verdict.audit.owed_to < verdict.audit.to_batch
    assert verdict.counts["joined_rows"] + verdict.counts["null_rows"] > verdict.counts["expected_rows"]


def test_the_rows_that_came_again_are_found_and_nothing_else(query, audited):
    verdict = audited["exactly-once"].verdict

    assert verdict.findings_total == {"duplicate_rows": query.repeats()}
    assert (verdict.verdict, verdict.inconclusive) == ("INVALID", [])
    assert verdict.audit.level == "ids"
    counts = verdict.counts
    assert counts["undetermined"] == counts["undetermined_absent"] == 0
    assert counts["late"] > 0
    assert (
        counts["joined_rows"] + counts["null_rows"]
        == counts["expected_rows"]
        == query.written() - query.repeats()
    )


def test_at_least_once_counts_them_and_is_inconclusive_for_no_checkpoint_says_what_ran_again(query, audited):
    verdict = audited["at-least-once"].verdict

    assert verdict.findings_total == {}
    assert verdict.verdict == "UNKNOWN"
    assert [reason.partition(" rows came again")[0] for reason in verdict.inconclusive] == [
        str(query.repeats())
    ]
    assert verdict.counts["duplicates"] == query.repeats()


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_the_evidence_is_judged_again_with_the_same_verdict(audited, delivery, tmp_path):
    result = audited[delivery]
    shutil.copytree(result.run_dir, tmp_path / "copy")

    again = tidemark.check(tmp_path / "copy")

    assert again.sealed
    assert again == result.verdict


def test_the_tables_have_the_late_rows_and_those_that_came_again(query, audited):
    tables = audited["exactly-once"].run_dir / "tables"
    late, again, open_rows = (
        [json.loads(line) for line in (tables / f"{name}.jsonl").read_text().splitlines()]
        for name in ("late", "duplicates", "undetermined")
    )

    assert len(late) == audited["exactly-once"].verdict.counts["late"]
    assert all(row["late_by_ms"] >= 0 and row["watermark"] for row in late)
    assert len(again) == query.repeats()
    assert open_rows == []


def test_the_command_says_what_the_function_says(query, audited, tmp_path):
    done = command(query, "--delivery", "exactly-once", "--run-dir", str(tmp_path / "audit"))

    assert done.returncode == 1, done.stderr
    assert f"duplicate_rows: {query.repeats()}" in done.stdout
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith(
        f"INVALID        {query.repeats()} rows came once more than the delivery promise permits"
    )
    assert "batches too" not in first  # the output names no batch
    assert second.startswith("audited        batch 0 to batch ")
    assert "INVALID  orders_paid, judged as exactly-once" in done.stdout


def test_a_redacted_audit_finds_the_same_and_has_no_value(query, audited, tmp_path):
    options = "--delivery", "exactly-once", "--redact", "--run-dir", str(tmp_path / "audit")
    done = command(query, *options)

    assert done.returncode == 1, done.stderr
    assert f"duplicate_rows: {query.repeats()}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]
    clear = audited["exactly-once"].run_dir
    values = values_of(clear)
    assert values
    assert found_in(values_of(clear), content_of(tmp_path) + done.stdout + done.stderr) == []
    tables = {path.name: len(path.read_text().splitlines()) for path in (clear / "tables").iterdir()}
    again = tidemark.check(tmp_path / "audit")
    assert {
        path.name: len(path.read_text().splitlines()) for path in (tmp_path / "audit" / "tables").iterdir()
    } == tables
    assert again.counts == audited["exactly-once"].verdict.counts


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--output", "no-such-topic"], 2, "there is no topic 'no-such-topic'"),
        (["--topic", "orders=no-such-topic"], 2, "no batch of the checkpoint read the topic 'no-such-topic'"),
        (["--bootstrap", "127.0.0.1:9"], 4, "no Kafka broker answers at '127.0.0.1:9'"),
        (["--batches", "100000:"], 2, "asks for batches that the log does not have"),
    ],
)
def test_what_cannot_be_audited_is_an_error_and_leaves_nothing_behind(query, tmp_path, options, code, said):
    done = command(query, "--run-dir", str(tmp_path / "audit"), *options)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def command(query: ForeignQuery, *options: str) -> subprocess.CompletedProcess[str]:
    """``tidemark audit`` in a process of its own; an option that is given twice is the second."""
    return subprocess.run(words(query, *options), capture_output=True, text=True, timeout=300)


def words(query: ForeignQuery, *options: str) -> list[str]:
    """The command line of an audit."""
    known = {"--bootstrap": query.bootstrap, "--output": query.output}
    pairs = [item for pair in known.items() if pair[0] not in options for item in pair]
    topics = [f"orders={query.orders}", f"payments={query.payments}"]
    topics = [] if "--topic" in options and "no-such-topic" in options[-1] else topics
    pairs += [item for topic in topics for item in ("--topic", topic)]
    files = ["--checkpoint", str(query.checkpoint.path), "--contract", str(query.contract)]
    return [*COMMAND, *files, *pairs, *options]


@pytest.mark.long
def test_a_watermark_that_stands_after_a_restart_is_no_finding_but_says_that_there_was_one(trimmed):
    verdict = trimmed.audits["started again"].verdict

    assert set(verdict.findings_total) == {"duplicate_rows"}
    # The first restart shows, too, where the slice of the kill came in two batches, with one topic each.
    assert 1 <= len(verdict.audit.restarts) <= 2
    assert any(note.startswith("restart inferred at batch ") for note in verdict.audit.notes)


@pytest.mark.long
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_trimmed_log_leaves_rows_undetermined_and_finds_the_same(trimmed, tmp_path, delivery):
    before = cluster_state(trimmed.bootstrap)

    verdict = trimmed.audit(tmp_path / "audit", delivery=delivery).verdict

    assert cluster_state(trimmed.bootstrap) == before
    assert verdict.audit.first_batch == trimmed.checkpoint.planned()[0] + 1 > 1
    assert verdict.audit.notes[0].startswith(f"auditable from batch {verdict.audit.first_batch}")
    assert verdict.counts["undetermined"] > 0
    assert verdict.counts["expected_rows"] > 0
    must_have_found_the_repeats(trimmed, verdict)


@pytest.mark.long
def test_orders_that_are_no_json_are_judged_by_a_function_that_decodes_them(broker, tmp_path, request):
    query = ForeignTexts(broker, tmp_path, seed=9)
    request.addfinalizer(query.drop)
    with query.running() as program:
        query.read_slices(program, 1)
        producer = Producer({"bootstrap.servers": broker})
        producer.produce(query.orders, b"\xff no order", b"ann", partition=0)
        assert producer.flush(60) == 0
        query.read_slices(program, 1)
    before = cluster_state(query.bootstrap), files_of(query.checkpoint.path)

    done = command(
        query, "--functions", str(query.readers), "--delivery", "exactly-once", "--run-dir", str(tmp_path / "audit")
    )  # fmt: skip

    assert (cluster_state(query.bootstrap), files_of(query.checkpoint.path)) == before
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    query.readers.unlink()
    verdict = tidemark.check(tmp_path / "audit")
    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])
    assert verdict.counts["unreadable"] == 1
    assert verdict.counts["joined_rows"] > 5
    decoded = (tmp_path / "audit" / "decoded_trace.jsonl").read_text()
    assert "decode_order raised UnicodeDecodeError" in decoded


@pytest.mark.long
def test_with_the_state_before_it_a_trimmed_log_leaves_no_row_undetermined(trimmed, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = cluster_state(trimmed.bootstrap), files_of(trimmed.checkpoint.path)

    result = trimmed.audit(tmp_path / "audit", delivery="exactly-once", read_state=True)

    assert (cluster_state(trimmed.bootstrap), files_of(trimmed.checkpoint.path)) == before
    assert list((tmp_path / "temporary").iterdir()) == []
    verdict = result.verdict
    first = verdict.audit.first_batch
    [said] = [note for note in verdict.audit.notes if note.startswith("the state after batch ")]
    assert said.startswith(f"the state after batch {first - 1} was read: ")
    assert verdict.counts["undetermined"] == verdict.counts["undetermined_absent"] == 0
    assert verdict.counts["earlier_rows"] > 0
    must_have_found_the_repeats(trimmed, verdict)
    assert tidemark.check(result.run_dir) == verdict


@pytest.mark.long
def test_a_checkpoint_in_an_object_store_has_the_verdict_of_the_folder(trimmed, tmp_path):
    place = Place(tmp_path)
    place.make()
    options = ("--delivery", "exactly-once", "--read-state", "--run-dir")
    with s3_server() as server:
        url = server.upload(trimmed.checkpoint.path, "foreign")
        before = server.objects()
        asked = words(trimmed, *options, str(place.evidence / "store"))
        asked[asked.index("--checkpoint") + 1] = url
        child = place.start(asked, {**os.environ, **server.environment})
        out, err = child.communicate(timeout=START_S)
        assert server.objects() == before

    assert child.returncode == 1, err
    assert "INVALID" in out
    local = trimmed.audit(tmp_path / "local", delivery="exactly-once", read_state=True).verdict
    verdict = tidemark.check(place.evidence / "store")
    assert verdict.findings == local.findings
    assert verdict.counts == local.counts
    assert list(place.temporary.iterdir()) == []


@pytest.mark.long
def test_a_checkpoint_that_spark_wrote_into_an_object_store_is_audited_there(broker, tmp_path, monkeypatch):
    login = tmp_path / "credentials"
    login.write_text(LOGIN)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(login))  # where the program finds it
    with s3_server() as server:
        query = StoredForeignQuery(broker, tmp_path, seed=3, server=server)
        query.run_with_a_kill(**query.settings())
        before = server.objects()
        place = Place(tmp_path / "audit")
        place.make()
        asked = words(query, "--delivery", "exactly-once", "--run-dir", str(place.evidence / "store"))
        asked[asked.index("--checkpoint") + 1] = query.location.replace("s3a://", "s3://")
        child = place.start(asked, {**os.environ, **server.environment})
        out, err = child.communicate(timeout=START_S)
        assert server.objects() == before

    assert child.returncode == 1, err
    verdict = tidemark.check(place.evidence / "store")
    assert "INVALID" in out
    assert verdict.findings_total == {"duplicate_rows": query.repeats()}
    assert query.repeats() > 0
    assert verdict.inconclusive == []
    query.drop()


@pytest.mark.long
def test_ctrl_c_while_the_state_is_read_ends_its_reader_and_leaves_nothing(trimmed, tmp_path, request):
    place = Place(tmp_path)
    place.make()
    before = files_of(trimmed.checkpoint.path)
    options = ("--read-state", "--run-dir", str(place.evidence / "audit"))
    child = place.start(words(trimmed, *options), dict(os.environ))
    request.addfinalizer(child.kill)
    is_reading = lambda: list(place.temporary.glob("tidemark-state-*/scratch/*"))  # noqa: E731
    wait_until(is_reading, START_S, lambda: f"a session that reads the state; there is {place.left()}")
    readers = psutil.Process(child.pid).children(recursive=True)

    child.send_signal(signal.SIGINT)

    out, err = child.communicate(timeout=START_S)
    assert (child.returncode, out) == (EXIT_INTERRUPTED, "")
    assert err == "interrupted: there is no verdict, and no evidence is kept\n"
    assert len(readers) >= 2
    assert psutil.wait_procs(readers, timeout=30)[1] == []
    assert place.left() == []
    assert files_of(trimmed.checkpoint.path) == before


@pytest.mark.long
def test_progress_reports_make_a_trimmed_log_whole_and_show_which_batches_ran_again(trimmed, tmp_path):
    asked = {"delivery": "at-least-once", "progress": [trimmed.events]}

    verdict = trimmed.audit(tmp_path / "audit", **asked).verdict

    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])
    assert verdict.audit.first_batch == 0
    assert verdict.counts["undetermined"] == verdict.counts["undetermined_absent"] == 0
    assert verdict.counts["permitted_duplicates"] == verdict.counts["duplicates"] == trimmed.repeats() > 0
    assert verdict.counts["expected_rows"] == trimmed.written() - trimmed.repeats()


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of modification of each file and folder below a folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


@pytest.mark.long
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_deleted_input_is_said_and_is_never_a_finding(trimmed, tmp_path, delivery):
    trimmed.delete_records(trimmed.payments, {0: 20, 1: 30})

    verdict = trimmed.audit(tmp_path / "audit", delivery=delivery).verdict

    assert verdict.counts["deleted_records"] == 50
    assert "deleted: offsets 0 to 19 of payments/0" in verdict.audit.notes
    assert any("records of the input were deleted" in reason for reason in verdict.inconclusive)
    must_have_found_the_repeats(trimmed, verdict)


def must_have_found_the_repeats(query: ForeignQuery, verdict: tidemark.Verdict) -> None:
    """All of them, and nothing else."""
    assert verdict.counts["duplicates"] == query.repeats()
    if verdict.delivery == "exactly-once":
        assert verdict.findings_total == {"duplicate_rows": query.repeats()}
    else:
        assert (verdict.findings_total, verdict.verdict) == ({}, "UNKNOWN")


@pytest.mark.long
@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_table_is_judged_batch_by_batch_and_files_of_a_failed_attempt_are_not_of_it(
    broker, tmp_path, form, request
):
    query = ForeignQuery(broker, tmp_path, seed=8, form=form)
    request.addfinalizer(query.drop)
    query.run_with_a_kill(orders=150)
    before = cluster_state(query.bootstrap)

    verdict = query.audit(tmp_path / "audit").verdict

    assert cluster_state(query.bootstrap) == before
    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])
    assert (verdict.audit.level, verdict.delivery) == ("batches", "exactly-once")
    counts = verdict.counts
    assert (
        counts["joined_rows"] + counts["null_rows"]
        == counts["expected_rows"]
        == counts["output_records"]
        > 50
    )
    assert any(note.startswith("the output table: partition 0 is the file ") for note in verdict.audit.notes)
