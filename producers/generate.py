"""The generator of impressions and clicks: from settings to a trace. The same settings give the same bytes.

Its only I/O is writing the file, and temporary files of what does not fit into memory (``producers.spool``). Each stage
has its own random stream, so changing one setting leaves the other stages as they are: with another lateness, the same
users click on the same ads. Drafts pass through the stages some thousands at a time, in the order of their indexes
(impressions by event time, then clicks), are sorted by arrival, and become lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

import msgspec

from producers.arrival import Arrivals
from producers.draft import UNREADABLE, Draft, Flaw
from producers.edges import EdgeMaker
from producers.entities import Entities
from producers.flaws import SentAgain, Spoil, changed_again, moved_again, same_again
from producers.key_skew import MILD
from producers.lateness import MakeLate, Stretch, parse_lateness
from producers.log_layout import LogLayout, is_asked
from producers.random_draws import exhaust
from producers.settings import BASE_MS, CLICKS, IMPRESSIONS, TOPICS, Settings
from producers.spool import SortedSpool
from producers.streams import Clicks, impressions
from producers.values import LineWriter
from tidemark.errors import UsageError
from tidemark.formats.jsonlines import write_lines
from tidemark.formats.trace import FORMAT, Header, TopicSpec

DIALS = (
    "changed_duplicates", "moved_duplicates", "events_per_second", "bursts", "transactions", "aborted", "compacted",
)  # fmt: skip
"""Numbers that the header names if they are not 0."""


@dataclass(frozen=True)
class Trace:
    """A generated trace that is not yet written."""

    header: Header
    arrivals: Arrivals
    lines: LineWriter
    layout: LogLayout | None = None

    def chunks(self) -> Iterator[bytes]:
        """The lines of all records, some at a time; the last line of a chunk has no newline."""
        slices = self.arrivals.slices()
        for number, rows in slices if self.layout is None else self.layout.laid_out(slices):
            yield self.lines.chunk(rows, number)


@contextmanager
def generated(settings: Settings, folder: Path | None = None) -> Iterator[Trace]:
    """The trace that ``settings`` describe; what is beyond memory is in temporary files in ``folder``.

    Raises ``OSError`` if those cannot be written.
    """
    entities = Entities(settings.seed, settings.impressions, settings.key_skew)
    with closing(Arrivals(settings, folder)) as arrivals:
        _arrange(settings, entities, arrivals, folder)
        header = Header(
            tidemark_trace=FORMAT,
            pace=settings.pace,
            topics={name: TopicSpec(settings.partitions) for name in TOPICS},
            slices=len(arrivals.watermarks_ms),
            seed=settings.seed,
            generator=_generator(settings),
        )
        late = _late(arrivals, settings)
        header.counts = _counts(arrivals)
        layout = LogLayout(settings, arrivals.last_slices()) if is_asked(settings) else None
        if layout is not None:
            exhaust(layout.laid_out(arrivals.slices()))
            header.counts |= layout.counts
        if settings.compacted:
            header.compacted = list(TOPICS)
        header.goals = _goals(header.counts, settings, late)
        header.waived = _waived(settings, late)
        if settings.pace == "stepped":
            header.counts["late"] = late
        yield Trace(header, arrivals, LineWriter(entities, settings.partitions), layout)


def write(settings: Settings, path: Path) -> tuple[str, Header]:
    """Generate a trace into ``path``; return its SHA-256 and its header.

    Raises ``UsageError`` if there is no space for it, or for the temporary files beside it.
    """
    try:
        with generated(settings, path.parent) as trace:
            lines = chain([msgspec.json.encode(trace.header)], trace.chunks())
            return write_lines(path, lines), trace.header
    except OSError as error:
        raise UsageError(
            f"the trace {str(path)!r} could not be written",
            detail=error.strerror or str(error),
            hint="free some space, or name a file on another disk; while a large trace is made, it needs an eighth more"
            " than its size",
        ) from error


def _arrange(settings: Settings, entities: Entities, arrivals: Arrivals, folder: Path | None) -> None:
    """Make all drafts and hand them to ``arrivals``: impressions, clicks, second records, edge rows."""
    with ExitStack() as files:
        clicks = files.enter_context(closing(Clicks(_stage(settings, "clicks"), settings, folder)))
        total = settings.impressions + clicks.count
        stretch = Stretch(BASE_MS, settings.duration_ms, settings.partitions)
        mix = parse_lateness(settings.lateness)
        make_late = MakeLate(_stage(settings, "lateness"), total, mix, settings.unit_ms, stretch)
        spoil = Spoil(_stage(settings, "flaws"), total, settings)
        again = [
            files.enter_context(
                closing(SentAgain(_stage(settings, name), (total, share), settings, how, folder))
            )
            for name, share, how in (
                ("duplicates", settings.duplicates, same_again),
                ("changed_duplicates", settings.changed_duplicates, changed_again),
                ("moved_duplicates", settings.moved_duplicates, moved_again),
            )
        ]
        moments = files.enter_context(closing(SortedSpool(int, folder=folder)))

        def shown() -> Iterator[list[Draft]]:
            for drafts in impressions(_stage(settings, "impressions"), settings, entities, moments):
                clicks.see(drafts)
                yield drafts

        for drafts in chain(shown(), clicks):
            make_late(drafts)
            spoil(drafts)
            for some in again:
                some.see(drafts)
            arrivals.add(drafts)
        for drafts in chain(*again):
            arrivals.add(drafts)
        arrivals.duplicates = sum(some.count for some in again)
        edges = EdgeMaker(_stage(settings, "edges"), settings)
        arrivals.end(edges, (settings.impressions, clicks.count))


def _stage(settings: Settings, name: str) -> Random:
    return Random(f"{settings.seed}/{name}")


def _late(arrivals: Arrivals, settings: Settings) -> int:
    """The rows that are certainly late; at the pace ``timed`` nothing is certain."""
    if settings.pace == "timed":
        return 0
    return arrivals.late() if settings.pace == "stepped" else arrivals.late_in_any_backlog()


def _counts(arrivals: Arrivals) -> dict[str, int]:
    return {
        TOPICS[IMPRESSIONS]: arrivals.topics[IMPRESSIONS],
        TOPICS[CLICKS]: arrivals.topics[CLICKS],
        "duplicates": arrivals.duplicates,
        "unreadable": sum(arrivals.flaws[flaw] for flaw in UNREADABLE),
        "null_keys": arrivals.flaws[Flaw.NULL_KEY],
        "edge_rows": arrivals.edges,
    }


def _waived(settings: Settings, late: int) -> list[str]:
    """What a contract implies, and a run of this trace need not exercise."""
    asked = {
        "each_bound_end_decides": settings.edges > 0,  # else no click need come before its impression
        "late_row_dropped": settings.pace != "stepped"
        or late > 0,  # what is behind within its slice is not late
    }
    return [name for name, may_be in asked.items() if not may_be]


def _goals(counts: dict[str, int], settings: Settings, late: int) -> list[str]:
    """The coverage goals of a run of this trace; for other paces than ``stepped``, those that any batching meets."""
    has = {
        "rows_joined": settings.edges > 0,
        "semi_row_emitted": settings.edges > 0,
        "null_row_after_eviction": settings.edges > 0,
        "late_row_dropped": late > 0,
        "unreadable_filtered": counts["unreadable"] > 0,
        "null_key_seen": counts["null_keys"] > 0,
        "duplicate_event_seen": counts["duplicates"] > 0,
        "edge_row_seen": settings.pace == "stepped" and counts["edge_rows"] > 0,
    }
    return [name for name, there in has.items() if there]


def _generator(settings: Settings) -> str:
    dials = f"impressions={settings.impressions} ctr={settings.ctr:g} lateness={settings.lateness}"
    texts = [
        ("key_skew", settings.key_skew if settings.key_skew != MILD else ""),
        ("silent", settings.silent),
    ]
    numbers = [(name, getattr(settings, name)) for name in DIALS]
    more = [f"{name}={text}" for name, text in texts if text]
    more += [f"{name}={number:g}" for name, number in numbers if number]
    return " ".join(["producers.generate", dials, *more])
