"""Pipelines, sinks and checkpoints broken on purpose: each must be killed, on a real stack, by the property named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.mutants import naive
from tests.mutants.in_pipelines import PIPELINE
from tests.mutants.in_recovery import RECOVERY
from tests.mutants.in_sinks import SINK
from tests.mutants.in_state import REFUSED, STATE
from tests.mutants.score import Line
from tests.support.bundled import case_of, make_trace
from tests.support.either_oracle import either_finds
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

pytestmark = [pytest.mark.mutants]

PLACES = {"pipeline": PIPELINE, "sink": SINK, "state": STATE, "recovery": RECOVERY}
CASES = [
    pytest.param(
        place, name, join,
        marks=[] if mutant.every_day and join == next(iter(mutant.killed)) else pytest.mark.long,
        id=f"{place}-{name}-{join}",
    )
    for place, mutants in PLACES.items()
    for name, mutant in mutants.items()
    for join in mutant.killed
]  # fmt: skip
HARMLESS = [
    (place, name) for place, mutants in PLACES.items() for name, mutant in mutants.items() if mutant.harmless
]
"""Those that are wrong only under one fault."""

TWINS = {
    (join, mutant.pace): mutant.every_day
    for mutants in PLACES.values()
    for mutant in mutants.values()
    for join in mutant.killed
    if mutant.pace != "stepped"
}
"""Whether the mutant is in the suite; its twin is, too."""


def ran(mutant, broken, request):
    """As a case: its evidence and verdict."""
    trace = make_trace(broken.with_name("trace.jsonl"), mutant.generator, pace=mutant.pace)
    case = case_of(broken, trace, sink=mutant.sink, conf=mutant.conf)
    run = RunDirectory(broken.with_name("run"))
    return run, request.getfixturevalue("warm").run(case, run.path)


def ran_with_faults(mutant, broken, request, faults=None):
    """As a run, on a driver of its own, which is killed; by default with the mutant's faults."""
    result = request.getfixturevalue("run_pipeline" if mutant.brokers == 1 else "run_on_three_brokers")(
        broken, impressions=400, seed=11, pace=mutant.pace, generator=mutant.generator, conf=mutant.conf,
        sink=mutant.sink, faults=mutant.faults if faults is None else faults,
    )  # fmt: skip
    return RunDirectory(result.run_dir), result.verdict


def judged_by_its_promise(mutant, run, verdict):
    """The verdict by the delivery that a mutant promises, where that is not its sink's."""
    if mutant.delivery is None:
        return verdict
    run.write_json("manifest", msgspec.structs.replace(run.manifest, delivery=Delivery(mutant.delivery)))
    return judge(run)


@pytest.mark.parametrize(("place", "name", "join"), CASES)
def test_a_mutant_is_caught_by_name(place, name, join, request, tmp_path: Path, score):
    mutant = PLACES[place][name]
    broken = tmp_path / "mutant.py"
    broken.write_text(mutant.source(join))

    run, verdict = (ran_with_faults if mutant.faults else ran)(mutant, broken, request)
    assert mutant.delivery is None or verdict.findings == []
    verdict = judged_by_its_promise(mutant, run, verdict)
    killed_by = mutant.killed[join]
    said = naive.outcomes(run, naive.sound_rows(run))
    score(
        Line(
            place,
            name,
            join,
            killed_by,
            "killed" if killed_by in verdict.findings_total else "survived",
            **said,
        ),
        run,
    )

    assert verdict.verdict == "INVALID", verdict
    assert killed_by in verdict.findings_total, verdict.findings_total
    either_finds(run, killed_by)


@pytest.mark.parametrize(
    ("join", "pace"),
    [
        pytest.param(*twin, marks=[] if every_day else pytest.mark.long)
        for twin, every_day in sorted(TWINS.items())
    ],
)
def test_without_the_change_nothing_is_wrong(join, pace, recorded):
    """Nor with a pace that is not ``stepped``, in which the evidence of each join is recorded."""
    verdict = judge(recorded(join, True, pace))

    assert verdict.verdict == "VALID", verdict


@pytest.mark.long
@pytest.mark.parametrize("with_faults", [False, True], ids=["no-fault", "another-fault"])
@pytest.mark.parametrize(("place", "name"), HARMLESS)
def test_a_mutant_of_a_recovery_does_no_harm_without_its_fault(place, name, with_faults, request, tmp_path):
    mutant = PLACES[place][name]
    broken = tmp_path / "mutant.py"
    broken.write_text(mutant.source(next(iter(mutant.killed))))

    run, verdict = ran_with_faults(mutant, broken, request, mutant.harmless if with_faults else "")
    verdict = judged_by_its_promise(mutant, run, verdict)

    assert verdict.verdict == "VALID", verdict
    assert verdict.counts["faults_done"] == int(with_faults)


@pytest.mark.long
def test_a_query_whose_state_files_are_gone_fails_and_what_it_wrote_is_not_valid(run_pipeline, tmp_path):
    broken = tmp_path / "mutant.py"
    broken.write_text(REFUSED.source("left_outer"))

    with pytest.raises(TidemarkError, match=r"STATE_STORE|does not exist"):
        run_pipeline(broken, impressions=400, seed=11, faults=REFUSED.faults, run_dir=tmp_path / "run")

    assert judge(RunDirectory(tmp_path / "run")).verdict != "VALID"
