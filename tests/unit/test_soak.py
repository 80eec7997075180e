"""A soak's schedule, what it adds up to, and when it holds."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tidemark.campaigns import soak as soaking
from tidemark.campaigns.soak import (
    INPUTS,
    KEPT_IN,
    Soak,
    SoakOptions,
    SoakRun,
    run_options,
)
from tidemark.campaigns.soak_faults import can_be_drawn, schedule
from tidemark.campaigns.state_stores import STATES
from tidemark.cli.chaos_commands import _exit_code
from tidemark.errors import EXIT_INVALID, EXIT_UNKNOWN, TestbedError, UsageError
from tidemark.faults.overlaps import drawn_pairs
from tidemark.faults.schedule import read_schedule, write_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import POINTS, Fault, FaultComponent
from tidemark.oracle import Finding, Verdict
from tidemark.reports import soak_report as shown
from tidemark.stack import StackSpec


def fault(what="driver@written", injected=True, recovery_s=4.0):
    [spec] = read_schedule(what)
    return Fault(
        component=spec.component, action=spec.action, point=spec.point, at_utc="-", injected=injected, batch=3,
        recovery_s=recovery_s,
    )  # fmt: skip


def replace_proof(line, **proof):
    return msgspec.structs.replace(line, proof=proof)


def ran(number, faults, verdict="VALID", **fields):
    return SoakRun(
        number=number, pipeline="inner", sink="spark", input="plain", state="HDFS, 2", verdict=verdict, rows=100,
        rows_judged=150, faults=faults, command="tidemark run inner",
        **{"run_dir": f"run-{number}", "schedule": ",".join(["driver@written"] * len(faults)), **fields},
    )  # fmt: skip


def stack_of(*components, brokers=1):
    """A stack on which nothing is run; without components it is gone."""
    return SimpleNamespace(
        spec=StackSpec(brokers=brokers), versions={"spark": "4.2.0"}, components=lambda: [*components]
    )


def soak_of(*runs):
    return Soak(SoakOptions(Path("runs")), list(runs), seconds=120.0)


def test_a_schedule_is_the_seeds_and_every_fault_comes():
    assert schedule(random.Random(1), 12) == schedule(random.Random(1), 12)
    many = schedule(random.Random(2), 2000)
    assert {(one.component, one.action, one.point) for one in many} == {
        (*what, point) for what, points in POINTS.items() for point in points
    }
    assert sum(len(one.parts) for one in many) == 2000
    counts = {one: many.count(one) for one in many}
    assert {replace(one, count=1): one.count for one in read_schedule(write_schedule(many))} == counts


def test_some_of_what_is_drawn_are_two_faults_that_overlap():
    pairs = [one for one in schedule(random.Random(3), 3000) if one.beside]
    possible = {(first, then) for first, then in drawn_pairs()}

    assert 0.15 < len(pairs) / 3000 < 0.2  # of the faults, of which a pair is two
    assert {tuple(one.as_parts) for one in pairs} <= possible
    without = partial(can_be_drawn, links=(), brokers=3)
    assert not [one for one in schedule(random.Random(3), 3000, without) if one.is_of_network]
    assert [one for seed in range(50) for one in schedule(random.Random(seed), 1) if one.beside] == []


def test_only_the_faults_that_are_asked_for_are_drawn():
    options = SoakOptions(Path("runs"), faults=40, only=("broker:cut", "driver@written"))

    drawn = [str(part) for one in run_options(options, 0).fault_specs for part in one.as_parts]

    assert {one.partition("@")[0] for one in drawn} == {"broker:cut", "driver"}
    assert {one for one in drawn if one.startswith("driver")} == {"driver@written"}
    with pytest.raises(UsageError, match="'broker:cutt' is no fault") as error:
        run_options(replace(options, only=("driver", "broker:cutt")), 0)
    assert "broker:cut-requests" in error.value.hint


def test_one_fault_alone_is_drawn_again_and_again():
    options = SoakOptions(Path("runs"), faults=40, only=("broker:cut@planned",))
    assert run_options(options, 1).faults == "broker:cut@planned*40"


def test_faults_that_one_of_the_sinks_has_not_are_refused_before_the_first_run():
    stack = stack_of()
    options = SoakOptions(Path("runs"), only=("executor@rows-sent",))
    with pytest.raises(UsageError, match=r"none of executor@rows-sent .* the sink spark") as error:
        soaking.soak(options, stack, lambda *_: pytest.fail("nothing may run"))
    assert "--sink exactly-once" in error.value.hint


@pytest.mark.parametrize(
    ("only", "sinks", "said"),
    [
        (("driver", "leader"), ("spark",), "leader can be injected into no run"),
        (
            ("driver@written", "executor@rows-sent"),
            ("spark",),
            "executor@rows-sent can be injected into no run",
        ),
        (("driver", "coordinator@written"), ("exactly-once", "spark"), "coordinator@written can be injected"),
    ],
)
def test_each_fault_that_no_run_of_a_soak_could_have_is_refused_beside_others(only, sinks, said):
    options = SoakOptions(Path("runs"), only=only, sinks=sinks)
    with pytest.raises(UsageError, match=said) as error:
        soaking.soak(options, stack_of(), lambda *_: pytest.fail("nothing may run"))
    assert "tidemark up --brokers 3" in error.value.hint


def test_a_step_of_one_sink_may_be_asked_for_beside_a_fault_of_both():
    options = SoakOptions(Path("runs"), faults=40, only=("driver@written", "executor@rows-sent"))
    drawn = {str(one) for number in (0, 5) for one in run_options(options, number).fault_specs}
    assert {part for one in drawn for part in one.partition("*")[0].split("+")} == {
        "driver@written", "executor@rows-sent"
    }  # fmt: skip


def test_what_a_soak_draws_can_be_asked_for():
    drawn = schedule(random.Random(4), 3000)
    assert read_schedule(write_schedule(drawn))


def test_faults_that_were_not_injected_yet_are_drawn_first_but_not_for_ever():
    every = soak_of().unmet()
    assert len(every) == sum(map(len, POINTS.values()))

    drawn = [one for one in schedule(random.Random(5), 90, unmet=every) if not one.beside]
    assert len({one.as_parts[0] for one in drawn}) == len(drawn) > 50
    met = soak_of(ran(0, [fault("driver@written"), fault("broker@planned", injected=False)])).unmet()
    [left] = every - met
    assert left.label == "kill driver at written"
    tried = replace_proof(fault("broker@planned", injected=False), tried=[{"batch": 3, "seconds": 1.0}])
    assert {one.label for one in every - soak_of(ran(0, [tried]), ran(1, [tried])).unmet()} == {
        "kill broker at planned"
    }
    assert soak_of(ran(0, [tried])).unmet() == every
    asked = run_options(SoakOptions(Path("runs"), faults=1), 0, unmet={left})
    assert asked.faults == "driver@written"


def test_without_a_proxy_no_fault_of_the_network_is_drawn():
    drawn = schedule(random.Random(2), 500, partial(can_be_drawn, links=(), brokers=3))
    assert not [str(one) for one in drawn if one.is_of_network]
    assert {one.component for one in drawn} == {component for component, _ in POINTS} - {
        FaultComponent.REGISTRY
    }


def test_every_join_meets_every_sink_and_one_sink_comes_after_the_other():
    options = SoakOptions(Path("runs"))
    asked = [(one.pipeline, one.sink) for one in (run_options(options, number) for number in range(10))]

    assert len(set(asked)) == 10
    assert {sink for _, sink in asked[:2]} == {"exactly-once", "spark"}


def test_every_input_meets_each_sink_and_each_place_of_the_state():
    options = SoakOptions(Path("runs"), keep_checkpoint=True)
    asked = [
        run_options(options, number) for number in range(len(INPUTS) * len(KEPT_IN) * len(options.sinks))
    ]
    settings = {one: {f"{name}={value}" for name, value in STATES[one].items()} for one in KEPT_IN}

    def state_of(one):
        return max(
            (state for state in KEPT_IN if settings[state] <= {*one.conf}),
            key=lambda name: len(settings[name]),
        )

    found = {(one.generator, state_of(one), one.sink) for one in asked}

    assert len(found) == len(asked)
    assert {(words, sink) for words, _, sink in found} == {
        (one.generator, one.sink) for one in asked[: len(INPUTS) * len(options.sinks)]
    }
    assert all(one.keep_checkpoint for one in asked)
    assert {run_options(replace(options, sinks=("spark",)), number).generator for number in range(6)} == {
        *INPUTS.values()
    }


def test_a_stack_that_is_gone_ends_a_soak_with_what_was_done(monkeypatch):
    monkeypatch.setattr(soaking, "_run", lambda _options, _stack, number, _unmet: ran(number, [fault()]))
    stack, said = stack_of(), []

    done = soaking.soak(SoakOptions(Path("runs")), stack, lambda _every, one: said.append(one.number))

    assert (said, done.over, done.gone) == ([0], False, True)
    with pytest.raises(TestbedError, match="the stack of the soak is gone") as error:
        _exit_code(done)
    assert "begin again, with --log" in error.value.hint
    done.runs[0].findings = {"lost_rows": 1}
    assert _exit_code(done) == EXIT_INVALID


def test_an_interrupted_soak_keeps_its_runs_and_is_not_over(monkeypatch):
    said = []

    def second_is_interrupted(_options, _stack, number, _unmet):
        if number == 1:
            raise KeyboardInterrupt
        return ran(number, [fault()])

    monkeypatch.setattr(soaking, "_run", second_is_interrupted)
    short, long = (SoakOptions(Path("runs"), minutes) for minutes in (0.0, 30.0))
    stack = stack_of("broker")
    done = soaking.soak(long, stack, lambda _all, one: said.append(one.number))
    assert ([one.number for one in done.runs], said, done.over) == ([0], [0], False)
    assert soaking.soak(short, stack, lambda *_: None).over


def test_a_run_that_was_interrupted_stays_and_is_run_again_beside_it(tmp_path):
    (tmp_path / "run-0").mkdir()
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "contract.json").write_text("{}")

    asked = [run_options(SoakOptions(tmp_path), number).run_dir for number in range(2)]

    assert asked == [tmp_path / "run-0", tmp_path / "run-1-2"]


def test_it_adds_up():
    summary = soak_of(ran(0, [fault(), fault(recovery_s=8.0)]), ran(1, [fault("broker@planned")])).summary()

    assert summary["faults"] == 3
    assert summary["faults_a_minute"] == 1.5
    assert summary["kinds"] == {"kill broker at planned": 1, "kill driver at written": 2}
    assert summary["recovery_s"] == {"least": 4.0, "median": 4.0, "worst": 8.0}
    assert summary["availability"] == {}
    assert summary["rows_judged"] == 300


def test_one_fault_in_twenty_may_miss_and_no_more():
    hits, miss = [fault()] * 19, fault(injected=False, recovery_s=None)
    assert soak_of(ran(0, [*hits, miss], "UNKNOWN")).exit_code == 0
    assert soak_of(ran(0, [*hits[1:], miss], "UNKNOWN")).exit_code == 3
    assert soak_of(ran(0, [])).exit_code == 3


def test_a_finding_or_a_run_that_failed_is_not_overlooked():
    found = ran(1, [fault()], "INVALID", findings={"duplicate_rows": 2})
    assert soak_of(ran(0, [fault()]), found).exit_code == 1
    assert soak_of(ran(0, [fault()]), ran(1, [fault()], "FAILED", problem="no disk")).exit_code == 3
    assert soak_of(ran(0, [fault()], "INVALID", known_defects=["left-semi"])).exit_code == 0
    missed, unread = (
        f"the coverage goal {name!r} is required and was not met" for name in ("every_fault_done", "flushed")
    )
    assert soak_of(ran(0, [fault()], "UNKNOWN", inconclusive=[missed])).exit_code == 0
    assert soak_of(ran(0, [fault()], "UNKNOWN", inconclusive=[missed, unread])).exit_code == 3


ASKED = shown.Asked(
    "tidemark soak --seed 7 --markdown FILE", [("kill driver", "written"), ("kill broker", "planned")],
    impossible=["kill leader"], stack="backend local, 3 brokers",
)  # fmt: skip


def document(*runs):
    return shown.markdown(soak_of(*runs), {"spark": "4.2.0"}, ASKED)


def test_the_document_says_what_was_done_where_and_what_never_was():
    text = document(ran(0, [fault(), fault("broker@planned", injected=False, recovery_s=None)]))

    assert "Made by `tidemark soak --seed 7 --markdown FILE`" in text
    assert "\nSpark 4.2.0, Kafka ?, backend local, 3 brokers, " in text
    assert "| kill driver | written | 1 | 1 | - |" in text
    assert "| kill broker | planned | - | - | 1 |" in text
    assert (
        "Of 2 combinations of a fault and a commit point 1 were injected; counted with each join, 1 of 2."
        in text
    )
    assert "Not possible on this stack: kill leader." in text


def pair(text="broker:pause@written+driver@written", injected=True, batch=3):
    """The two lines of faults that overlapped, or were to."""
    [spec] = read_schedule(text)
    return [
        Fault(
            component=part.component, action=part.action, point=part.point, at_utc="-", injected=injected,
            batch=batch if injected else None, together=text,
        )
        for part in spec.parts
    ]  # fmt: skip


def test_pairs_that_overlapped_are_counted_and_those_that_never_did_are_named():
    missed = pair(injected=False)
    faults = [*pair(batch=3), *pair(batch=4), *missed, *missed, *pair("driver@written+driver@planned")]
    soak = soak_of(ran(0, [*faults, fault()]), ran(1, [*pair("broker~2+driver@planned", injected=False)]))
    asked = shown.Asked("tidemark soak", [], [
        ("pause broker at written", "kill driver at written"), ("kill driver at written", "kill driver at planned"),
        ("kill broker at planned", "kill driver at planned"), ("kill broker at planned", "kill master at planned"),
    ])  # fmt: skip

    assert soak.overlapping() == [
        {
            "first": "kill broker at planned",
            "then": "kill driver at planned",
            "join": "inner",
            "done": 0,
            "missed": 1,
        },
        {
            "first": "kill driver at written",
            "then": "kill driver at planned",
            "join": "inner",
            "done": 1,
            "missed": 0,
        },
        {
            "first": "pause broker at written",
            "then": "kill driver at written",
            "join": "inner",
            "done": 2,
            "missed": 2,
        },
    ]
    assert soak.summary()["overlaps"] == 3
    text = shown.markdown(soak, {}, asked)
    assert "| pause broker at written | kill driver at written | 2 | 2 | inner |" in text
    assert "| kill broker at planned | kill driver at planned | - | 1 | - |" in text
    assert "Of 4 pairs 2 overlapped, 2 never." in text
    never = "kill driver at planned, kill master at planned"
    assert f"| kill broker at planned | 2 | 2 | {never} |" in text
    titles = {one.title: one.rows for one in shown.facts(soak, {}, asked).tables}
    assert titles["Faults that overlapped"][1][:3] == [
        "kill driver at written",
        "kill driver at planned",
        "1",
    ]
    assert titles["Faults that never overlapped"] == [["kill broker at planned", "2", "2", never]]


def test_the_document_has_recovery_in_all_and_by_part():
    times = {"driver": (4.0, 8.0), "driver:pause": (1.0,), "broker": (2.0,)}
    text = document(ran(0, [fault(what, recovery_s=each) for what, found in times.items() for each in found]))

    assert text[text.index("| all") : text.index("## Joins")].splitlines()[:-1] == [
        "| all | 4 | 1.0 | 3.0 | 8.0 |",
        "| broker | 1 | 2.0 | 2.0 | 2.0 |",
        "| driver | 3 | 1.0 | 4.0 | 8.0 |",
        "| kill broker | 1 | 2.0 | 2.0 | 2.0 |",
        "| kill broker at planned | 1 | 2.0 | 2.0 | 2.0 |",
        "| kill driver | 2 | 4.0 | 6.0 | 8.0 |",
        "| kill driver at written | 2 | 4.0 | 6.0 | 8.0 |",
        "| pause driver | 1 | 1.0 | 1.0 | 1.0 |",
        "| pause driver at planned | 1 | 1.0 | 1.0 | 1.0 |",
    ]


def test_the_availability_of_runs_is_a_distribution_and_recoveries_are_said_by_point():
    one, other = ran(0, [fault(), fault(recovery_s=8.0)]), ran(1, [fault("broker@planned")])
    one.availability, other.availability = 0.875, 0.975
    soak = soak_of(one, other)

    assert soak.summary()["availability"] == {"least": 0.875, "median": 0.925, "best": 0.975}
    said = list(shown.lines(soak))
    assert "availability           least 0.875, median 0.925, best 0.975" in said
    assert (
        "recovery of kill driver at written, in seconds: least 4.0, median 6.0, worst 8.0 (2 faults)" in said
    )


def test_the_document_adds_up_runs_of_a_join_and_a_sink():
    text = document(ran(0, [fault()], batches_again=2, duplicates=1200), ran(1, [fault()], "UNKNOWN"))

    assert "| inner | spark | 2 | VALID 1, UNKNOWN 1 | 300 | 2 | 1,200 |" in text


def test_the_document_names_inconclusive_runs_and_what_does_not_hold():
    missed = "the coverage goal 'every_fault_done' is required and was not met"
    found = ran(1, [fault()], "INVALID", findings={"duplicate_rows": 2})
    sound = document(
        ran(0, [fault()], "UNKNOWN", inconclusive=[missed]),
        ran(1, [fault()], "UNKNOWN", inconclusive=[missed]),
    )

    assert "**it holds**" in sound
    assert f"- 2 runs: {missed}" in sound
    assert "What does not hold" not in sound
    assert "**something was found**" in document(found)
    assert "duplicate_rows 2; reproduce: `tidemark run inner`" in document(found)


def test_the_document_of_a_soak_without_runs_says_so():
    text = document()
    assert "**too much missed or failed**" in text
    assert "Of 2 combinations of a fault and a commit point 0 were injected" in text


def judged(**fields):
    """A verdict with many findings, a few of which are examples."""
    example = {
        name: Finding(property="lost_rows", message=f"row {name}", defect=name)
        for name in ("left-semi", None)
    }
    return Verdict(
        delivery="exactly-once", pipeline="inner", kind="inner", findings=[*example.values()], counts={}, goals={},
        asked=[], known_defects={"left-semi": ""}, defects_total={"left-semi": 70}, **{
            "verdict": "INVALID", "findings_total": {"lost_rows": 500}, "unexplained_total": {"lost_rows": 430},
            "inconclusive": [], **fields,
        },
    )  # fmt: skip


@pytest.fixture
def run_with(monkeypatch, tmp_path):
    """A function: the soak's run that has this verdict, or that does this."""

    def outcome(verdict, stack=None):
        does = verdict if callable(verdict) else lambda *_, **__: SimpleNamespace(verdict=verdict)
        monkeypatch.setattr(soaking, "describe", lambda _pipeline: None)
        monkeypatch.setattr(soaking, "new_run_directory", lambda *_: RunDirectory(tmp_path))
        monkeypatch.setattr(soaking, "run", does)
        stack = stack or SimpleNamespace(repair=lambda: None, spec=StackSpec(), components=lambda: ["broker"])
        return soaking._run(SoakOptions(tmp_path), stack, 1)

    return outcome


def test_all_findings_that_no_defect_explains_are_counted_not_the_examples(run_with):
    one = run_with(judged())

    assert (one.findings, one.known_defects) == ({"lost_rows": 430}, ["left-semi"])
    assert "lost_rows 430" in shown.run_line(one)


def test_a_run_that_failed_early_says_why_though_its_journal_is_broken(run_with, tmp_path):
    def fails_early(*_args, **_more):
        raise TestbedError("no disk is left")

    (tmp_path / "faults.jsonl").write_text("{")
    one = run_with(fails_early)

    assert one.problem.startswith("no disk is left\n  also: BrokenEvidence: ")
    assert one.failed


def test_a_run_that_could_not_be_counted_says_why(run_with):
    why = "the engine's own rules could not be judged: KeyError: 'u7'"
    one = run_with(judged(verdict="UNKNOWN", findings_total={}, unexplained_total={}, inconclusive=[why]))

    assert (one.verdict, one.failed, one.problem, one.rows) == ("UNKNOWN", True, "", 0)
    assert shown.run_line(one).endswith(f": {why}")


def test_the_driver_on_which_a_query_hung_is_started_again(run_with):
    done = []
    stack = SimpleNamespace(
        spec=StackSpec(),
        kill=lambda name: done.append(("kill", name)),
        start=lambda name: done.append(("start", name)),
    )
    why = "the query hung: no batch was committed from 1 until 2"
    hung = judged(verdict="UNKNOWN", findings_total={}, unexplained_total={}, inconclusive=[why])
    one = run_with(hung, stack)

    assert (one.verdict, one.failed) == ("UNKNOWN", True)
    assert done == [("kill", "driver"), ("start", "driver")]


def test_the_faults_that_may_miss_are_counted_by_the_schedules():
    """A pair that never overlaps leaves its faults in the journal, one by one, each time that it is tried."""
    tried = [fault("broker@planned") for _ in range(60)]
    missed = [fault("broker@planned", injected=False, recovery_s=None)] * 2
    soak = soak_of(ran(0, [*tried, *missed], schedule="broker@planned+driver@planned,driver@written*20"))

    assert soak.asked == 22
    assert soak.summary()["beside_the_schedule"] == 40
    assert soak.exit_code == EXIT_UNKNOWN
    assert (
        soak_of(ran(0, [fault()] * 18 + missed[:1], schedule="driver@written*19")).exit_code == EXIT_UNKNOWN
    )
    assert soak_of(ran(0, [fault()] * 19 + missed[:1], schedule="driver@written*20")).exit_code == 0
