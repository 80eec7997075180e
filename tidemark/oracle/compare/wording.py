"""How a finding names rows, times and watermarks: in one voice, readable without the code.

Free of any decision.
"""

from __future__ import annotations

from tidemark.formats.contract import Bound, Term
from tidemark.formats.events import write_time
from tidemark.oracle.findings import Finding
from tidemark.oracle.input.history import NO_BATCH, History, first_of, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS


class Wording:
    """Words for the rows of one run."""

    def __init__(self, history: History, prediction: Prediction) -> None:
        self._history = history
        self._prediction = prediction

    def place(self, row: int) -> str:
        """Where a row was written: ``topic/partition/offset``."""
        partition, offset = self._history.position(row)
        return f"{self._history.side(self._history.rows.side[row]).topic}/{partition}/{offset}"

    def row(self, row: int) -> str:
        """One input row, with where it was written, its key, its time and the batch that read it."""
        rows = self._history.rows
        key = ", ".join("NULL" if part is None else part for part in self._history.key_of(row))
        batch = rows.batch[row]
        read = f"read by batch {batch}" if batch != NO_BATCH else "read by no batch"
        name = rows.id[row] if rows.id[row] is not None else "without id"
        return f"{name} ({self.place(row)}, key {key}, {self.time(row)}, {read})"

    def time(self, row: int) -> str:
        """The event time of a row, and the end of its window where windows are joined."""
        rows = self._history.rows
        if rows.time_us[row] == NULL_TIME_US:
            return "no event time"
        if rows.event_us is rows.time_us:
            return write_time(rows.time_us[row])
        return f"{write_time(rows.event_us[row])} in the window to {write_time(rows.time_us[row])}"

    def output_row(self, identity: int) -> str:
        """An output row, by what it is made of."""
        right = right_of(identity)
        left = self.row(first_of(identity))
        if right is not None:
            return f"the row of {left} and {self.row(right)}"
        if self._history.contract.output.right_id is None:
            return f"the semi row of {left}"
        return f"the NULL row of {left}"

    def watermarks(self, batch: int) -> str:
        """The two watermarks of a batch."""
        known = self._prediction.watermarks_ms
        if not 0 <= batch < len(known):
            return f"batch {batch} (not comparable)"
        late, eviction = moment(self._prediction.late_ms(batch)), moment(known[batch])
        return f"batch {batch} (late watermark {late}, eviction watermark {eviction})"

    def bound(self) -> str:
        """The contract's time bound."""
        return bound_text(self._history.contract.bound)

    def finding(self, name: str, identity: int, message: str) -> Finding:
        """A finding about one output row."""
        rows = self._history.rows
        first, right = first_of(identity), right_of(identity)
        made_of = [first] if right is None else [first, right]
        output = self._history.contract.output
        ids: list[str | None] = [None, None]
        for part in made_of:
            ids[rows.side[part]] = rows.id[part]
        row = {output.left_id: ids[LEFT]}
        if output.right_id is not None:
            row[output.right_id] = ids[RIGHT]
        written = [self.place(part) for part in made_of]
        return Finding(property=name, message=message, row=row, written=written)


def moment(watermark_ms: int) -> str:
    """A watermark as a time; 0 is the one that every query starts with."""
    return write_time(watermark_ms * US_PER_MS) if watermark_ms else "none yet"


def bound_text(bound: Bound) -> str:
    """``-20.000 s <= left - right <= 0.000 s``."""
    if bound.equal:
        return "left = right"
    low = (
        ""
        if bound.lower_ms is None
        else f"{bound.lower_ms / 1000:.3f} s {'<' if bound.lower_strict else '<='} "
    )
    high = (
        ""
        if bound.upper_ms is None
        else f" {'<' if bound.upper_strict else '<='} {bound.upper_ms / 1000:.3f} s"
    )
    return f"{low}left - right{high}"


def term_text(term: Term) -> str:
    """``price < 8``."""
    return f"{term.left or term.value} {term.op} {term.right or term.value}"
