"""The lines of the live view, made of what was seen of a run; and where there is none."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from tidemark.cli.live_view import Shown, frame, is_live, run_shown
from tidemark.runner.run_watch import FaultsSeen, InputSeen, RunSeen

IMPRESSIONS = InputSeen("impressions", 1_234, 2_000, 1_767_225_703_456)
CLICKS = InputSeen("clicks", 567, 900, 1_767_225_683_456, holds_back=True)
FAULTS = FaultsSeen(3, 1, 1, "batch 7 to be committed after kill driver")
SEEN = RunSeen(
    [IMPRESSIONS, CLICKS], batch=7, is_running=True, rows=83, committed=7, watermark_ms=1_767_225_663_456,
    out=812, starts=2, waits_for="the no-data batch after batch 6", faults=FAULTS,
)  # fmt: skip


def shown(seen=SEEN, **changes):
    """What is shown of a run that has published 4 of 12 slices, 102 s after its start."""
    view = Shown("soak", 0.0, 0.0)
    for what, done, total, now_s in [
        ("trace", 0, 1, 0), ("trace", 1, 1, 2), ("stack", 0, 1, 2), ("stack", 1, 1, 130), ("publish", 4, 12, 140),
    ]:  # fmt: skip
        view.report(what, done, total, now_s)
    view.seen, view.run_name, view.now_s = seen, "left_outer", 162.0
    for name, value in changes.items():
        setattr(view, name, value)
    return view


def drawn(view, width=80):
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    console.print(frame(view, width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_it_has_the_step_the_batch_the_faults_and_the_watermark_of_each_input():
    assert drawn(shown()) == [
        "soak: left_outer" + 60 * " " + "2:42",
        "done       trace 2 s, stack 2:08",
        "now        publishing the trace: slice 4 of 12",
        "waits for  the no-data batch after batch 6",
        "batch      7 running, 83 rows; the query was started 2 times",
        "faults     3 planned, 1 injected, 1 recovered",
        "           waiting for batch 7 to be committed after kill driver",
        "                  rows read  watermark (UTC)",
        "impressions  1,234 of 2,000  2026-01-01 00:01:43.456",
        "clicks           567 of 900  2026-01-01 00:01:23.456  holds back",
        "the query      812 rows out  2026-01-01 00:01:03.456",
    ]


def test_before_the_query_is_started_only_the_steps_are_shown():
    view = Shown("inner, seed 1", 0.0, 5.0)
    view.report("trace", 0, 1, 0.0)
    assert drawn(view) == [
        "inner, seed 1" + 63 * " " + "0:05",
        "now        making the trace",
    ]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_long_names_and_large_numbers_are_cut_at_the_width(width):
    name = "a-topic-with-a-name-that-is-longer-than-the-terminal-is-wide-" * 3
    one = InputSeen(name, 123_456_789, 987_654_321, 4_102_444_800_000, holds_back=True, waits=True)
    seen = RunSeen([one], batch=123_456, rows=1, waits_for=name, faults=FaultsSeen(9, waits_for=name))

    lines = drawn(shown(seen, title=name), width)

    assert max(map(len, lines)) <= width
    assert len(lines) == 10


def test_a_name_is_text_and_no_markup_or_control_code():
    lines = drawn(shown(RunSeen([InputSeen("[red]x\x1b[2J")], waits_for="\x07")))

    assert any("[red]x�[2J" in line for line in lines)
    assert not {"\x1b", "\x07"} & set("".join(lines))


def test_what_is_not_known_is_not_shown():
    lines = drawn(shown(RunSeen([InputSeen("orders", 5)])))

    assert lines[-3:] == [
        "           rows read  watermark (UTC)",
        "orders             5  -",
        "the query             -",
    ]
    assert "batch      none yet" in lines


def test_the_first_step_anew_is_another_run():
    view = shown()
    assert view.report("trace", 0, 1, 200.0)
    assert (view.seen, list(view.steps)) == (None, ["trace"])


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def shown_on(monkeypatch):
    """A function: standard error is such a stream from now on, which is given."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def stream_of(kind):
        monkeypatch.setattr(sys, "stderr", kind())
        return sys.stderr

    return stream_of


def test_it_is_drawn_on_a_terminal(shown_on):
    terminal = shown_on(Terminal)
    assert is_live(quiet=False)
    with run_shown("inner, seed 1", quiet=False) as (report, say, _watch):
        report("trace", 0, 1)
        say("kill driver at written of batch 7")

    text = terminal.getvalue()
    assert "kill driver at written of batch 7" in text
    assert "making the trace" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_after_an_error_the_cursor_is_shown_again(shown_on):
    terminal = shown_on(Terminal)
    with pytest.raises(KeyboardInterrupt), run_shown("inner", quiet=False):
        raise KeyboardInterrupt
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("name", "value", "quiet"),
    [("TERM", "dumb", False), ("NO_COLOR", "1", False), ("CI", "true", False), ("TERM", "xterm", True)],
)
def test_where_it_is_not_wanted_there_are_only_lines(shown_on, monkeypatch, name, value, quiet):
    terminal = shown_on(Terminal)
    monkeypatch.setenv(name, value)
    with run_shown("inner", quiet=quiet) as (report, say, _watch):
        report("trace", 0, 1)
        say("kill driver")

    assert not is_live(quiet=quiet)
    assert terminal.getvalue() == "kill driver\n"


def test_a_pipe_gets_no_escape_codes(shown_on):
    pipe = shown_on(io.StringIO)
    with run_shown("inner", quiet=False) as (report, say, _watch):
        report("trace", 0, 1)
        say("kill driver")

    assert pipe.getvalue() == "kill driver\n"
