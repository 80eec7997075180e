"""How an error reads: what happened, why, what to do."""

from __future__ import annotations

from tidemark.errors import EXIT_TESTBED, EXIT_USAGE, BrokenTrace, PortTaken, TidemarkError


def test_an_error_is_message_detail_and_hint():
    error = PortTaken(
        "port 9092 is taken", detail="process 17 (java)\nlistens there", hint="name another port"
    )
    assert str(error) == (
        "port 9092 is taken\n  why:  process 17 (java)\n        listens there\n  hint: name another port"
    )


def test_notes_follow_the_error():
    error = TidemarkError("the broker died", hint="start it")
    error.add_note("TestbedError: no output\n  why:  no answer")
    assert str(error) == (
        "the broker died\n  hint: start it\n  also: TestbedError: no output\n          why:  no answer"
    )


def test_missing_detail_and_hint_are_left_out():
    assert str(TidemarkError("port 9092 is taken")) == "port 9092 is taken"


def test_an_error_knows_its_exit_code():
    assert BrokenTrace("line 3").exit_code == EXIT_USAGE
    assert PortTaken("port 9092").exit_code == EXIT_TESTBED
