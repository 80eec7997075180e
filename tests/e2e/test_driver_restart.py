"""A driver that dies, of whatever, is started again, and its query goes on: on the real engine, judged."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import shown
from tests.e2e.sinks import Copy, connected
from tidemark.formats.evidence import RunDirectory


@pytest.mark.long  # one that is killed at a commit point is started again every day
def test_a_driver_that_somebody_kills_between_two_batches_is_started_again(own_stack, judged, tmp_path):
    """Nothing is run again; but Spark has forgotten the latest event times, and the judge must know."""
    killed: list[int] = []

    def kill_at_slice_two(what: str, done: int, _total: int) -> None:
        if (what, done) == ("publish", 2) and not killed:
            own_stack.kill("driver")
            killed.append(done)

    verdict = judged(own_stack, impressions=400, report=kill_at_slice_two)

    assert killed
    assert verdict.verdict == "VALID", shown(verdict)
    batches = RunDirectory(tmp_path / "run").batches()
    assert sum(batch.restarted for batch in batches) == 1
    assert {batch.runs for batch in batches} == {1}


@pytest.mark.long
def test_a_driver_that_dies_again_and_again_is_started_each_time(own_stack, judged, tmp_path):
    seen: set[int] = set()

    def kill_at_each_slice(what: str, done: int, total: int) -> None:
        if what == "publish" and done < min(total, 4) and done not in seen:
            seen.add(done)
            own_stack.kill("driver")

    verdict = judged(own_stack, impressions=400, report=kill_at_each_slice)

    assert len(seen) > 1
    assert verdict.verdict == "VALID", shown(verdict)
    assert sum(batch.restarted for batch in RunDirectory(tmp_path / "run").batches()) == len(seen)


@pytest.mark.long
def test_a_batch_that_is_run_again_puts_its_state_in_the_place_of_the_first(own_stack):
    """In memory there is the state of the second run; were the files those of the first, what follows would not fit."""
    with connected(own_stack, own_stack.driver()) as session:
        copy = Copy(own_stack, session)
        copy.feed(60)
        records = copy.source().dropDuplicates(["key"])
        copy.run(records)
        batch = copy.forget("commits")
        files = sorted((copy.checkpoint / "state").rglob(f"{batch + 1}.delta"))
        before = {path: path.stat().st_mtime_ns for path in files}
        copy.run(records)

    assert len(files) == 2
    assert not list((copy.checkpoint / "state").rglob("*.tmp"))
    assert all(path.stat().st_mtime_ns > made for path, made in before.items())
    assert not list((copy.checkpoint / "state").rglob("*.tmp"))
    assert copy.values() == copy.wanted()
