"""The evidence of sound runs of a real stack, damaged in one place: the judge must say what is wrong, by name."""

from __future__ import annotations

import pytest

from tests.mutants import naive
from tests.mutants.demand_evidence import DEMAND_EVIDENCE, FAULTS, JOIN, MANY_SLICES, problems
from tests.mutants.evidence import EVERY, EVIDENCE, Copy
from tests.mutants.mutants import ON_TIME
from tests.mutants.score import Line
from tests.mutants.state_evidence import STATE_EVIDENCE
from tests.support.either_oracle import either_finds
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

pytestmark = [pytest.mark.mutants]

EVERY_DAY = {("left_outer", True)}
RUNS = [
    pytest.param(
        join, late, id=f"{join}-{'late' if late else 'on time'}",
        marks=[] if (join, late) in EVERY_DAY else pytest.mark.long,
    )
    for join in EVERY
    for late in (False, True)
]  # fmt: skip


def contract_of(run):
    return Contract.from_json(run.manifest.contract)


@pytest.mark.parametrize(("join", "late"), RUNS)
def test_damaged_evidence_is_caught_by_name(join, late, recorded, tmp_path, score):
    run = recorded(join, late)
    sound = naive.ids(run.output(), contract_of(run))
    # What a plain comparison makes of a sound run: worth something only where no row is late.
    assert set(naive.outcomes(run, sound).values()) == {naive.FALSE_POSITIVE if late else naive.SURVIVED}
    survived = {}
    assert list(run.state() or ()), "the state was not read"
    assert list(run.state_keys() or ()), "the counts of its keys were not read"
    for name, mutant in {**EVIDENCE, **STATE_EVIDENCE}.items():
        if join not in mutant.joins or late != mutant.late:
            continue
        copy = Copy(run, tmp_path / name)
        mutant.damage(copy)
        verdict = judge(damaged := copy.write())
        either_finds(damaged, mutant.expected(join))
        expected = mutant.expected(join)
        killed = verdict.verdict == "INVALID" and expected in verdict.findings_total
        if not killed:
            survived[name] = f"{expected}, not {verdict.verdict} {verdict.findings_total}"
        # Where the promise is another one, so are the rows that would keep it.
        kept = sound if copy.contract == contract_of(run) else naive.sound_rows(damaged)
        said = naive.outcomes(damaged, kept)
        place = "state" if name in STATE_EVIDENCE else "evidence"
        score(Line(place, name, join, expected, "killed" if killed else "survived", **said), damaged)

    assert survived == {}


@pytest.mark.long
def test_a_demand_that_is_broken_by_one_step_is_caught_by_name(run_pipeline, tmp_path, score):
    result = run_pipeline(JOIN, impressions=400, seed=11, generator=(*ON_TIME, *MANY_SLICES), faults=FAULTS)
    run = RunDirectory(result.run_dir)
    assert result.verdict.verdict == "VALID", result.verdict
    sound = naive.ids(run.output(), contract_of(run))
    assert set(naive.outcomes(run, sound).values()) == {naive.SURVIVED}
    survived = {}
    for name, mutant in DEMAND_EVIDENCE.items():
        damaged, told = problems(run, name, tmp_path)
        either_finds(damaged, mutant.killed_by)
        if told:
            survived[name] = told
        said = naive.outcomes(damaged, sound)
        killed = "survived" if told else "killed"
        score(Line("evidence", name, JOIN, mutant.killed_by, killed, **said), damaged)

    assert survived == {}
