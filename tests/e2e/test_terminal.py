"""``tidemark run`` on a terminal: the live view, drawn by the real command in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tidemark.formats.evidence import RunDirectory

pytestmark = [pytest.mark.chaos, pytest.mark.long]

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 24, 80
WHOLE_S = 900.0
"""Calibration: a run with one killed driver takes 40 s on idle cores."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WATERMARK = r" +\d+ of \d+ +2026-01-01 00:0\d:\d\d\.\d{3}"


class Terminal:
    """A command in a terminal of 24 lines and 80 columns, and all that it has drawn."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tidemark", *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment | {"TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        self.raw = ""

    def read_until(self, pattern: str | None) -> None:
        """Read what is drawn until it has a pattern, or until the command has ended."""
        deadline = time.monotonic() + WHOLE_S
        while pattern is None or not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"waited for {pattern}; it drew:\n{self.text[-3000:]}"
            if not select.select([self._master], [], [], 1.0)[0]:
                continue
            drawn = b""
            with suppress(OSError):  # Linux says so once the other side is closed
                drawn = os.read(self._master, 1 << 16)
            if not drawn:
                assert pattern is None, f"it ended before it drew {pattern}:\n{self.text[-3000:]}"
                return
            self.raw += drawn.decode(errors="replace")

    @property
    def text(self) -> str:
        """What was drawn, without what moves the cursor and gives colours."""
        return _ESCAPE.sub("", self.raw)

    @property
    def shows_cursor(self) -> bool:
        """Whether the cursor is shown, after it was hidden."""
        return -1 < self.raw.rfind(HIDE_CURSOR) < self.raw.rfind(SHOW_CURSOR)


@pytest.fixture
def terminal(stack):
    """A function: runs the command on this stack; what still runs at the end is killed."""
    started = []

    def run(*arguments):
        started.append(Terminal(*map(str, arguments)))
        return started[-1]

    yield run
    for one in started:
        if one.child.poll() is None:
            one.child.kill()
            one.child.wait()


def test_it_draws_the_batch_the_watermarks_and_the_fault_and_shows_the_cursor_at_the_end(terminal, tmp_path):
    faults = ("--faults", "driver@written")
    shown = terminal("run", "left_outer", "--impressions", 300, *faults, "--run-dir", tmp_path / "run")
    shown.read_until(None)

    assert shown.child.wait(WHOLE_S) == 0, shown.text[-3000:]
    for pattern in (
        "impressions" + WATERMARK,
        "clicks" + WATERMARK,
        r"the query +\d+ rows out +2026-01-01",
        r"batch +\d+ running, \d+ rows",
        "waits for  the no-data batch after batch ",
        r"faults +1 planned, 0 injected, 0 recovered",
        r"faults +1 planned, 1 injected, 1 recovered",
        "the query was started 2 times",
    ):
        assert re.search(pattern, shown.text), pattern
    [fault] = RunDirectory(tmp_path / "run").faults()
    assert f"kill driver at written of batch {fault.batch}" in shown.text
    assert shown.shows_cursor
    view = _ESCAPE.sub("", shown.raw[: shown.raw.rindex(SHOW_CURSOR)])
    assert max(map(len, re.split(r"[\r\n]+", view))) <= COLUMNS


def test_ctrl_c_shows_the_cursor_and_loses_nothing(terminal, tmp_path):
    shown = terminal("run", "inner", "--impressions", 2000, "--seed", 3, "--run-dir", tmp_path / "run")
    shown.read_until(r"batch +[2-9] (running|committed)")
    shown.child.send_signal(signal.SIGINT)
    shown.read_until(None)

    assert shown.child.wait(WHOLE_S) == 130, shown.text[-3000:]
    assert "interrupted; the evidence so far is in" in " ".join(shown.text.split())
    assert shown.shows_cursor
    assert len(RunDirectory(tmp_path / "run").batches()) >= 2
