"""A campaign: every outcome is kept as it comes, and an item whose outcome is known is not run again."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import msgspec
import pytest

from tidemark import paths
from tidemark.campaigns.campaign import Campaign, free_directory, journalled_folder, read_journal
from tidemark.errors import UsageError


class Square(msgspec.Struct):
    number: int
    wrong: bool = False


class Kept(msgspec.Struct):
    run_dir: str | None = None


def squares(journal=None, name="squares", **options):
    return Campaign(name, Square, lambda one: not one.wrong, journal=journal, **options)


def square(number):
    return Square(number**2)


def interrupted_at(last):
    def one(number):
        if number == last:
            raise KeyboardInterrupt
        return square(number)

    return one


def numbers(campaign):
    return [one.number for one in campaign.outcomes.values()]


def test_after_ctrl_c_the_outcomes_so_far_are_kept_and_the_others_follow(tmp_path):
    first = squares(tmp_path / "journal")
    first.run([1, 2, 3], interrupted_at(3))
    assert (numbers(first), first.exit_code) == ([1, 4], 130)

    ran = []
    second = squares(tmp_path / "journal", resume=True)
    second.run([1, 2, 3], lambda number: ran.append(number) or square(number))

    assert (ran, numbers(second), second.exit_code) == ([3], [1, 4, 9], 0)
    assert [outcome.number for _, outcome in read_journal(tmp_path / "journal", Square)] == [1, 4, 9]


def test_without_resume_a_campaign_begins_anew_and_keeps_the_journal_of_before(tmp_path):
    said = []
    squares(tmp_path / "journal").run([1, 2], square)
    again = squares(tmp_path / "journal")
    again.say = said.append
    assert [outcome.number for _, outcome in read_journal(tmp_path / "journal", Square)] == [1, 4]
    again.run([3, 4], square)

    assert [outcome.number for _, outcome in read_journal(tmp_path / "journal", Square)] == [9, 16]
    assert [outcome.number for _, outcome in read_journal(tmp_path / "journal.old", Square)] == [1, 4]
    journal = tmp_path / "journal"
    assert said == [f"{journal} has the outcomes of this campaign; those that it had are in {journal}.old"]


def wrong(number):
    return Square(number, wrong=number == 2)


def test_an_outcome_that_does_not_hold_is_a_failure_and_may_be_the_last():
    every, until = squares(), squares(keep_going=False)
    every.run([1, 2, 3], wrong)
    until.run([1, 2, 3], wrong)

    assert (numbers(every), numbers(until)) == ([1, 2, 3], [1, 2])
    assert (every.exit_code, until.exit_code) == (1, 1)
    assert every.failures == [Square(2, wrong=True)]


def test_a_failure_that_is_journalled_is_not_hidden_by_running_it_again(tmp_path):
    squares(tmp_path / "journal").run([1, 2], wrong)
    resumed = squares(tmp_path / "journal", resume=True)
    resumed.run([1, 2], square)
    assert resumed.failures == [Square(2, wrong=True)]

    squares(tmp_path / "journal", keep_failures=False).run([1, 2], wrong)
    repaired = squares(tmp_path / "journal", keep_failures=False, resume=True)
    repaired.run([1, 2], square)
    assert (numbers(repaired), list(repaired.earlier)) == ([1, 4], ["1"])


def other_code(monkeypatch, _journal):
    monkeypatch.setattr(paths, "code_sha256", lambda: "another")


def torn(_monkeypatch, journal):
    journal.write_bytes(journal.read_bytes()[:-5] + b"\n")


@pytest.mark.parametrize(
    ("harm", "name", "why"),
    [
        (other_code, "squares", "is of other code"),
        (torn, "squares", "cannot be read"),
        (lambda *_: None, "squares of 7", "is of other code, packages or arguments"),
    ],
)
def test_a_journal_to_which_nothing_can_be_added_is_refused_and_stays(harm, name, why, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    squares(journal).run([1], square)
    harm(monkeypatch, journal)
    before = journal.read_bytes()

    with pytest.raises(UsageError, match=why):
        squares(journal, name, resume=True)
    assert journal.read_bytes() == before


def test_there_is_nothing_to_resume_without_a_journal():
    with pytest.raises(UsageError, match="nothing to resume"):
        squares(resume=True)


def test_the_document_is_written_only_if_everything_was_run_and_holds(tmp_path):
    document = tmp_path / "SQUARES.md"
    for one in (wrong, interrupted_at(2)):
        done = squares()
        done.run([1, 2], one)
        assert done.finish(document, lambda: "text") in (1, 130)
        assert not document.exists()

    held, said = squares(), []
    held.say = said.append
    held.run([1, 2], square)
    assert held.finish(document, lambda: "text") == 0
    assert (document.read_text(), said) == ("text", [f"written: {document}"])


def test_a_log_has_a_line_for_each_failure_and_for_one_outcome_in_so_many():
    said, reported = [], []
    done = squares(
        what="squares", line=lambda one: str(one.number), every=3, say=said.append,
        report=lambda *words: reported.append(words),
    )  # fmt: skip
    done.run([1, 2, 3, 4], wrong)

    assert said == ["2 of 4 squares: 2", "3 of 4 squares: 3"]
    assert reported[-1] == ("squares", 4, 4)


class Workers:
    """Two threads, as warm workers are, without a driver."""

    def run(self, items, work):
        waiting = queue.SimpleQueue()
        for item in items:
            waiting.put(item)

        def one():
            while not waiting.empty():
                try:
                    work(waiting.get_nowait(), "driver")
                except queue.Empty:
                    return

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_workers_lose_no_outcome(tmp_path):
    done = squares(tmp_path / "journal")
    done.run(range(200), lambda number, _driver: square(number), Workers())

    assert sorted(numbers(done)) == [number**2 for number in range(200)]
    assert len(read_journal(tmp_path / "journal", Square)) == 200


def test_a_directory_is_free_if_nothing_is_in_it(tmp_path):
    (tmp_path / "run-1").mkdir()
    assert free_directory(tmp_path / "run-1") == tmp_path / "run-1"
    assert free_directory(tmp_path / "run-0") == tmp_path / "run-0"

    (tmp_path / "run-1" / "contract.json").write_text("{}")
    (tmp_path / "run-1-2").write_text("")
    assert free_directory(tmp_path / "run-1") == tmp_path / "run-1-3"


def test_the_folder_of_a_journal_is_that_of_the_latest_outcome_with_evidence(tmp_path):
    journal = tmp_path / "journal"
    assert journalled_folder(None, Kept) is journalled_folder(journal, Kept) is None

    kept = Campaign("kept", Kept, lambda _: True, journal=journal)
    for number, run_dir in enumerate(("/runs/a/1", "/runs/b/4.2.0/case", None)):
        kept.record(str(number), Kept(run_dir))

    assert journalled_folder(journal, Kept, depth=1) == Path("/runs/b")


def test_an_outcome_that_was_cut_off_is_run_again_and_the_others_stay(tmp_path):
    first = squares(tmp_path / "journal")
    first.run([1, 2], square)
    with (tmp_path / "journal").open("ab") as journal:
        journal.write(b'{"campaign":"squares","key":"3","outc')

    ran = []
    second = squares(tmp_path / "journal", resume=True)
    second.run([1, 2, 3], lambda number: ran.append(number) or square(number))

    assert (ran, numbers(second)) == ([3], [1, 4, 9])
    assert [outcome.number for _, outcome in read_journal(tmp_path / "journal", Square)] == [1, 4, 9]
