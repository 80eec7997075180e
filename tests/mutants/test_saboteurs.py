"""Pipelines, sinks and checkpoints broken on purpose: each must be caught, on a real stack, by the property named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.mutants import naive
from tests.mutants.in_pipelines import PIPELINE
from tests.mutants.in_sinks import SINK
from tests.mutants.in_state import REFUSED, STATE
from tests.mutants.score import Line
from tests.support.bundled import case_of, make_trace
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

pytestmark = [pytest.mark.mutants]

PLACES = {"pipeline": PIPELINE, "sink": SINK, "state": STATE}
CASES = [
    pytest.param(
        place, name, join,
        marks=[] if saboteur.every_day and join == next(iter(saboteur.caught)) else pytest.mark.long,
        id=f"{place}-{name}-{join}",
    )
    for place, saboteurs in PLACES.items()
    for name, saboteur in saboteurs.items()
    for join in saboteur.caught
]  # fmt: skip

TWINS = {
    (join, saboteur.pace): saboteur.every_day
    for saboteurs in PLACES.values()
    for saboteur in saboteurs.values()
    for join in saboteur.caught
    if saboteur.pace != "stepped"
}
"""Whether the saboteur is in the suite; its twin is, too."""


def ran(saboteur, broken, request):
    """As a case: its evidence and verdict."""
    trace = make_trace(broken.with_name("trace.jsonl"), saboteur.generator, pace=saboteur.pace)
    case = case_of(broken, trace, sink=saboteur.sink, conf=saboteur.conf)
    run = RunDirectory(broken.with_name("run"))
    return run, request.getfixturevalue("warm").run(case, run.path)


def ran_with_faults(saboteur, broken, request):
    """As a run, on a driver of its own, which is killed."""
    result = request.getfixturevalue("run_pipeline")(
        broken, impressions=400, seed=11, pace=saboteur.pace, generator=saboteur.generator, conf=saboteur.conf,
        sink=saboteur.sink, faults=saboteur.faults,
    )  # fmt: skip
    return RunDirectory(result.run_dir), result.verdict


@pytest.mark.parametrize(("place", "name", "join"), CASES)
def test_a_saboteur_is_caught_by_name(place, name, join, request, tmp_path: Path, score):
    saboteur = PLACES[place][name]
    broken = tmp_path / "saboteur.py"
    broken.write_text(saboteur.source(join))

    run, verdict = (ran_with_faults if saboteur.faults else ran)(saboteur, broken, request)
    if saboteur.delivery is not None:
        assert verdict.findings == []
        run.write_json(
            "manifest", msgspec.structs.replace(run.manifest, delivery=Delivery(saboteur.delivery))
        )
        verdict = judge(run)
    caught_as = saboteur.caught[join]
    said = naive.outcomes(run, naive.sound_rows(run))
    score(
        Line(
            place,
            name,
            join,
            caught_as,
            "caught" if caught_as in verdict.findings_total else "missed",
            **said,
        )
    )

    assert verdict.verdict == "INVALID", verdict
    assert caught_as in verdict.findings_total, verdict.findings_total


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
def test_a_query_whose_state_files_are_gone_fails_and_what_it_wrote_is_not_valid(run_pipeline, tmp_path):
    broken = tmp_path / "saboteur.py"
    broken.write_text(REFUSED.source("left_outer"))

    with pytest.raises(TidemarkError, match=r"STATE_STORE|does not exist"):
        run_pipeline(broken, impressions=400, seed=11, faults=REFUSED.faults, run_dir=tmp_path / "run")

    assert judge(RunDirectory(tmp_path / "run")).verdict != "VALID"
