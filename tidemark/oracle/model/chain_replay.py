"""The model of a chain: Spark's rules, batch after batch, with the watermark that its input gives.

Free of I/O. One watermark for the whole query, from the latest event times of its sources (``WatermarkTracker``); from
it each step has its own, which is the least that its inputs hand on, and never below 0
(``PropagateWatermarkSimulator``). A batch evicts by the watermark it runs with, and drops what is late by the one of
the batch before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats import chain
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.input.rows import Row
from tidemark.oracle.model.operators import MACHINES, Choose, Rules, first_come
from tidemark.oracle.spark.outer_join_elimination import as_run
from tidemark.oracle.spark.time_ranges import US_PER_MS


class Model:
    """A running query."""

    def __init__(
        self, described: chain.Chain, rules: Rules | None = None, choose: Choose = first_come
    ) -> None:
        """``kept`` are the numbers of the sources that are read; a watermark behind another one never comes."""
        self.rules = rules or Rules()
        self._described = described
        plan = as_run(
            described, drops_sides=self.rules.drops_sides, waits_for_unread=self.rules.waits_for_unread
        )
        self.chain, self.kept = plan.chain, plan.sources
        self.silent = sum(source.watermark_delay_ms is not None for source in plan.unread)
        delays_ms = [source.watermark_delay_ms for source in (*self.chain.sources, *plan.unread)]
        self._tracker = WatermarkTracker(delays_ms, self.chain.policy)
        self._previous_ms: int | None = None
        steps = [step for step in self.chain.steps if not isinstance(step, chain.Source)]
        # A step that is written twice in a chain is two machines: they go by place, not by what they say.
        self.machines = [MACHINES[type(step)](step, self.rules, choose) for step in steps]

    @property
    def watermark_ms(self) -> int:
        """The watermark that the next batch runs with."""
        return self._tracker.watermark_ms

    def restart(self) -> None:
        """Spark keeps the watermark over a restart, but not the latest event time of each source."""
        self._tracker.restart()

    def batch(self, rows: Sequence[list[Row]]) -> list[Row]:
        """Run one batch: the rows of each source of the chain in, those that are written out."""
        rows = self.read_by(rows)
        late = self._inputs_ms(self._previous_ms) if self._previous_ms is not None else None
        eviction = self._inputs_ms(self.watermark_ms)
        machines, sources = iter(enumerate(self.machines)), iter(rows)

        def run(step: chain.Step) -> list[Row]:
            if isinstance(step, chain.Source):
                return next(sources)
            inputs = [run(one) for one in chain.inputs_of(step)]
            number, machine = next(machines)
            machine.late_rows = []
            return machine.process(inputs, late[number] if late else 0, eviction[number])

        out = run(self.chain.last)
        self._previous_ms = self.watermark_ms
        self._advance(rows)
        return out

    def flush(self, watermark_ms: int) -> list[Row]:
        """Run one batch without data, with a watermark that no input has given; the model is used up then."""
        self._tracker.watermark_ms = watermark_ms
        return self.batch([[] for _ in self._described.sources])

    def read_by(self, rows: Sequence[list[Row]]) -> list[list[Row]]:
        """The rows of the sources that are read, of those of all sources of the chain."""
        return [rows[number] for number in self.kept]

    def wants_another(self) -> bool:
        """Whether a batch without data follows if none arrives."""
        before, after = self._inputs_ms(self._previous_ms or 0), self._inputs_ms(self.watermark_ms)
        return any(
            machine.stateful and machine.wants_another(before[number], after[number])
            for number, machine in enumerate(self.machines)
        )

    def choices(self) -> list[list[list[Row]]]:
        """Of each machine that chooses the rows that it took, batch by batch."""
        return [machine.chosen for machine in self.machines if machine.chooses]

    def _advance(self, rows: Sequence[list[Row]]) -> None:
        for number, (source, mine) in enumerate(zip(self.chain.sources, rows, strict=True)):
            if source.watermark_delay_ms is not None and mine:
                self._tracker.observe(number, max(row.values[source.time] for row in mine) // US_PER_MS)
        self._tracker.advance()

    def _inputs_ms(self, watermark_ms: int) -> list[int]:
        """The watermark of each machine under one of the whole query."""
        found: list[int] = []
        machines = iter(self.machines)

        def visit(step: chain.Step) -> int | None:
            if isinstance(step, chain.Source):
                return watermark_ms if step.watermark_delay_ms is not None else None
            below = [visit(one) for one in chain.inputs_of(step)]
            known = [one for one in below if one is not None]
            machine = next(machines)
            found.append(max(0, min(known, default=0)))
            if not known:
                return None
            return machine.output_ms(min(known)) if machine.stateful else min(known)

        visit(self.chain.last)
        return found
