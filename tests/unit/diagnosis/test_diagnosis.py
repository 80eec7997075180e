"""Recorded runs with one thing wrong: the diagnosis names it, says that two things fit, or says that nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnoses.expected import DEFECTS
from tidemark.diagnosis import diagnose
from tidemark.diagnosis.fitted_changes import roundest
from tidemark.diagnosis.key_hashes import murmur2, partition_of
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

RECORDED = Path(__file__).parents[2] / "golden" / "evidence"
NAMED = {
    "mutant_half_bound": [["lower_ms=-10000"]],
    "mutant_inner_for_left_semi": [["kind=inner"]],
    "mutant_left_outer_bound_in_contract_longer": [["lower_ms=-20000"]],
    "mutant_left_outer_delay_in_contract_shorter": [["right.watermark_delay_ms=20000"]],
    "mutant_left_outer_transaction_lost": [["missing: task"]],
    "mutant_refs_missing": [["without places"]],
    "mutant_sink_doubles": [["doubled: all rows"]],
    **{f"defect_{name}": [[defect]] for name, defect in DEFECTS.items()},
}


def diagnosed(name):
    run = RunDirectory(RECORDED / name)
    return diagnose(run, judge(run))


@pytest.mark.parametrize("name", NAMED)
def test_what_is_wrong_is_named(name):
    assert [one.changes for one in diagnosed(name).explanations] == NAMED[name]


def test_nothing_is_named_where_nothing_explains_all():
    found = diagnosed("mutant_left_outer_many")

    assert found.outcome == "unexplained"
    assert found.explanations == []
    assert found.common


def test_a_sound_run_needs_no_explanation():
    assert diagnosed("left_outer").outcome == "nothing wrong"


def test_a_search_whose_time_is_over_says_so():
    run = RunDirectory(RECORDED / "mutant_half_bound")

    found = diagnose(run, judge(run), lambda: True)

    assert found.outcome == "unexplained"
    assert any("budget" in note for note in found.notes)


def test_a_bound_is_the_roundest_number_that_fits():
    assert roundest(-10_181, -9_677) == -10_000
    assert roundest(1, 332) == 100
    assert roundest(-5, 7) == 0


def test_the_partition_of_a_key_is_that_of_spark():
    # Spark 4.2: SELECT pmod(hash('i-0000011'), 2), pmod(hash('i-0000006'), 2)
    assert [partition_of(key, 2) for key in ("i-0000011", "i-0000006")] == [1, 1]


@pytest.mark.parametrize(("key", "hashed"), [("21", -973932308), ("foobar", -790332482), ("abc", 479470107)])
def test_the_hash_of_a_key_is_that_of_kafka(key, hashed):
    # Kafka 4.3: org.apache.kafka.common.utils.Utils.murmur2
    assert murmur2(key.encode()) == hashed % 2**32
