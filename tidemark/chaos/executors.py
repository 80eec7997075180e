"""Killing executors while batches run.

Free of chance: the seed decides before which batches to strike, how far into them, and whom. Each strike pauses first
(SIGSTOP loses nothing), looks whether the batch is still running, and only then kills; a batch that was over by then is
let go and the next one taken. The journal says what was seen.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.checkpoint import Checkpoint
from tidemark.errors import DeadlineExceeded
from tidemark.evidence import Fault
from tidemark.stack import Stack
from tidemark.wait import pause, wait_until

RECOVERY_S = 180.0
"""Calibration: a batch whose executor was killed took up to 26 s on a busy machine; several times that."""

LONGEST_DELAY_S = 0.4
"""Calibration: a warm batch takes about 1 s; a strike later than this would often find it over."""


@dataclass(frozen=True)
class Strike:
    """One planned kill: not before ``batch``, ``delay_s`` after that batch was planned."""

    batch: int
    delay_s: float


def plan_strikes(rng: random.Random, count: int, batches: int) -> list[Strike]:
    """``count`` strikes spread over about ``batches`` batches, the very first batch left in peace."""
    last = max(batches - 1, 1)
    wanted = sorted(rng.sample(range(1, last + 1), min(count, last)) + [last] * max(0, count - last))
    return [Strike(batch, rng.uniform(0.0, LONGEST_DELAY_S)) for batch in wanted]


class ExecutorKiller:
    """Carries out strikes in a thread of its own while a trace is published."""

    def __init__(
        self, stack: Stack, driver: str, checkpoint: Checkpoint, *, strikes: list[Strike], rng: random.Random
    ) -> None:
        self.journal: list[Fault] = []
        self._stack = stack
        self._driver = driver
        self._checkpoint = checkpoint
        self._strikes = strikes
        self._rng = rng
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="executor-killer", daemon=True)
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin to lie in wait."""
        self._thread.start()

    def finish(self) -> list[Fault]:
        """Stop; returns the journal, in which a strike that found no running batch is marked as not done."""
        self._over.set()
        self._thread.join()
        missed = len(self._strikes) - len(self.journal)
        self.journal += [Fault(fault="KillExecutor", at_utc=_now(), done=False) for _ in range(missed)]
        return self.journal

    @property
    def pending(self) -> int:
        """Strikes that were not carried out yet."""
        return len(self._strikes) - len(self.journal)

    def _work(self) -> None:
        try:
            for strike in self._strikes:
                self._carry_out(strike)
        except _Over:
            return
        except Exception as error:  # noqa: BLE001 (handed to the runner, which decides; a thread has nobody to raise to)
            self.error = error

    def _carry_out(self, strike: Strike) -> None:
        done = None
        while done is None:
            batch = self._until(lambda: self._running_from(strike.batch), RECOVERY_S, "a running batch")
            pause(strike.delay_s)
            done = self._strike(batch - 1)
        self.journal.append(done)
        struck_at = time.monotonic()
        committed = lambda: done.batch in self._checkpoint.committed()  # noqa: E731
        self._until(committed, RECOVERY_S, f"batch {done.batch} to be committed after a kill")
        done.recovery_s = round(time.monotonic() - struck_at, 2)

    def _running_from(self, batch: int) -> int:
        """The running batch's id plus one (so that it is truthy), if it is ``batch`` or later."""
        running = self._checkpoint.running()
        return running + 1 if running is not None and running >= batch else 0

    def _strike(self, batch: int) -> Fault | None:
        alive = self._stack.executors(self._driver)
        if not alive:
            return None
        victim = self._rng.choice(alive)
        self._stack.pause_executor(self._driver, victim.executor_id)
        if self._checkpoint.running() != batch:
            self._stack.resume_executor(self._driver, victim.executor_id)
            return None
        self._stack.kill_executor(self._driver, victim.executor_id)
        return Fault(
            fault="KillExecutor",
            at_utc=_now(),
            done=True,
            batch=batch,
            point=self._point(batch),
            proof={
                "executor_id": victim.executor_id,
                "worker": victim.worker,
                "pid": victim.pid,
                "planned": True,
                "committed": batch in self._checkpoint.committed(),
            },
        )

    def _point(self, batch: int) -> str:
        now = self._checkpoint.batch(batch).end_offsets
        before = self._checkpoint.batch(batch - 1).end_offsets if batch else {}
        return "no-data" if now == before else "planned"

    def _until(self, condition: Callable[[], int | bool], timeout_s: float, what: str) -> int:
        def look() -> int:
            value = condition()
            if not value and self._over.is_set():
                raise _Over
            return value

        try:
            return wait_until(look, timeout_s, lambda: what, poll_s=0.01)
        except DeadlineExceeded as error:
            error.hint = "the driver's log in the run directory says what it was doing"
            raise


class _Over(Exception):
    """The run has ended; the remaining strikes are not carried out."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
