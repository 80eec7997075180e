"""Faults that overlap: injected in one batch, each while those before it are in effect, and proved to have been.

Those of one point are injected while the batch is kept there, one after the other; for a later point the batch goes on.
After the kill of a driver the next waits until another driver runs the batch again. Once the last is injected, all
victims are looked at: unless each is as its fault has left it, the faults did not overlap. Outages then go on until
each has had its time, and end, a link of the network not before something has met it. Each fault is in the journal as
soon as it was injected, first as a single one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.component import await_move, effects, victim_of
from tidemark.faults.driver import batch_is_rerun, look_at_driver, stop_driver
from tidemark.faults.executor import identity, kill_executor, pause_executors, stop_executor_at_point
from tidemark.faults.network import DisturbedLink, await_effects, disturbed_link
from tidemark.faults.overlaps import steps
from tidemark.faults.schedule import FaultSpec, PlannedFault
from tidemark.faults.sink_progress import Proof, by_partition
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import (
    EXECUTOR_STOPPED,
    NETWORK_ACTIONS,
    CommitPoint,
    Fault,
    FaultAction,
    FaultComponent,
)
from tidemark.stack import ComponentState, Executor

_STATES = {FaultAction.KILL: ComponentState.STOPPED, FaultAction.PAUSE: ComponentState.PAUSED}


class JointHooks(NamedTuple):
    """What the injector lends: its journal, ``unless`` (raises once the run is over), and its way to wait."""

    journal: list[Fault]
    unless: Unless
    until: Callable[[Callable[[], bool], str], object]


@dataclass
class _Effect:
    """A fault that is in effect; ``seen`` says how its victim looks, nothing if it is not in effect."""

    spec: FaultSpec
    line: Fault
    seen: Callable[[], str]
    end: Callable[[], object] = lambda: None
    link: DisturbedLink | None = None
    is_outage: bool = True
    has_ended: bool = False
    began_s: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """End an outage, once, and note when; of a kill the end is the commit of its batch."""
        if self.has_ended:
            return
        if self.is_outage:
            self.line.ended_at_utc = self.line.proof["in_effect"]["to_utc"] = now_utc()
        self.end()
        self.has_ended = True


@dataclass
class _AtPoint:
    """A batch that is kept at its point. ``stopped`` is the executor without which it is half written."""

    proof: Proof
    stopped: Executor | None = None
    keeps_stopped: bool = False
    is_driver_gone: bool = False


class JointInjection:
    """One try to inject faults that overlap into a batch."""

    def __init__(
        self, target: FaultTarget, fault: PlannedFault, now: RunningBatch, hooks: JointHooks
    ) -> None:
        self._target = target
        self._fault = fault
        self._now = now
        self._hooks = hooks
        self._first_line = len(hooks.journal)
        self._effects: list[_Effect] = []
        self._overlap = False
        """Whether all of them were seen in effect at one instant."""
        self._killed: set[Executor] = set()
        self._hit: set[Executor] = set()
        """Executors that a fault has been injected into."""

    @property
    def lines(self) -> list[Fault]:
        """What was injected, in the journal."""
        return [effect.line for effect in self._effects]

    def inject(self) -> bool:
        """Inject all of them; whether they were in effect at the same instant. What has begun is ended in any case."""
        parts = self._fault.spec.parts
        is_complete = False
        try:
            with ExitStack() as outages:
                if all(
                    self._inject_step([parts[number] for number in step], outages)
                    for step in steps(self._fault.spec.as_parts)
                ):
                    self._hold()
                    is_complete = self._overlap
        finally:
            is_complete = self._ended(is_complete=is_complete)
        return is_complete

    def _inject_step(self, specs: list[FaultSpec], outages: ExitStack) -> bool:
        """Inject those of one point, if the batch comes there."""
        last = self._effects[-1].spec if self._effects else None
        is_rerun = any(effect.spec.part.kills_driver for effect in self._effects)
        if last is not None and last.part.kills_driver:
            self._await_rerun(self._effects[-1].line)
        delay_s = 0.0 if self._effects else self._fault.delay_s
        first = replace(self._fault, spec=specs[0], delay_s=delay_s)
        with self._at_point(first, any(spec.part.kills_driver for spec in specs), is_rerun=is_rerun) as at:
            if at is None:
                return False
            is_injected = all(self._begin(spec, at, outages) for spec in specs)
            if is_injected and len(self._effects) == len(self._fault.spec.parts):
                self._overlap = self._see_overlap()  # before the batch goes on, and is committed
            return is_injected

    def _await_rerun(self, kill: Fault) -> None:
        """Wait until the next driver runs the batch again; where the output ended just before is noted."""
        ends = self._target.progress.ends()

        def is_rerun() -> bool:
            nonlocal ends
            latest = self._target.progress.ends()
            if batch_is_rerun(self._target, kill):
                return True
            ends = latest
            return False

        what = f"the driver after {kill.proof['app_id']} to run batch {self._now.batch} again"
        self._hooks.until(is_rerun, what)
        self._now = RunningBatch(self._now.batch, ends)

    @contextmanager
    def _at_point(
        self, fault: PlannedFault, kills_driver: bool, *, is_rerun: bool
    ) -> Iterator[_AtPoint | None]:
        """The batch kept at the point of a fault for the length of the block; ``None`` if it is not there."""
        target, now, unless = self._target, self._now, self._hooks.unless
        point = fault.spec.point
        if point in EXECUTOR_STOPPED:
            with self._executor_stopped(fault) as at:
                yield at
        elif kills_driver or point is CommitPoint.WRITTEN:
            proof = None
            if is_rerun and point is CommitPoint.WRITTEN:  # what the run before has written is there already
                proof = look_at_driver(target, lambda: commit_points.written(target, now.batch))
            at = _at(proof or stop_driver(target, point, now, unless=unless))
            try:
                yield at
            finally:
                if at is not None and not at.is_driver_gone:
                    target.stack.resume(target.driver)
        else:
            with commit_points.driver_suspended(target, fault, now.batch, unless, is_rerun=is_rerun) as proof:
                yield _at(proof)

    @contextmanager
    def _executor_stopped(self, fault: PlannedFault) -> Iterator[_AtPoint | None]:
        target = self._target
        stopped = stop_executor_at_point(target, fault, self._now, unless=self._hooks.unless)
        if stopped is None:
            yield None
            return
        at = None
        try:
            with target.stack.suspended(target.driver):
                # It may have gone on until the driver was stopped.
                proof = stopped.look()
                app_id = target.stack.driver(target.driver).app_id
                at = None if proof is None else _AtPoint({"app_id": app_id, **proof}, stopped.executor)
                yield at
        finally:
            if at is None or not at.keeps_stopped:
                stopped.resume()

    def _begin(self, spec: FaultSpec, at: _AtPoint, outages: ExitStack) -> bool:
        """Inject one; whether it had a victim."""
        if spec.action in NETWORK_ACTIONS:
            link = disturbed_link(self._target, self._fault.of_part(spec), self._now.batch, at.proof)
            if link is None:
                return False
            effect = self._disturb(spec, at, link)
        elif spec.component is FaultComponent.DRIVER:
            effect = self._driver(spec, at)
        elif spec.component in (FaultComponent.EXECUTOR, FaultComponent.EXECUTORS):
            found = self._executors(spec, at)
            if found is None:
                return False
            effect = found
        else:
            effect = self._component(spec, at)
        outages.callback(effect.close)
        effect.line.proof["in_effect"] = {"from_utc": now_utc()}
        self._effects.append(effect)
        self._hooks.journal.append(effect.line)
        return True

    def _line(self, spec: FaultSpec, victim: Proof, at: _AtPoint) -> Fault:
        """Its line; as of any fault with what was seen in the instant before."""
        line = self._target.injected(self._fault.of_part(spec), self._now.batch, {**victim, **at.proof})
        line.proof["ends_before"] = by_partition(self._now.ends or {})
        return line

    def _disturb(self, spec: FaultSpec, at: _AtPoint, link: DisturbedLink) -> _Effect:
        line = self._line(spec, link.victim, at)
        link.disturb()
        return _Effect(spec, line, link.seen, link.heal, link)

    def _driver(self, spec: FaultSpec, at: _AtPoint) -> _Effect:
        stack, name = self._target.stack, self._target.driver
        pid = self._state(name)[1]
        victim: Proof = {} if at.stopped is None else {"executor_id": at.stopped.executor_id}
        line = self._line(spec, victim, at)
        if spec.action is FaultAction.PAUSE:
            stack.pause(name)
            return _Effect(
                spec, line, partial(self._seen, name, ComponentState.PAUSED), partial(stack.resume, name)
            )
        if at.stopped is not None and not at.keeps_stopped:  # left alone it would still write its partitions
            kill_executor(self._target, at.stopped, spec.point)
        stack.kill(name)
        at.is_driver_gone = True
        return _Effect(spec, line, partial(self._driver_is_gone, pid), is_outage=False)

    def _component(self, spec: FaultSpec, at: _AtPoint) -> _Effect:
        stack = self._target.stack
        victim = victim_of(self._target, self._fault.of_part(spec), self._now.batch, at.proof)
        name, line = victim["component_name"], self._line(spec, victim, at)
        begin, end = effects(stack, spec.action)
        begin(name)
        return _Effect(spec, line, partial(self._seen, name, _STATES[spec.action]), partial(end, name))

    def _victims(self, spec: FaultSpec, at: _AtPoint) -> list[Executor]:
        """All executors; or the one without which the batch is half written, or one of those that nothing has hit."""
        alive = [one for one in self._target.stack.executors(self._target.driver) if one not in self._killed]
        if spec.component is FaultComponent.EXECUTORS or not alive:
            return alive
        if at.stopped is not None and at.stopped not in self._hit:
            return [at.stopped]
        return [self._fault.choose([one for one in alive if one not in self._hit] or alive)]

    def _executors(self, spec: FaultSpec, at: _AtPoint) -> _Effect | None:
        """Kill or pause executors; ``None`` if there are none, or one has just ended."""
        victims = self._victims(spec, at)
        if not victims:
            return None
        line = self._line(spec, identity(spec.component, victims), at)
        self._hit |= set(victims)
        if spec.action is FaultAction.KILL:
            for victim in victims:
                kill_executor(self._target, victim, spec.point)
            self._killed |= set(victims)
            return _Effect(spec, line, partial(self._executors_are_gone, victims), is_outage=False)
        if not pause_executors(self._target, [victim for victim in victims if victim != at.stopped]):
            return None
        at.keeps_stopped |= at.stopped in victims

        def end() -> None:
            for victim in victims:
                if victim not in self._killed:
                    self._target.stack.resume_executor(self._target.driver, victim)

        return _Effect(spec, line, partial(self._executor_is_paused, victims), end)

    def _state(self, name: str) -> tuple[ComponentState, int | None]:
        """State and process id of a component."""
        found = next((one for one in self._target.stack.status() if one.name == name), None)
        return (ComponentState.STOPPED, None) if found is None else (found.state, found.pid)

    def _seen(self, name: str, wanted: ComponentState) -> str:
        return str(wanted) if self._state(name)[0] is wanted else ""

    def _driver_is_gone(self, pid: int | None) -> str:
        """Whether that process is gone, and the batch not committed: recovered."""
        state, now_pid = self._state(self._target.driver)
        is_gone = state is ComponentState.STOPPED or now_pid != pid
        return "gone" if is_gone and self._is_uncommitted() else ""

    def _executors_are_gone(self, victims: list[Executor]) -> str:
        states = {self._target.stack.executor_state(victim) for victim in victims}
        return "gone" if states == {ComponentState.STOPPED} and self._is_uncommitted() else ""

    def _executor_is_paused(self, victims: list[Executor]) -> str:
        """Whether one of them is: others may have been killed since."""
        states = {self._target.stack.executor_state(victim) for victim in victims}
        return "paused" if ComponentState.PAUSED in states else ""

    def _is_uncommitted(self) -> bool:
        return self._now.batch not in self._target.checkpoint.committed()

    def _see_overlap(self) -> bool:
        """Look at all victims; whether each is as its fault has left it."""
        from_utc = now_utc()
        states = [effect.seen() for effect in self._effects]
        overlap = {"from_utc": from_utc, "seen": {"at_utc": now_utc(), "states": states}}
        for effect in self._effects:
            effect.line.proof["overlap"] = dict(overlap)
        return all(states)

    def _hold(self) -> None:
        """Wait until each outage has had its time, that of a broker in a role at least until another has the role; a
        link is disturbed until something has met that.

        What has had its time ends meanwhile: a driver that is paused, or an executor that is cut off, may keep
        everything from the link of a broker.
        """
        for effect in self._effects:
            await_move(self._target, effect.line, self._now.batch, self._hooks.unless)
        left_s = [
            effect.began_s + effect.spec.duration_s - time.monotonic()
            for effect in self._effects
            if effect.is_outage
        ]
        self._target.rest(max([0.0, *left_s]))
        of_links = {effect.link: effect for effect in self._effects if effect.link is not None}
        last_first = [
            effect for effect in reversed(self._effects) if effect.link is None and effect.is_outage
        ]
        # A master that is started again asks the drivers, and removes the application of one that does not answer.
        for effect in sorted(last_first, key=lambda one: one.spec.action is not FaultAction.PAUSE):
            effect.close()
        await_effects([*of_links], lambda link: of_links[link].close(), self._hooks.unless)

    def _ended(self, *, is_complete: bool) -> bool:
        """Put into the journal what was seen of links; a disturbance that nothing met was none."""
        for effect in self._effects:
            if effect.link is not None:
                effect.line.proof |= {**effect.link.proof(), "healed_at_utc": effect.line.ended_at_utc}
        met = [effect for effect in self._effects if effect.link is None or effect.link.has_effect]
        is_complete = is_complete and met == self._effects
        self._effects = met
        for line in self.lines:
            line.together = str(self._fault.spec.once) if is_complete else None
        self._hooks.journal[self._first_line :] = self.lines
        return is_complete


def note_end(lines: list[Fault], committed_utc: str) -> None:
    """Note until when each of these faults was in effect, a kill until the commit of its batch, and all of them."""
    for line in lines:
        line.proof["in_effect"].setdefault("to_utc", committed_utc)
    ends = min(line.proof["in_effect"]["to_utc"] for line in lines)
    for line in lines:
        if line.together is None:
            line.proof.pop("overlap", None)
        else:
            line.proof["overlap"]["to_utc"] = max(ends, line.proof["overlap"]["from_utc"])


def _at(proof: Proof | None) -> _AtPoint | None:
    return None if proof is None else _AtPoint(proof)
