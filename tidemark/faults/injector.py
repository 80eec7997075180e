"""Carries out planned strikes, one after the other, in a thread of its own while a trace is published.

Who publishes asks now and then whether the thread is well, and publishes only when it lies in wait: a batch that comes
while it still looks at the one before is lost to it. A strike that came too late for its batch lets that batch
go and takes the next. The next strike waits until the batch that was hit is committed. The journal says what was seen;
what could not be carried out before the run was over is in it as not done, with the batches in which it was tried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime

from tidemark.errors import DeadlineExceeded, SinkFailed, TidemarkError
from tidemark.faults.commit_points import Ends, Running
from tidemark.faults.component import strike_part
from tidemark.faults.driver import kill_again, runs_again, strike_driver
from tidemark.faults.executor import strike_executor, strike_executors
from tidemark.faults.schedule import Strike
from tidemark.faults.sink_progress import as_named
from tidemark.faults.target import Scene, now_utc
from tidemark.formats.evidence import Fault
from tidemark.waiting import wait_until

RECOVERY_S = 240.0
"""Calibration: a batch whose executor or driver was killed took up to 40 s on a busy machine; several times that."""

LAST_LINES = 20
"""Of the driver's log, in the error that nothing was committed."""

_STRIKE = {"driver": strike_driver, "executor": strike_executor, "executors": strike_executors}
"""What strikes a part; :func:`strike_part` all others."""


class Striker:
    """Strikes at one query."""

    def __init__(
        self,
        scene: Scene,
        strikes: Sequence[Strike],
        say: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self.journal: list[Fault] = []
        self._carried_out = 0
        self._tried: list[dict[str, float]] = []
        """Of the strike that is next: in which batch it was tried, and for how long."""
        self.error: Exception | None = None
        """What ended the thread before its work was done."""
        self._ends: dict[int, Ends] = {}
        """Batch -> where the output ended just before it was planned; of the latest batch and the next."""
        self._given_up = threading.Event()
        self._in_wait = threading.Event()
        self._scene = replace(scene, rest=self._rest)
        self._strikes = strikes
        self._say = say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="striker", daemon=True)

    def start(self) -> None:
        """Begin to lie in wait."""
        self._thread.start()

    def must_be_well(self) -> None:
        """Raise what ended the thread before its work was done: a part that did not come back, say."""
        if self.error is not None:
            raise self.error

    def lies_in_wait(self) -> bool:
        """Whether it waits for a batch, or for the end of an outage, which others do not wait for; or has ended."""
        return self._in_wait.is_set()

    def give_up(self) -> None:
        """The run ends here: what is paused or down for some seconds comes back at once."""
        self._given_up.set()
        self._over.set()

    def finish(self) -> list[Fault]:
        """Stop; returns the journal."""
        self._over.set()
        try:
            self._thread.join()
        finally:
            tried = {"tried": self._tried} if self._tried else {}
            for strike in self._strikes[self._carried_out :]:
                name, point = strike.sort.name, strike.sort.point
                self.journal.append(Fault(fault=name, at_utc=now_utc(), done=False, point=point, proof=tried))
                tried = {}
        return self.journal

    def _work(self) -> None:
        try:
            for strike in self._strikes:
                self._carry_out(strike)
                self._carried_out += 1
                self._tried = []
        except _Over:
            return
        except Exception as error:  # noqa: BLE001 (handed to the runner, which decides; a thread has nobody to raise to)
            self.error = error
        finally:
            self._in_wait.set()

    def _rest(self, seconds: float) -> None:
        self._in_wait.set()
        self._given_up.wait(seconds)
        self._in_wait.clear()

    def _carry_out(self, strike: Strike) -> None:
        not_before, is_done = strike.batch, False
        while not is_done:
            now = self._await_batch(not_before)
            by = _STRIKE.get(strike.sort.component, strike_part)
            struck: Fault | None = None
            # Brokers that are just back do not tell yet; they will, of a later batch.
            with self._noted(now.batch), suppress(SinkFailed):
                struck = by(self._scene, replace(strike, sort=strike.sort.once), now, unless=self._go_on)
            if struck is not None:
                is_done = self._journalled(struck, strike, now)
            not_before = now.batch + 1
            strike = strike.again()

    @contextmanager
    def _noted(self, batch: int) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._tried.append({"batch": batch, "seconds": round(time.monotonic() - begun, 2)})

    def _journalled(self, struck: Fault, strike: Strike, now: Running) -> bool:
        """Note a fault, and its recovery; whether it is the one that was asked for: it may lack its second half."""
        struck.proof["ends_before"] = as_named(now.ends or {})
        self.journal.append(struck)
        done = struck if struck.fault == strike.sort.name else self._twice(struck, strike.sort.name)
        self._say(f"{done.fault} at {done.point} of batch {now.batch}")

        def committed() -> bool:
            self._look()  # in a backlog the next batch is planned within milliseconds of the commit
            return now.batch in self._scene.checkpoint.committed()

        self._until(committed, f"batch {now.batch} to be committed after {done.fault}")
        # By the file, because an outage may outlast the batch: who was down was not needed for it.
        recovery = self._scene.checkpoint.committed_at(now.batch) - datetime.fromisoformat(done.at_utc)
        done.recovery_s = round(max(0.0, recovery.total_seconds()), 2)
        done.proof["ends_after"] = as_named(self._scene.output.ends())
        self._say(f"batch {now.batch} is committed, {done.recovery_s:.1f} s after {done.fault}")
        return done.fault == strike.sort.name

    def _twice(self, first: Fault, name: str) -> Fault:
        """Kill the next driver, too. In the journal is the first kill until the second makes both of them one fault."""
        again = lambda: runs_again(self._scene, first)  # noqa: E731
        self._until(again, f"the driver after {first.proof['app_id']} to run batch {first.batch} again")
        second: Fault | None = None
        with suppress(SinkFailed):
            second = kill_again(self._scene, first, name)
        if second is None:
            return first
        self.journal[-1] = second
        return second

    def _await_batch(self, not_before: int) -> Running:
        """The first batch from ``not_before`` on that runs, and where the output ended just before it was planned."""

        def running() -> int:
            """Its id plus one, so that it is truthy."""
            self._look()
            batch = self._scene.checkpoint.running()
            if batch is not None and batch >= not_before:
                return batch + 1
            self._in_wait.set()
            return 0

        found = self._until(running, "a running batch") - 1
        self._in_wait.clear()
        return Running(found, self._ends.get(found))

    def _look(self) -> None:
        """Note where the output ends, for the batch that is planned next.

        The ends are asked first: a batch that is not in the checkpoint afterwards had written nothing by then.
        """
        ends = self._scene.output.ends()
        planned = self._scene.checkpoint.planned()
        following = planned[-1] + 1 if planned else 0
        latest = {batch: seen for batch, seen in self._ends.items() if batch == following - 1}
        self._ends = {**latest, following: ends}

    def _go_on(self) -> None:
        if self._over.is_set():
            raise _Over

    def _until(self, condition: Callable[[], int | bool], what: str) -> int:
        def look() -> int:
            is_over = self._over.is_set()  # asked first: what was true when the run ended counts
            value = condition()
            if is_over and not value:
                raise _Over
            return value

        try:
            return wait_until(look, RECOVERY_S, lambda: what, poll_s=0.01)
        except DeadlineExceeded as error:
            error.hint = "logs/ in the run directory has what driver and executors said"
            with suppress(TidemarkError):
                error.detail = self._scene.stack.logs(self._scene.driver, LAST_LINES)
            raise


class _Over(Exception):
    """The run has ended; the remaining strikes are not carried out."""
