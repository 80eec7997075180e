"""What a run shows on a terminal while it goes on: a few lines that are drawn again where something has changed.

``frame`` makes the lines of what was seen, and knows no terminal. Lines that are said go on above them. In a pipe, with
``TERM=dumb`` or ``NO_COLOR``, and in a CI (``CI``) there is no view, only what is said (:func:`is_live`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from tidemark.runner.run_options import Report, Say, Watch
    from tidemark.runner.run_watch import InputSeen, RunSeen, RunWatch

LOOK_S = 0.5
"""How often the run is looked at; nothing is asked of the query for it."""

DOING = {
    "trace": "making the trace",
    "stack": "starting the stack",
    "driver": "starting a driver",
    "publish": "publishing the trace",
    "flush": "flushing with sentinels",
    "drain": "reading the output until no more comes",
    "state": "stopping the query, reading its state",
    "evidence": "collecting the evidence",
    "judge": "judging every row",
}
"""The steps of a run, in order, and what is done in each."""
_COUNTED = ("publish",)
"""Steps of which it is said how far they are."""
_LEAST_NAME, _MOST_NAME = 4, 20
"""Cells of the names of inputs."""


def is_live(*, quiet: bool) -> bool:
    """Whether standard error is a terminal on which lines may be drawn again, and nobody asked for less."""
    term, ci = os.environ.get("TERM", ""), os.environ.get("CI", "")
    wanted = not quiet and not os.environ.get("NO_COLOR") and ci.lower() in ("", "0", "false")
    return wanted and term not in ("", "dumb", "unknown") and sys.stderr.isatty()


@dataclass
class Step:
    """A step of a run: when it began (``time.monotonic``), and how long it took, once it is done."""

    begun_s: float
    done: int = 0
    total: int = 1
    took_s: float | None = None


@dataclass
class Shown:
    """All that is drawn; times are those of ``time.monotonic``."""

    title: str
    begun_s: float
    now_s: float
    steps: dict[str, Step] = field(default_factory=dict)
    run_name: str = ""
    seen: RunSeen | None = None

    def report(self, what: str, done: int, total: int, now_s: float) -> bool:
        """Take a report of progress; whether it is the first of another run, which begins with the first step."""
        is_new = what == next(iter(DOING)) and done == 0
        if is_new:
            self.steps, self.seen, self.run_name = {}, None, ""
        step = self.steps.setdefault(what, Step(now_s))
        step.done, step.total = done, total
        step.took_s = now_s - step.begun_s if done >= total else None
        return is_new


def frame(shown: Shown, width: int) -> RenderableType:
    """The lines of a view, none of them longer than ``width`` cells."""
    from rich.console import Group
    from rich.text import Text

    name = f"{shown.title}: {shown.run_name}" if shown.run_name else shown.title
    clock = _clock(shown.now_s - shown.begun_s)
    lines = [Text.assemble((_cut(name, width - len(clock) - 1), "bold"), " ", clock)]
    lines += [Text.assemble((f"{label:<11}", "dim"), _plain(text)) for label, text in _lines(shown)]
    lines += [] if shown.seen is None else _inputs(shown.seen, width)
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _lines(shown: Shown) -> Iterator[tuple[str, str]]:
    done = [(name, step.took_s) for name, step in shown.steps.items() if step.took_s is not None]
    now = [name for name, step in shown.steps.items() if step.took_s is None]
    if done:
        yield "done", ", ".join(f"{name} {_seconds(took_s)}" for name, took_s in done)
    if now:
        step = shown.steps[now[-1]]
        how_far = f": slice {step.done} of {step.total}" if now[-1] in _COUNTED else ""
        yield "now", DOING.get(now[-1], now[-1]) + how_far
    if (seen := shown.seen) is None:
        return
    if seen.waits_for:
        yield "waits for", seen.waits_for
    yield "batch", _batch(seen)
    if (faults := seen.faults) is not None:
        yield "faults", f"{faults.planned} planned, {faults.injected} injected, {faults.recovered} recovered"
        if faults.waits_for:
            yield "", f"waiting for {faults.waits_for}"


def _batch(seen: RunSeen) -> str:
    if seen.batch is None:
        return "none yet"
    what = f"{seen.rows:,} rows" if seen.rows else "no rows, the watermark has moved"
    state = "running" if seen.is_running else "committed"
    again = f"; the query was started {seen.starts} times" if seen.starts > 1 else ""
    return f"{seen.batch} {state}, {what}{again}"


def _inputs(seen: RunSeen, width: int) -> list[Text]:
    """A line for each input, one for the query, and one with what is in them; of names as much as there is room for."""
    from rich.cells import cell_len
    from rich.text import Text

    query = "" if seen.out is None else f"{seen.out:,} rows out"
    rows = [
        ("", "rows read", "watermark (UTC)", ""),
        *((one.name, _read(one), _time(one.watermark_ms), _holds(one)) for one in seen.inputs),
        ("the query", query, _time(seen.watermark_ms or None), ""),
    ]
    read, time_, held = (max(len(row[at]) for row in rows) for at in (1, 2, 3))
    room = max(width - read - time_ - held - 6, _LEAST_NAME)
    cells = min(max(cell_len(_plain(row[0])) for row in rows), room, _MOST_NAME)
    return [
        Text.assemble(
            (_cut(name, cells), "bold" if last else ""),
            f"  {rows_:>{read}}  {at:<{time_}}  ",
            (holds, "yellow"),
            style="" if name else "dim",
        )
        for last, (name, rows_, at, holds) in ((row is rows[-1], row) for row in rows)
    ]


def _read(one: InputSeen) -> str:
    return f"{one.read:,}" + ("" if one.published is None else f" of {one.published:,}")


def _holds(one: InputSeen) -> str:
    if one.waits:
        return "holds back, no row"
    return "holds back" if one.holds_back else ""


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)


def _cut(text: str, cells: int) -> str:
    """So wide, cut or filled with blanks."""
    from rich.cells import cell_len, set_cell_size

    plain = _plain(text)
    return set_cell_size(plain, cells) if cell_len(plain) <= cells else set_cell_size(plain, cells - 1) + "…"


def _time(ms: int | None) -> str:
    if ms is None:
        return "-"
    try:
        at = datetime.fromtimestamp(ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _seconds(seconds: float | None) -> str:
    return f"{seconds or 0:.0f} s" if seconds is None or seconds < 100 else _clock(seconds)


class _Drawn:
    """A view on a console: looked at by a thread of its own, and drawn only where it has changed."""

    def __init__(self, title: str, console: Console, names_runs: bool) -> None:
        from rich.live import Live

        begun_s = time.monotonic()
        self._shown = Shown(title, begun_s, begun_s)
        self._names_runs = names_runs
        self._watch: RunWatch | None = None
        self._lock = threading.Lock()
        self._live = Live(
            console=console, auto_refresh=False, vertical_overflow="crop", redirect_stdout=False
        )
        self._last: object = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live-view", daemon=True)

    def __enter__(self) -> _Drawn:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._over.set()
            self._thread.join()
            self._draw()
        finally:
            self._live.stop()
            self._live.console.show_cursor(True)  # also if Ctrl-C ended what shows it

    def report(self, what: str, done: int, total: int) -> None:
        with self._lock:
            if self._shown.report(what, done, total, time.monotonic()):
                self._watch = None

    def watch(self, watch: RunWatch) -> None:
        with self._lock:
            self._watch = watch
            if self._names_runs:
                self._shown.run_name = watch.name

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _follow(self) -> None:
        while not self._over.wait(LOOK_S):
            self._draw()

    def _draw(self) -> None:
        watch = self._watch
        seen = None if watch is None else watch.look()
        with self._lock:
            if self._watch is watch:
                self._shown.seen = seen
            self._shown.now_s = time.monotonic()
            drawn = frame(self._shown, self._live.console.width)
        lines = self._live.console.render_lines(drawn)
        if lines != self._last:
            self._last = lines
            self._live.update(drawn, refresh=True)


@contextmanager
def run_shown(title: str, *, quiet: bool, names_runs: bool = False) -> Iterator[tuple[Report, Say, Watch]]:
    """A live view on a terminal, nothing elsewhere; and what says something above it, always to standard error.

    ``names_runs``: the name of each run is beside the title, of many runs.
    """
    if not is_live(quiet=quiet):
        yield (lambda _what, _done, _total: None), partial(print, file=sys.stderr), (lambda _watch: None)
        return
    from rich.console import Console

    with _Drawn(title, Console(stderr=True), names_runs) as view:
        yield view.report, view.say, view.watch
