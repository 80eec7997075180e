"""What the state before a trimmed log decides: rows that the log leaves undetermined, and rows that it proves wrong.

As in ``test_audit_judgement``, the delays are 0 s and a click matches up to 5 s after its impression. Batch 2 is the
first that can be judged, the state is that after batch 1, whose watermark is 10 s.
"""

from __future__ import annotations

import random

import pytest

from tests.golden.judging import EVIDENCE
from tests.unit.oracle.audits import AuditOf
from tests.unit.oracle.histories import Run
from tests.unit.oracle.test_any_contract import drawn
from tests.unit.oracle.test_audit_of_drawn_cases import LEVELS, WithOutput
from tests.unit.oracle.test_audit_of_recorded_runs import SOUND
from tidemark.formats.evidence import RunDirectory, StateRow
from tidemark.formats.manifest import Manifest
from tidemark.oracle.input.history import empty_history

CASES_PER_SEED = 3


def kept(side: str, key: str, seconds: float, matched: bool | None = False, **place: object) -> StateRow:
    """A row of the state after batch 1."""
    time_us = round(seconds * 1_000_000)
    return StateRow(batch=1, side=side, key=(key,), time_us=time_us, matched=matched, **place)  # type: ignore[arg-type]


def trimmed(*, later: str = "c2 a 12, c3 b 12", out: str = "i1 c2, i2 c3") -> Run:
    """i1 may have been late, i2 was not; c1 is at the watermark."""
    run = Run("left_outer").batch("i1 a 8, i2 b 11", "c1 x 10")
    run.batch("", "", watermark=10)
    run.batch("i3 c 20", later, out=out)
    run.batch(watermark=12)
    return run.batch("i5 y 40", "c4 y 40", out="i5 c4").batch(out="i3 -")


I1, C1 = kept("left", "a", 8), kept("right", "x", 10)


def test_a_row_that_is_in_the_state_was_accepted_and_what_it_owes_is_judged():
    verdict = AuditOf(trimmed(), "rows", first=2, state=[I1, C1]).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})
    assert verdict.counts["undetermined"] == verdict.counts["undetermined_absent"] == 0
    assert (
        "the state after batch 1 was read: of the rows that were read before batch 2, it shows 2 to have been accepted"
        " and 0 to have been late"
    ) in verdict.audit.notes
    lost = AuditOf(trimmed(out="i2 c3"), "rows", first=2, state=[I1, C1]).findings()
    assert lost == {"lost_rows": 1}


def test_a_row_that_is_not_in_the_state_and_would_be_was_late_and_joins_nothing():
    audit = AuditOf(trimmed(), "rows", first=2, state=[C1]).audit()

    verdict = audit.verdict
    assert verdict.findings_total == {"late_rows_joined": 1}
    assert "was late, as the state after batch 1 shows" in verdict.findings[0].message
    assert verdict.counts["late"] == 1
    [late] = audit.tables["late"]
    assert (late.row, late.watermark, late.why) == (
        {"iid": "i1"},
        None,
        "as the state after batch 1 shows",
    )
    assert AuditOf(trimmed(out="i2 c3"), "rows", first=2, state=[C1]).findings() == {}


def test_the_flag_of_a_row_in_the_state_decides_its_null_row_whichever_partner_was_late():
    """c9 had been evicted by the end of batch 1, so the state does not say whether it was late."""
    run = Run("left_outer").batch("i1 a 8", "c9 a 8, c1 x 10").batch(watermark=10)
    run.batch("i3 c 20", "c3 c 20", out="i3 c3").batch(watermark=20)
    without, with_null = run, run.batch(watermark=20, out="")
    for flag, found in ((True, {}), (False, {"missing_nulls": 1})):
        state = [kept("left", "a", 8, flag), C1]
        assert AuditOf(without, "rows", first=2, state=state).findings() == found
    with_null = with_null.out(3, "i1 -")
    for flag, found in ((True, {"nulls_for_matched_rows": 1}), (False, {})):
        state = [kept("left", "a", 8, flag), C1]
        assert AuditOf(with_null, "rows", first=2, state=state).findings() == found
    assert AuditOf(with_null, "rows", first=2).verdict().counts["undetermined"] == 1


def test_a_left_semi_row_that_is_in_the_state_and_marked_came_before_and_is_not_owed():
    """Before Spark 4.2 it stays there until it is evicted."""
    run = Run("left_semi").batch("i1 a 8", "c1 a 9", out="i1").batch(watermark=10)
    run.batch("i3 c 20", "c2 a 12, c3 c 20", out="i3").batch(watermark=20)

    for flag, found in ((True, {}), (False, {"misplaced_rows": 1})):
        audit = AuditOf(run, "batches", first=2, state=[kept("left", "a", 8, flag)])
        assert audit.findings() == found


def test_what_only_an_earlier_batch_can_have_given_is_counted_and_not_judged():
    run = Run("left_outer").batch("i0 q 2, i1 a 8", "c0 q 3, c1 x 10", out="i0 c0").batch(watermark=10)
    run.batch("i3 c 20", "c3 c 20", out="i3 c3").batch(watermark=20).batch(out="i1 -")

    for state in (None, [I1, C1]):
        verdict = AuditOf(run, "rows", first=2, state=state).verdict()
        assert verdict.findings_total == {}
        assert (verdict.counts["earlier_rows"], verdict.counts["earlier_rows_absent"]) == (1, 1)
        assert any(
            note.startswith("2 rows are of batches before 2, if they are right at all: 1 came")
            for note in verdict.audit.notes
        )
    assert verdict.counts["undetermined"] == verdict.counts["undetermined_absent"] == 0


def test_rows_that_look_alike_of_which_only_some_are_in_the_state_stay_undetermined():
    run = Run("left_outer").batch("i1 a 8, i9 a 8", "c1 x 10").batch(watermark=10)
    run.batch("i3 c 20", "c2 a 12", out="i1 c2").batch(watermark=12).batch("i5 y 40", "c4 y 40", out="i5 c4")

    verdict = AuditOf(run.batch(out="i3 -"), "rows", first=2, state=[I1, C1]).verdict()

    assert verdict.findings_total == {}
    assert verdict.counts["undetermined"] == 1
    assert any(note.startswith("2 of them look alike in the state") for note in verdict.audit.notes)
    both = [kept("left", "a", 8, ref=(0, 0)), kept("right", "x", 10, ref=(0, 0))]
    assert (
        AuditOf(run, "rows", first=2, state=both).verdict().counts["undetermined"] == 0
    )  # refs tell them apart


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ([I1, C1, kept("left", "z", 9)], "1 of its rows are of no record"),
        ([kept("left", "a", 7), C1], "1 of its rows are of no record"),
    ],
)
def test_a_state_that_does_not_fit_the_records_is_not_used_and_said_to_be_so(state, said):
    verdict = AuditOf(trimmed(), "rows", first=2, state=state).verdict()

    assert (verdict.findings_total, verdict.counts["undetermined"]) == ({}, 1)
    assert f"the state after batch 1 was read and not used: {said}" in verdict.audit.notes


class WithoutLeftWatermark(AuditOf):
    """Of a query whose left rows are never late."""

    @property
    def manifest(self) -> Manifest:
        manifest = super().manifest
        manifest.contract["left"]["watermark_delay_ms"] = None
        return manifest


def test_a_state_without_a_row_that_was_certainly_accepted_is_not_used():
    run = Run("right_outer").batch("i1 a 8", "c1 x 10").batch(watermark=10)
    run.batch("i2 y 40", "c2 y 40", out="i2 c2").batch(out="- c1")

    notes = WithoutLeftWatermark(run, "rows", first=2, state=[C1]).verdict().audit.notes

    assert any("1 rows that were certainly accepted are not in it" in note for note in notes)


def test_rows_of_the_state_that_are_of_deleted_records_are_no_contradiction():
    run = trimmed()
    verdict = AuditOf(run, "rows", first=2, state=[I1, C1], deleted={"clicks": 1}).verdict()

    assert not any("not used" in note for note in verdict.audit.notes)
    assert verdict.findings_total == {}


@pytest.mark.parametrize("name", SOUND)
def test_with_the_state_of_a_recorded_run_nothing_is_undetermined_and_nothing_wrong(name):
    run = RunDirectory(EVIDENCE / name)
    state = list(run.state() or ())
    last = max(batch.batch for batch in run.batches())
    tried = 0
    for before in sorted({row.batch for row in state}):
        if before >= last:
            continue
        watermark_us = next(one.watermark_ms for one in run.batches() if one.batch == before) * 1000
        rows = [row for row in state if row.batch == before and (row.time_us or 0) <= watermark_us]
        for level in LEVELS:
            verdict = AuditOf(run, level, first=before + 1, state=rows).verdict()
            assert verdict.findings_total == {}, (before, level, verdict.findings[0])
            assert not any("not used" in note for note in verdict.audit.notes), (before, verdict.audit.notes)
            open_rows = verdict.counts["undetermined"] + verdict.counts["undetermined_absent"]
            assert open_rows == 0, (before, level)
            tried += 1
    assert tried > 0


@pytest.mark.parametrize("first", range(0, 10_000, 1_000))
def test_with_the_state_that_sparks_rules_keep_no_row_is_a_finding_and_few_are_undetermined(
    first: int,
) -> None:
    for seed in range(first, first + CASES_PER_SEED):
        run, rng = WithOutput(drawn(seed)), random.Random(seed)
        before = rng.randrange(len(run.batches()) - 1)
        level = rng.choice(LEVELS)

        with_state = AuditOf(run, level, first=before + 1, state=state_of(run, before)).verdict()
        alone = AuditOf(run, level, first=before + 1).verdict()

        where = (seed, level, before)
        assert with_state.unexplained_total == {}, (where, with_state.findings)
        assert not any("not used" in note for note in with_state.audit.notes), (where, with_state.audit.notes)
        open_rows, were_open = (
            verdict.counts["undetermined"] + verdict.counts["undetermined_absent"]
            for verdict in (with_state, alone)
        )
        look_alike = any("look alike" in note for note in with_state.audit.notes)
        # A condition that Spark takes for a bound evicts rows that could still join: whether they were late stays open.
        is_early = any(empty_history(run.manifest).pushdown.limits_ms)
        assert open_rows <= (were_open if look_alike or is_early else 0), where


def state_of(run: WithOutput, before: int) -> list[StateRow]:
    """The state after a batch, up to the watermark of that batch."""
    contract, plan = run.manifest.contract, run.batches()[before]
    names = {"L": "left", "R": "right"}
    return [
        StateRow(
            batch=before,
            side=names[side],  # type: ignore[arg-type]
            key=tuple(None if part is None else str(part) for part in key),
            time_us=stamp,
            ref=(0, number) if contract["output"].get(f"{names[side]}_ref") else None,
            matched=matched,
        )
        for side, rows in run.literal.states[before].items()
        for number, stamp, key, matched in rows
        if stamp <= plan.watermark_ms * 1000
    ]
