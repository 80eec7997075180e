"""The upgrade table: which cells there are, when one holds, and what the document says of them."""

from __future__ import annotations

import pytest

from tests.upgrades import document
from tests.upgrades.cells import ENDS, PAIRS, conf_of, groups, states_of_pair
from tests.upgrades.running import Cell, GroupOutcome, words_of
from tidemark.campaigns.state_stores import HDFS
from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS, ROCKSDB
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
        ({"said": "refused"}, True),
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
            cell(kind="left_semi", said="refused", by="4.3.0", words="[NO]"),
        ]
    )

    row = next(line for line in text.splitlines() if line.startswith("| HDFS, 2 | inner"))
    assert row.split("|")[3:8] == [" ? "] * 4 + [" `VALID` "]
    assert "3 of " in text
    assert "1 half-written batches again" in text
    assert "| HDFS, 2 | left_semi | 4.3.0 of 3.5.7 to 4.3.0 | [NO] |" in text
    assert "stopped refused, killed ?" in text
    assert text.rstrip().endswith("Of the cells that were run nothing.")


def test_the_words_of_a_refusal_are_those_of_spark_without_ids():
    said = "\n[SOME_CLASS] no such state of 0c1f2f6e-5a2b-4b9e-8a52-0a3d6c5f7a11.\n at org.apache"
    assert words_of(said) == "[SOME_CLASS] no such state of ID."
    failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [SOME_CLASS] no.\nmore"
    assert words_of(failed) == "[SOME_CLASS] no."
