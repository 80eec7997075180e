"""What a report says of time: recoveries as distributions, availability, what was demanded, and where a query hung.

Free of judgement and of I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemark.formats.faults import Fault
from tidemark.formats.liveness import Demands
from tidemark.formats.manifest import Manifest
from tidemark.oracle.demand_check import OVERDUE_FACTOR
from tidemark.reports.run_statistics import FaultStatistics, fault_statistics

SEE_STACKS = (
    "note: what the threads did is in stacks/: read `stream execution thread` in driver.txt and `Executor task launch"
    " worker` in the others, then the logs in logs/; if the query was only slow, --hung-after 10m waits for longer"
)


def recovery_lines(faults: Sequence[Fault]) -> Iterator[str]:
    """``kill driver at written 9.1 s``, for each fault and point; of several the least, the median and the most."""
    return (recovery_line(one) for one in recoveries(faults))


def recoveries(faults: Sequence[Fault]) -> list[FaultStatistics]:
    """The recoveries of a run by fault and commit point, of those that were seen."""
    _, by_point = fault_statistics([("", faults)])
    return [one for one in by_point if one.times]


def recovery_line(found: FaultStatistics) -> str:
    """A distribution, in words."""
    least, middle, _, most = found.shown
    name = f"{found.name} at {found.point}"
    if len(found.times) == 1:
        return f"{name} {most} s"
    return f"{name} {least} to {most} s, median {middle} s ({len(found.times):,} faults)"


def availability(counts: Mapping[str, int]) -> float | None:
    """The share of the time that was observed in which no batch was overdue; ``None`` if times are not known."""
    observed_ms = counts.get("observed_ms", 0)
    return 1 - counts["overdue_ms"] / observed_ms if observed_ms > 0 else None


def availability_line(counts: Mapping[str, int]) -> str:
    """Availability, with what it means; empty if times are not known."""
    share = availability(counts)
    if share is None:
        return ""
    observed_s, overdue_s = counts["observed_ms"] / 1000, counts["overdue_ms"] / 1000
    return (
        f"{100 * share:.1f} % of {observed_s:,.1f} s; in {overdue_s:,.1f} s a batch was overdue: planned, and not"
        f" committed within {counts['in_time_ms'] / 1000:.1f} s, {OVERDUE_FACTOR} times the median or 1 s"
    )


def demanded(demands: Demands | None) -> str:
    """What a run had to do in time; empty if nothing was demanded."""
    if demands is None:
        return ""
    said = (
        ("recovery within {:g} s", demands.recover_within_s),
        ("batches committed during each fault that lasts: {:,} or more", demands.progress_batches),
        ("input rows committed during each fault that lasts: {:,} or more", demands.progress_rows),
        ("a watermark that stands for at most {:g} s", demands.watermark_stands_at_most_s),
        ("at most {:,} rows of state", demands.state_rows_at_most),
    )
    return "; ".join(text.format(value) for text, value in said if value is not None)


def measured_line(counts: Mapping[str, int]) -> str:
    """For how long the watermark stood at most, and how large the state was."""
    said = []
    if "watermark_stood_ms" in counts:
        said.append(f"the watermark stood for at most {counts['watermark_stood_ms'] / 1000:.1f} s")
    if "state_rows" in counts:
        said.append(f"the state had at most {counts['state_rows']:,} rows")
    return "; ".join(said)


def hang_note(manifest: Manifest) -> list[str]:
    """Where to look, of a query that hung."""
    return [SEE_STACKS] if manifest.hang is not None and manifest.hang.stacks else []
