"""Runs of chains as cases that become smaller: real evidence, and in the place of trials what records are left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.clicked_per_window import CONTRACT as CLICKED_PER_WINDOW
from pipelines.clicks_per_window import CONTRACT as CLICKS_PER_WINDOW
from tidemark.campaigns.chain_inputs import contract_of, inputs_of_chain
from tidemark.campaigns.shrink.bug_signature import signatures_in
from tidemark.campaigns.shrink.case_files import write_best
from tidemark.campaigns.shrink.flaky_trials import FlakyTrials
from tidemark.campaigns.shrink.predicted_bug import PredictedBug
from tidemark.campaigns.shrink.record_passes import key_of, variations_of
from tidemark.campaigns.shrink.red_run import read_red_run
from tidemark.campaigns.shrink.shrink_campaign import all_passes
from tidemark.campaigns.shrink.shrinkable import digest_of, fields_in, size_of
from tidemark.campaigns.shrink.shrinker import Removal, Shrinker
from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

EVIDENCE = Path(__file__).parents[2] / "golden" / "evidence"
LOST = EVIDENCE / "mutant_chain_windows_joined_lost"


@pytest.fixture(scope="module")
def red():
    return read_red_run(LOST)


def ads_of(one):
    return [
        (record.topic, fields.get("ad_id"))
        for record in one.case.records
        if (fields := fields_in(record.value))
    ]


def shrunk(red, wanted, seed=0):
    """The search, for which a case shows the bug if it has the wanted number of records of each topic and ad."""
    tried = []

    def run(one):
        tried.append(one)
        found = ads_of(one)
        return all(found.count(place) >= many for place, many in wanted.items())

    trials = FlakyTrials(run, digest_of)
    return Shrinker(all_passes(), trials, size_of, seed=seed).shrink(red.starts[0]), tried


def test_a_bug_of_a_chain_is_a_property_of_a_row_of_its_last_step(red):
    signature = red.signature

    assert signature.property == red.finding.property
    assert signature.kind == "chain of aggregate, aggregate, left_outer join"
    assert signature.about.startswith("a row of the left_outer join")
    assert str(signature).endswith(f"in a {signature.kind}")
    case = red.starts[0].case
    assert signature in signatures_in(judge(RunDirectory(LOST)), case.contract, case.records)


def test_a_chain_becomes_smaller_and_stays_the_chain_of_its_pipeline(red):
    start = red.starts[0]
    ads = ads_of(start)
    wanted = {ads[0]: 1, ads[-1]: 1}
    keeps_names = [part for part in all_passes() if part.name != "names of ids and keys"]

    def run(one):
        found = ads_of(one)
        return all(found.count(place) >= many for place, many in wanted.items())

    found = Shrinker(keeps_names, FlakyTrials(run, digest_of), size_of).shrink(start)

    case = found.best.case
    assert len(case.records) == 2
    assert case.contract.to_json() == start.case.contract.to_json()
    assert case.pipeline == start.case.pipeline == "windows_joined"
    assert size_of(found.best) < size_of(start)


def test_no_pass_makes_a_chain_larger_or_another_chain(red):
    start = red.starts[-1]
    one = start.with_records(start.case.records[:30])

    for part in all_passes():
        smaller = (
            [part.without(one, frozenset([0]))] if isinstance(part, Removal) and part.units(one) else
            [] if isinstance(part, Removal) else list(part.smaller(one))
        )  # fmt: skip
        for other in filter(None, smaller):
            assert other.case.contract.to_json() == one.case.contract.to_json(), part.name
            assert other.case.pipeline == one.case.pipeline, part.name
            assert len(other.case.records) <= len(one.case.records), part.name
    assert dict(variations_of(one))


def test_the_same_arguments_give_the_same_search_of_a_chain(red):
    wanted = {ads_of(red.starts[0])[3]: 1}

    assert shrunk(red, wanted, seed=2) == shrunk(red, wanted, seed=2)


def test_texts_of_a_chain_are_renamed_alike_in_all_topics(red):
    [renamed] = [part for part in all_passes() if part.name == "names of ids and keys"]
    start = red.starts[0]

    [short] = renamed.smaller(start)

    pairs = {(old, new) for (_, old), (_, new) in zip(ads_of(start), ads_of(short), strict=True)}
    assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})
    assert {len(new) for _, new in pairs if new} <= {1, 2}


def test_rules_of_one_join_know_nothing_of_a_chain(red):
    rules = PredictedBug(replace(red.signature, property="lost_rows"), "4.2.0")

    assert rules.may_show(red.starts[0])
    assert rules.shows(red.starts[0]) is None


def test_what_is_written_of_a_chain_is_its_contract(red, tmp_path):
    write_best(red.starts[0], tmp_path)

    data = json.loads((tmp_path / "contract.json").read_bytes())
    assert contract_of(data) == red.starts[0].case.contract
    assert data["chain"]["step"] == "join"


def test_a_chain_has_a_side_for_each_topic_with_all_texts_as_keys():
    one, two = inputs_of_chain(CLICKS_PER_WINDOW), inputs_of_chain(CLICKED_PER_WINDOW)

    assert (one.topics, two.topics) == (("clicks",), ("impressions", "clicks"))
    assert [side.keys for side in two.sides] == [("user_id", "ad_id"), ("clicker", "clicked_ad")]
    assert [side.watermark_delay_ms for side in two.sides] == [10_000, 20_000]
    assert two.steps == "inner join, aggregate"
    assert isinstance(two, Contract)


def test_records_of_a_chain_have_the_keys_that_its_sources_read(red):
    contract = red.starts[0].case.contract
    keys = {key_of(record, contract) for record in red.starts[0].case.records if fields_in(record.value)}

    assert keys >= {(ad,) for _, ad in ads_of(red.starts[0]) if ad}


def test_a_run_of_a_chain_with_faults_is_refused(tmp_path):
    manifest = json.loads((LOST / "manifest.json").read_bytes())
    for file in LOST.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest["command"] += " --faults driver@planned"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(UsageError, match="the run of a chain with faults"):
        read_red_run(tmp_path)
