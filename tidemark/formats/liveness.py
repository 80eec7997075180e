"""What a run had to do in time, and that it hung: ``demands`` and ``hang`` of the manifest.

Free of I/O. :class:`Demands` is what was asked for, kept so that ``tidemark check`` judges it again from the evidence
alone; :class:`Hang` is there if the query committed nothing more, or did not start or stop. Both may be missing.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum

import msgspec

from tidemark.errors import UsageError

HUNG = "the query hung"
"""How the sentence of a hang begins."""
_AMOUNT = re.compile(r"([0-9]+)\s*(rows|batch|batches)?", re.ASCII)


class Demands(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """``recover_within_s``: the seconds from the injection of each fault to the commit of its batch.

    ``progress_batches`` (or ``progress_rows``): at least so many batches are committed (or input rows are in such
    batches) while each fault lasts that lasts: a pause, an outage, one of the network. ``watermark_stands_at_most_s``:
    no watermark of the query is in force for longer. ``state_rows_at_most``: no batch leaves more rows in the state of
    all operators together.
    """

    recover_within_s: float | None = None
    progress_batches: int | None = None
    progress_rows: int | None = None
    watermark_stands_at_most_s: float | None = None
    state_rows_at_most: int | None = None

    @property
    def are_any(self) -> bool:
        """Whether anything is demanded."""
        return self != Demands()

    def problem(self) -> str:
        """What is wrong with them."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            least = 1 if name.startswith("progress") else 0
            if not (math.isfinite(value) and value >= least):
                return f"the demand {name} is {value}"
        return ""


class HangPhase(StrEnum):
    """What the query had to do when it hung: start; commit batches; give its output; stop."""

    START = "start"
    RUN = "run"
    DRAIN = "drain"
    STOP = "stop"


_SAID = {
    HangPhase.START: "it did not start",
    HangPhase.RUN: "no batch was committed",
    HangPhase.DRAIN: "its output was not complete",
    HangPhase.STOP: "it did not stop",
}


class Hang(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The query committed nothing from ``since_utc`` until ``seen_utc``, when the run was given up.

    ``since_utc`` is the time of the last commit, or of the query's start. In another ``phase`` than ``run`` it is the
    time at which the query was asked to start or to stop, or from which on its output was read and did not end.
    ``committed`` is the batch that was committed last, ``planned`` one that was planned and not committed.
    ``waited_for`` says what the run waited for; ``stacks`` are files below the run directory with the thread stacks of
    driver and executors.
    """

    since_utc: str
    seen_utc: str
    waited_for: str
    committed: int | None = None
    planned: int | None = None
    stacks: list[str] = []
    phase: HangPhase = HangPhase.RUN

    @property
    def owes_batches(self) -> bool:
        """Whether a batch was still to come."""
        return self.phase in (HangPhase.START, HangPhase.RUN)

    def said(self) -> str:
        """All of it, in a sentence without a full stop."""
        after = "none was ever committed"
        if self.committed is not None:
            is_one = self.phase is HangPhase.RUN
            batch = f"batch {self.committed}"
            after = f"the last was {batch}" if is_one else f"{batch} is the last that was committed"
        planned = "" if self.planned is None else f"; batch {self.planned} was planned"
        kept = f"; thread stacks: {', '.join(self.stacks)}" if self.stacks else ""
        return (
            f"{HUNG}: {_SAID[self.phase]} from {self.since_utc} until {self.seen_utc}, when the run was"
            f" given up ({after}{planned}); it waited for {self.waited_for}{kept}"
        )


def read_progress(text: str) -> tuple[int | None, int | None]:
    """Batches and rows of ``3`` (batches), ``3 batches`` or ``500 rows``; one of them is ``None``.

    Raises ``UsageError`` for anything else.
    """
    if not text:
        return None, None
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise UsageError(
            f"{text!r} is no amount of progress",
            hint="a number of batches (1, 3) or of input rows (500rows), at least 1",
        )
    number = int(found[1])
    return (None, number) if found[2] == "rows" else (number, None)
