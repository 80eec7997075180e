"""Judges damaged evidence within limits of time and memory, and says what came of it."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import tidemark
from tidemark.errors import EXIT_USAGE, TidemarkError

LIMIT_S, WAIT_S = 10, 60
LIMIT_BYTES = 1 << 30
"""What a judgement may take, of a run of some 300 rows: processor time, time if it waits, resident memory besides that
of the process before."""


@dataclass(frozen=True)
class Outcome:
    """``kind``: a verdict, ``refused`` (exit code 2), ``crashed``, ``hung`` or ``too large``; ``said``: the reasons."""

    kind: str
    said: str = ""


class _Hung(BaseException):
    """The limit of time is over."""


def judged(path: Path) -> Outcome:
    """What ``tidemark check`` makes of a run directory."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise _Hung

    before, peak = signal.signal(signal.SIGALRM, over), _peak_bytes()
    signal.setitimer(signal.ITIMER_REAL, WAIT_S)
    begun_s = time.process_time()
    try:
        verdict = tidemark.check(path)
        if time.process_time() - begun_s > LIMIT_S:
            raise _Hung
        if _peak_bytes() - peak > LIMIT_BYTES:
            return Outcome("too large", f"{_peak_bytes() - peak >> 20:,} MB")
    except TidemarkError as error:
        if error.exit_code == EXIT_USAGE:
            return Outcome("refused", f"{error.message}: {error.detail}")
        return Outcome("crashed", f"exit code {error.exit_code}: {error}")
    except _Hung:
        return Outcome("hung", f"after {LIMIT_S} s, or {WAIT_S} s without work")
    except MemoryError:
        return Outcome("too large", f"more than {LIMIT_BYTES >> 20} MB")
    except Exception:  # noqa: BLE001 (a traceback is what is looked for)
        return Outcome("crashed", traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    reasons = [finding.message for finding in verdict.findings] + verdict.inconclusive
    return Outcome(verdict.verdict, "; ".join(reasons))


def _peak_bytes() -> int:
    """The most resident memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory() -> None:
    """End what asks for far more than a judgement may take; for a process that does nothing else.

    The limit is on addresses, of which a thread of DuckDB reserves more than it uses.
    """
    resource.setrlimit(resource.RLIMIT_AS, (16 * LIMIT_BYTES, 16 * LIMIT_BYTES))
