"""The life of the rows of a chain of operators, as far as it can be told: where a record is, what read it, what came.

Decides nothing. Each finding names the records that its row is made of. What the operators between them did with a
record has no account row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tidemark.formats.chain import Chain
from tidemark.formats.events import write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.input.chain_history import ChainHistory, read_history, row_reader
from tidemark.reports.row_life import FollowedFinding, LifeStep, OutputArrival, RowLife, RowLives
from tidemark.reports.row_steps import came_text

NOTE = "of a chain of operators the life of a row is shown from its topic to the batch that read it, and of its output"
_NEVER_CAME = ("lost_rows", "missing_nulls")
_NO_SUCH_ROW = ("phantom_rows", "late_rows_joined", "nulls_for_matched_rows")


def follow_chain(run: RunDirectory, described: Chain, verdict: Verdict) -> RowLives:
    """The records of the findings of a chain; raises ``BrokenEvidence`` if it cannot be read."""
    followed = {at: finding for at, finding in enumerate(verdict.findings) if finding.written}
    if not followed:
        return RowLives(notes=[NOTE])
    history = read_history(run)
    wanted = list(dict.fromkeys(place for finding in followed.values() for place in finding.written))
    times_us = _times_us(run, described, set(wanted))
    number_of = {history.place(number): number for number in range(len(history.places))}
    places = [place for place in wanted if place in number_of]
    index = {place: at for at, place in enumerate(places)}
    arrivals = _arrivals(run, {finding.read for finding in followed.values() if finding.read})
    findings = [_finding(at, finding, index, arrivals) for at, finding in followed.items()]
    made = defaultdict[str, list[FollowedFinding]](list)
    for one in findings:
        for row in one.rows:
            made[places[row]].append(one)
    rows = [
        _life(history, described, number_of[place], (times_us.get(place), made[place])) for place in places
    ]
    return RowLives(rows=rows, findings=findings, of_rows=history.first_sentinel, notes=[NOTE])


def _times_us(run: RunDirectory, described: Chain, places: set[str]) -> dict[str, tuple[int, int]]:
    """The number of the source and the event time of some records."""
    readers = [row_reader(source) for source in described.sources]
    found: dict[str, tuple[int, int]] = {}
    for record in run.inputs():
        place = f"{record.topic}/{record.partition}/{record.offset}"
        if place not in places:
            continue
        for number, (source, read) in enumerate(zip(described.sources, readers, strict=True)):
            if source.topic == record.topic and (values := read(record.value)) is not None:
                found.setdefault(place, (number, values[source.time]))
    return found


def _arrivals(run: RunDirectory, places: set[str]) -> dict[str, OutputArrival]:
    """The output records that findings are about."""
    found = {}
    for record in run.output() if places else ():
        place = f"{record.partition}/{record.offset}"
        batch = record.header("batch") or ""
        if place in places and batch.isdecimal():
            found[place] = OutputArrival(
                place=place,
                batch=int(batch),
                partition=record.header("partition") or "",
                attempt=record.header("attempt") or "",
            )
    return found


def _finding(
    at: int, finding: Finding, index: dict[str, int], arrivals: dict[str, OutputArrival]
) -> FollowedFinding:
    """A finding, with what was expected by what it says itself."""
    arrival = arrivals.get(finding.read or "")
    expected = "not in this batch"
    if finding.property in _NO_SUCH_ROW:
        expected = "no such row"
    elif finding.property in _NEVER_CAME:
        expected = "once" if finding.defect is not None else f"once, in batch {finding.batch}"
    elif finding.property == "duplicate_rows":
        expected = "not once more"
    return FollowedFinding(
        finding=at,
        property=finding.property,
        name=", ".join(f"{name} {'NULL' if value is None else value}" for name, value in finding.row.items()),
        expected=expected,
        observed=came_text([] if arrival is None else [arrival]),
        rows=[index[place] for place in finding.written if place in index],
        batch=finding.batch,
    )


def _life(
    history: ChainHistory,
    described: Chain,
    number: int,
    known: tuple[tuple[int, int] | None, Sequence[FollowedFinding]],
) -> RowLife:
    """A record: ``known`` are its source with its event time, and the findings that it is part of."""
    read, findings = known
    place, batch = history.place(number), history.batch_of.get(number)
    topics = [source.topic for source in described.sources]
    source, time_us = read if read is not None else (topics.index(history.places[number][0]), None)
    time = "no event" if time_us is None else write_time(time_us)
    steps = [
        LifeStep(
            what="published", observed=f"{place}, {'no event' if time_us is None else f'event time {time}'}"
        ),
        LifeStep(what="read", observed="by no batch" if batch is None else f"by batch {batch}", batch=batch),
    ]
    if batch is not None:
        late_ms = max(history.batches[batch - 1].plan.watermark_ms, 0) if batch else 0
        steps.append(
            LifeStep(
                what="watermarks",
                observed=f"late watermark {moment(late_ms)}, eviction watermark"
                f" {moment(max(history.batches[batch].plan.watermark_ms, 0))} in the checkpoint",
                batch=batch,
            )
        )
    steps += [
        LifeStep(what="its row", expected=one.expected, observed=one.observed, batch=one.batch, wrong=True)
        for one in findings
    ]
    return RowLife(
        name=place, input=source, key="", place=place, time=time, became="followed", batch=batch, steps=steps
    )
