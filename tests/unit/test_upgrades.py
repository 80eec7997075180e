"""The upgrade table: which cells there are, when one holds, and what the document says of them."""

from __future__ import annotations

import io
from types import SimpleNamespace

import msgspec
import pytest

from tests.upgrades import document
from tests.upgrades.cells import ENDS, PAIRS, conf_of, groups, states_of_pair
from tests.upgrades.changed import Regrouped, in_each_life
from tests.upgrades.refusals import KNOWN, OF_OUTER_JOINS, known_refusal
from tests.upgrades.running import Cell, GroupOutcome, words_of
from tests.upgrades.site import JoinQuery, Site
from tidemark.campaigns.state_stores import HDFS
from tidemark.errors import DeadlineExceeded, TestbedError
from tidemark.formats.contract import JoinKind
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS, ROCKSDB
from tidemark.oracle.spark.spark_versions import minor_version
from tidemark.sparkfiles.checkpoint import CHANGELOG, STATE_FORMAT, STATE_PROVIDER


def cell(**changes) -> Cell:
    given = {
        "old": "3.5.7", "new": "4.3.0", "ended": "stopped", "kind": "inner", "state": "HDFS, 2", "said": "VALID",
        "rows": 40, "carried": 5,
    }  # fmt: skip
    return Cell(**{**given, **changes})


def test_each_pair_of_sparks_has_each_join_on_each_state_that_both_have_stopped_and_killed():
    found = [(one.old, one.new, *which) for one in groups() for which in one.cells]

    assert len(found) == len(set(found))
    for old, new in PAIRS:
        for state in ("HDFS, 2", "RocksDB, 2"):
            mine = {(kind, ended) for a, b, kind, of, ended in found if (a, b, of) == (old, new, state)}
            assert mine == {(kind, ended) for kind in JoinKind for ended in ENDS}
    assert "RocksDB, 3" not in states_of_pair("4.0.5", "4.1.4")
    assert "RocksDB, 3" in states_of_pair("4.1.4", "4.2.0")
    assert {"RocksDB, 3", "RocksDB, 4"} <= set(states_of_pair("4.2.0", "4.3.0"))


def test_no_setting_of_a_state_is_left_to_the_spark_that_runs_it():
    assert conf_of("HDFS, 2") == {STATE_PROVIDER: HDFS, STATE_FORMAT: "2"}
    assert conf_of("RocksDB, 2") == {STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "2", CHANGELOG: "false"}
    assert conf_of("RocksDB, 2, changelog") == {STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "2", CHANGELOG: "true"}


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"carried": 0}, False),
        ({"said": "UNKNOWN"}, False),
        ({"said": "refused", "by": "3.5.7", "words": "no such class"}, False),
        ({"said": "failed"}, False),
        ({"said": "INVALID", "defects": [LEFT_SEMI_LOSES_SAME_BATCH_ROWS]}, True),
        ({"said": "INVALID", "defects": ["", LEFT_SEMI_LOSES_SAME_BATCH_ROWS]}, False),
        ({"said": "INVALID"}, False),
    ],
)
def test_a_cell_holds_if_nothing_but_a_known_defect_is_wrong_and_the_older_state_was_used(changes, holds):
    assert cell(**changes).holds is holds
    assert GroupOutcome(cells=[cell(), cell(**changes)]).holds is holds


def test_the_document_says_what_was_run_what_was_refused_and_what_was_not_run():
    text = document.text(
        [
            cell(),
            cell(ended="killed", both=3, again=4),
            cell(kind="left_outer", state="HDFS, 1", said="refused", by="3.5.7", words=OF_OUTER_JOINS.words),
        ]
    )

    row = next(line for line in text.splitlines() if line.startswith("| HDFS, 2 | inner"))
    assert row.split("|")[3:8] == [" ? "] * 4 + [" `VALID` "]
    assert "3 of " in text
    assert "1 half-written batches again" in text
    assert f"| HDFS, 1 | left_outer | 3.5.7 of 3.5.7 to 4.3.0 | {OF_OUTER_JOINS.words} |" in text
    assert "stopped refused, killed ?" in text
    assert text.rstrip().endswith("Of the cells that were run nothing.")


def test_an_exception_that_is_no_known_refusal_did_not_hold_and_is_quoted():
    ended = cell(kind="left_semi", said="refused", by="4.3.0", words="org.apache.NoSuchClass")

    text = document.text([ended])

    refused, _, failed = text.partition("## What did not hold")
    assert "NoSuchClass" not in refused
    assert "stopped **refused**, killed ?" in refused
    quoted = "left_semi, HDFS, 2, 3.5.7 to 4.3.0, stopped: refused by 4.3.0: org.apache.NoSuchClass"
    assert failed.strip() == f"- {quoted}"
    assert document.failure(GroupOutcome(cells=[ended])).startswith("refused by 4.3.0: left_semi")


RECORDED = msgspec.json.Decoder(Cell).decode_lines(document.CELLS.read_bytes())
REFUSED = [one for one in RECORDED if one.said == "refused"]


def test_all_recorded_cells_hold_and_the_document_is_theirs():
    assert [one for one in RECORDED if not one.holds] == []
    assert document.text(RECORDED) == document.PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"words": "java.lang.OutOfMemoryError: Java heap space"},
        {"words": "An error occurred while calling o55.start."},
        {"words": "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match"},
        {"words": "[INTERNAL_ERROR] The Spark SQL phase execution failed with an internal error."},
        {"words": ""},
        {"state": "HDFS, 2"},
        {"kind": "full_outer"},
        {"old": "4.0.5", "by": "4.3.0"},
        {"old": "4.3.0", "by": "4.3.0"},
    ],
)
def test_a_refusal_of_another_spark_join_or_state_or_in_other_words_does_not_hold(changes):
    assert REFUSED
    assert not any(msgspec.structs.replace(one, **changes).holds for one in REFUSED)


def test_each_known_refusal_was_recorded_of_each_of_its_sparks_and_has_a_reason():
    seen = {(known_refusal(one.state, one.kind, one.by, one.words), minor_version(one.by)) for one in REFUSED}

    assert seen == {(known, spark) for known in KNOWN for spark in known.sparks}
    assert all(known.why for known in KNOWN)


@pytest.mark.parametrize(
    ("verdict", "defects", "findings", "holds"),
    [
        ("VALID", [], [], True),
        ("INVALID", [LEFT_SEMI_LOSES_SAME_BATCH_ROWS], [], True),
        ("INVALID", [LEFT_SEMI_LOSES_SAME_BATCH_ROWS], ["a row never came"], False),
        ("INVALID", [], [], False),
        ("UNKNOWN", [], [], False),
        ("UNKNOWN", [LEFT_SEMI_LOSES_SAME_BATCH_ROWS], [], False),
    ],
)
def test_a_query_on_other_executors_holds_if_it_is_valid_or_has_nothing_but_known_defects(
    verdict, defects, findings, holds
):
    query = Regrouped(verdict=verdict, defects=defects, findings=findings, executors=({1}, {3}))
    assert query.holds is holds


def test_records_are_of_the_life_in_which_their_batch_ran():
    records = [
        OutputRecord(partition=partition, offset=0, headers=[("batch", batch)])
        for partition, batch in ((0, "0"), (0, "3"), (2, "4"), (1, "9"))
    ]
    assert in_each_life(records, 4, lambda one: one.partition) == ({0}, {1, 2})


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    """Two queries of which one was refused by the older Spark, and a broker that has nothing."""
    broker = SimpleNamespace(create_topics=lambda *_: None, end_offsets=lambda *_: {})
    monkeypatch.setattr("tests.upgrades.site.kafka", broker)
    monkeypatch.setattr("tests.upgrades.site.SLICE_S", 0.0)
    monkeypatch.setattr("tests.upgrades.site.STOP_S", 0.0)
    (tmp_path / "said.jsonl").touch()
    (tmp_path / "program.log").write_text("no space left on device")
    refused = JoinQuery("left_outer", "left_outer", tmp_path, refused="no")
    return Site("127.0.0.1:1", tmp_path, [refused, JoinQuery("inner", "inner", tmp_path)])


ENDED = SimpleNamespace(poll=lambda: 1, stdin=io.BytesIO())
LIVING = SimpleNamespace(poll=lambda: None, stdin=io.BytesIO())


def test_a_program_that_ended_before_a_query_is_not_waited_for_though_another_was_refused(site):
    waits = (
        lambda: site.await_read(ENDED),
        lambda: site.stop(ENDED, site.queries[1]),
        lambda: site.kill(ENDED),
    )
    for wait in waits:
        with pytest.raises(TestbedError, match="ended with exit code 1 before inner\n") as error:
            wait()
        assert not isinstance(error.value, DeadlineExceeded)
        assert error.value.detail == "no space left on device"


def test_a_program_that_ended_is_no_error_once_all_queries_were_refused(site):
    (site.folder / "said.jsonl").write_text('{"name": "inner", "what": "refused", "words": "no"}\n')

    site.await_read(ENDED)

    assert [one.refused for one in site.queries] == ["no", "no"]


def test_queries_of_a_living_program_are_waited_for(site):
    with pytest.raises(DeadlineExceeded, match="inner"):
        site.await_read(LIVING)


def test_the_words_of_a_refusal_are_those_of_spark_without_ids():
    said = "\n[SOME_CLASS] no such state of 0c1f2f6e-5a2b-4b9e-8a52-0a3d6c5f7a11.\n at org.apache"
    assert words_of(said) == "[SOME_CLASS] no such state of ID."
    failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [SOME_CLASS] no.\nmore"
    assert words_of(failed) == "[SOME_CLASS] no."
