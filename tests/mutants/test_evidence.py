"""The evidence of sound runs of a real stack, damaged in one place: the judge must say what is wrong, by name."""

from __future__ import annotations

import pytest

from tests.mutants import naive
from tests.mutants.evidence import EVERY, EVIDENCE, Copy
from tests.mutants.score import Line
from tests.mutants.state_evidence import STATE_EVIDENCE
from tests.support.either_oracle import either_finds
from tidemark.formats.contract import Contract
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
