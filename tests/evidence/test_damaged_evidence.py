"""Damaged evidence is refused, or its verdict is not VALID; thousands of damages: ``python -m tests.evidence``."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evidence.campaign import RUNS, UNCHANGED, all_sounds, names, tried
from tests.evidence.damages import Sound
from tests.evidence.explained import changes, unexplained
from tests.evidence.judging import judged
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import is_intact

UNHURRIED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.fixture(scope="module")
def sounds():
    return all_sounds()


def test_there_are_runs_of_each_join_with_both_sinks_and_with_faults(sounds):
    kinds = {sound.manifest["contract"].get("kind", "chain") for sound in sounds}
    sinks = Counter(sound.manifest["sink"] for sound in sounds)

    assert len(sounds) >= 8
    assert kinds == {"inner", "left_outer", "right_outer", "full_outer", "left_semi", "chain"}
    assert min(sinks["exactly-once"], sinks["spark"]) >= 6
    assert sum(bool(sound.files.get("faults")) for sound in sounds) >= 2
    assert sum("as parquet" in sound.name for sound in sounds) == len(sounds) // 2


@pytest.mark.parametrize("name", names())
def test_the_evidence_is_sealed_and_valid_as_it_is(name):
    outcome = judged(RUNS / name)

    assert (outcome.kind, outcome.said) == ("VALID", "")
    assert list(changes(Sound(RUNS / name), RUNS / name)) == []


@given(rng=st.randoms(use_true_random=False), which=st.integers(min_value=0))
@UNHURRIED
def test_no_damage_leaves_a_verdict_that_nothing_explains(sounds, rng, which):
    result = tried(sounds[which % len(sounds)], rng, 0, sealed=False)

    assert not result.problem, (result.damage, result.said)


@given(rng=st.randoms(use_true_random=False), which=st.integers(min_value=0))
@UNHURRIED
def test_no_damage_is_judged_under_a_seal(sounds, rng, which):
    result = tried(sounds[which % len(sounds)], rng, 0, sealed=True)

    assert result.kind in ("refused", UNCHANGED), (result.damage, result.said)
    assert not result.problem


def test_a_run_that_is_written_without_a_change_is_as_it_was_sealed(sounds, tmp_path):
    """So that under a seal it is the damage that is refused, and not the way in which the run was written."""
    for sound in sounds:
        path = tmp_path / sound.name
        path.mkdir()
        sound.write_records(path, {})

        assert is_intact(path)
        assert judged(path).kind == "VALID"
        assert list(changes(sound, path)) == []


def test_the_campaign_sees_a_verdict_that_nothing_explains(sounds, tmp_path):
    """An output id that is changed without the judge: of the changes, this one has no reason."""
    sound, path = next(sound for sound in sounds if sound.name == "inner"), tmp_path / "run"
    records = [dict(record) for record in sound.files["output"]]
    records[0]["value"] = records[0]["value"].replace("i-", "j-", 1)
    path.mkdir()
    sound.write_records(path, {"output": records})

    assert [place.split(" ")[:2] for place in unexplained(sound, path)] == [
        ["output", "value.impression_id:"]
    ]


def test_a_damage_is_the_same_for_the_same_seed(sounds, tmp_path):
    for folder in ("one", "two"):
        said = [str(sounds[0].damaged(Random(seed), tmp_path / folder / str(seed))) for seed in range(20)]
        (tmp_path / f"{folder}.txt").write_text("\n".join(said))

    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()
    assert len(set((tmp_path / "one.txt").read_text().splitlines())) > 15
    assert RunDirectory(tmp_path / "one" / "0").path.is_dir()
