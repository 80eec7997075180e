"""The generator of impressions and clicks: from settings to a trace. The same settings give the same bytes.

Its only I/O is writing the file. Each stage has its own random stream, so changing one setting leaves the other stages
as they are: with another lateness, the same users click on the same ads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

import msgspec

from producers import streams
from producers.arrival import Arrivals, arrange, late_in_any_backlog
from producers.draft import Draft, Flaw
from producers.edges import EdgeMaker
from producers.entities import Entities
from producers.lateness import Stretch, make_late, parse_lateness, some
from producers.settings import BASE_MS, CLICKS, IMPRESSIONS, TOPICS, Settings
from producers.values import LineWriter
from tidemark.formats.jsonlines import write_lines
from tidemark.formats.trace import FORMAT, Header, TopicSpec

UNREADABLE = (Flaw.NOT_JSON, Flaw.NO_TIME, Flaw.NULL_TIME)
AT_LEAST = 3
"""The least number of records with each kind of flaw, also in a tiny trace."""


@dataclass(frozen=True)
class Trace:
    """A generated trace that is not yet written; ``chunks`` of lines can be iterated once."""

    header: Header
    chunks: Iterator[bytes]
    arrivals: Arrivals


def generate(settings: Settings) -> Trace:
    """Generate the trace that ``settings`` describe."""
    entities = Entities(settings.seed, settings.impressions)
    impressions = streams.impressions(_stage(settings, "impressions"), settings, entities)
    clicks = streams.clicks(_stage(settings, "clicks"), settings, impressions)
    drafts = impressions + clicks
    stretch = Stretch(BASE_MS, settings.duration_ms, settings.partitions)
    mix = parse_lateness(settings.lateness)
    make_late(_stage(settings, "lateness"), drafts, mix, settings.unit_ms, stretch)
    _spoil(_stage(settings, "flaws"), drafts, settings)
    again = _sent_again(_stage(settings, "duplicates"), drafts, settings)
    edges = EdgeMaker(_stage(settings, "edges"), settings)
    arrivals = arrange(drafts + again + edges.bound_edges(), settings, edges)
    _number_edges(arrivals, len(impressions), len(clicks))
    counts = _counts(arrivals, len(again), settings)
    header = Header(
        tidemark_trace=FORMAT,
        pace=settings.pace,
        topics={name: TopicSpec(settings.partitions) for name in TOPICS},
        slices=len(arrivals.slices),
        seed=settings.seed,
        generator=_generator(settings),
        counts=counts,
        goals=_goals(arrivals, counts, settings),
        waived=_waived(arrivals, settings),
    )
    return Trace(header, LineWriter(entities, settings.partitions).chunks(arrivals.slices), arrivals)


def write(settings: Settings, path: Path) -> tuple[str, Header]:
    """Generate a trace into ``path``; return its SHA-256 and its header."""
    trace = generate(settings)
    return write_lines(path, chain([msgspec.json.encode(trace.header)], trace.chunks)), trace.header


def _stage(settings: Settings, name: str) -> Random:
    return Random(f"{settings.seed}/{name}")


def _spoil(rng: Random, drafts: list[Draft], settings: Settings) -> None:
    for index in _picked(rng, len(drafts), settings.null_keys):
        drafts[index].flaw = Flaw.NULL_KEY
    for index in _picked(rng, len(drafts), settings.unreadable):
        drafts[index].flaw = rng.choice(UNREADABLE)


def _sent_again(rng: Random, drafts: list[Draft], settings: Settings) -> list[Draft]:
    """Second records of some events, as a producer without idempotence sends after a timeout."""
    again = []
    for index in _picked(rng, len(drafts), settings.duplicates):
        first = drafts[index]
        if first.flaw is Flaw.NONE:
            wait_ms = 1 + int(rng.expovariate(5) * settings.unit_ms)
            again.append(
                Draft(
                    first.topic,
                    first.number,
                    first.event_ms,
                    first.user,
                    first.ad,
                    first.page,
                    first.partition,
                    first.arrival_ms + wait_ms,
                )
            )
    return again


def _picked(rng: Random, n: int, share: float) -> list[int]:
    """A random share of the indexes below ``n``, but at least ``AT_LEAST`` of them if the share is not 0."""
    picked = list(some(rng, n, share))
    least = min(AT_LEAST, n) if share else 0
    return picked if len(picked) >= least else sorted(rng.sample(range(n), least))


def _number_edges(arrivals: Arrivals, impressions: int, clicks: int) -> None:
    following = [impressions, clicks]
    for rows in arrivals.slices:
        for row in rows:
            if row.is_edge:
                row.number = following[row.topic]
                following[row.topic] += 1


def _counts(arrivals: Arrivals, duplicates: int, settings: Settings) -> dict[str, int]:
    topics, flaws, edges = [0, 0], [0] * len(Flaw), 0
    for rows in arrivals.slices:
        for row in rows:
            topics[row.topic] += 1
            flaws[row.flaw] += 1
            edges += row.is_edge
    counts = {
        TOPICS[IMPRESSIONS]: topics[IMPRESSIONS],
        TOPICS[CLICKS]: topics[CLICKS],
        "duplicates": duplicates,
        "unreadable": sum(flaws[flaw] for flaw in UNREADABLE),
        "null_keys": flaws[Flaw.NULL_KEY],
        "edge_rows": edges,
    }
    return {**counts, "late": arrivals.late} if settings.pace == "stepped" else counts


def _waived(arrivals: Arrivals, settings: Settings) -> list[str]:
    """What a contract implies, and a run of this trace need not exercise."""
    asked = {
        "each_bound_end_decides": settings.edges > 0,  # else no click need come before its impression
        "late_row_dropped": settings.pace != "stepped"
        or arrivals.late > 0,  # what is behind within its slice is not late
    }
    return [name for name, may_be in asked.items() if not may_be]


def _goals(arrivals: Arrivals, counts: dict[str, int], settings: Settings) -> list[str]:
    """The coverage goals of a run of this trace; for other paces than ``stepped``, those that any batching meets."""
    stepped = settings.pace == "stepped"
    late = {"stepped": arrivals.late, "backlog": 0, "timed": 0}[settings.pace]
    if settings.pace == "backlog":
        late = late_in_any_backlog(arrivals, settings)
    has = {
        "rows_joined": settings.edges > 0,
        "semi_row_emitted": settings.edges > 0,
        "null_row_after_eviction": settings.edges > 0,
        "late_row_dropped": late > 0,
        "unreadable_filtered": counts["unreadable"] > 0,
        "null_key_seen": counts["null_keys"] > 0,
        "duplicate_event_seen": counts["duplicates"] > 0,
        "edge_row_seen": stepped and counts["edge_rows"] > 0,
    }
    return [name for name, there in has.items() if there]


def _generator(settings: Settings) -> str:
    dials = f"impressions={settings.impressions} ctr={settings.ctr:g} lateness={settings.lateness}"
    return f"producers.generate {dials}"
