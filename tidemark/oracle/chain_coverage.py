"""What a run of a chain consisted of, and which interesting things it reached.

Free of I/O. Coverage goals are named as in ``tidemark.oracle.coverage``; those of joins are asked of each join of the
chain (``tidemark.oracle.chain_exercise``). Chains have three of their own, asked for where the chain has such a step:

``rows_came``           a right row that no sentinel is part of came in its batch
``duplicate_dropped``   a deduplication dropped a row
``limit_reached``       a limit had more rows than it lets pass
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidemark.formats import chain
from tidemark.formats.faults import Fault
from tidemark.oracle.chain_exercise import exercised, implied
from tidemark.oracle.compare.chain_comparison import Predicted
from tidemark.oracle.contract_coverage import Exercised, missing, mostly_readable
from tidemark.oracle.coverage import Goals, of_any_query, required
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.model.operators import DeduplicateOperator, LimitOperator
from tidemark.oracle.run_counts import of_batches, of_faults

FAR_MS = 1 << 52
"""A watermark further than any event time."""


def asked(history: ChainHistory, faults: Sequence[Fault]) -> list[str]:
    """The coverage goals that this run has to meet.

    Of those that a trace asks for, what holds for any join of its topics and need not for this chain is left out: a
    NULL may be in a field that the chain does not read, a row behind the watermark in a window that is still open.
    """
    own = [
        *required(faults),
        "most_records_readable",
        "each_input_accepted",
        "rows_came",
        *_of_steps(history.chain),
        *implied(history.chain),
    ]
    possible = {
        *own,
        "unreadable_filtered",
        "duplicate_event_seen",
        "duplicate_permitted",
        "written_kills_doubled",
        "fault_hit_running_batch",
    }
    windows = any(isinstance(step, chain.Window) for step in history.chain.steps)
    times = all(source.watermark_delay_ms is not None for source in history.chain.sources)
    possible |= {"late_row_dropped"} if times and not windows else set()
    return [name for name in dict.fromkeys([*own, *history.manifest.goals]) if name in possible]


def _of_steps(described: chain.Chain) -> list[str]:
    names = {chain.Deduplicate: "duplicate_dropped", chain.Limit: "limit_reached"}
    return [names[type(step)] for step in described.steps if type(step) in names]


def reached(
    history: ChainHistory,
    predicted: Predicted,
    counts: dict[str, int],
    faults: Sequence[Fault],
    permitted: Mapping[int, int],
) -> Goals:
    """Each coverage goal that a chain knows, and whether the run met it. Uses the model up."""
    # As the run left them: flushing the model gives them rows that the run did not have.
    of_joins = exercised(history, predicted.model)
    own = {
        "flushed": _flushed(history, predicted),
        "all_input_read": _all_read(history),
        "rows_came": counts["joined_rows"] + counts["null_rows"] > 0,
        "duplicate_dropped": counts["duplicates_dropped"] > 0,
        "limit_reached": counts["over_limit"] > 0,
    }
    return {
        **{name: Exercised(was) for name, was in own.items()},
        "most_records_readable": mostly_readable(history.readable),
        "each_input_accepted": missing("no row was accepted", _empty_inputs(history)),
        **of_joins,
        **of_any_query(counts, faults, permitted),
    }


def _empty_inputs(history: ChainHistory) -> list[str]:
    """The topics of which no row reached the watermark."""
    sources = history.chain.sources
    came = {
        source.topic
        for batch in history.batches
        for source, rows in zip(sources, batch.rows, strict=True)
        if any(not history.is_sentinel(row) for row in rows)
    }
    return [topic for topic in history.chain.topics if topic not in came]


def tally(
    history: ChainHistory, predicted: Predicted, seen: Counter[str], faults: Sequence[Fault]
) -> dict[str, int]:
    """All counts of a run, by the names of ``tidemark.oracle.run_counts``; ``late`` counts rows late at any step."""
    topics = Counter(topic for topic, _, _ in history.places[: history.first_sentinel])
    machines = predicted.model.machines
    names = (
        "joined_rows",
        "null_rows",
        "output_records",
        "sentinel_rows",
        "duplicates_permitted",
        "not_compared",
    )
    return {
        "rows_in": history.first_sentinel - history.absent.total(),
        **{f"{topic}_in": topics[topic] - history.absent[topic] for topic in history.chain.topics},
        "late": sum(len(rows) for machine in machines for rows in machine.late),
        **{name: history.counts[name] for name in ("unreadable", "null_key", "duplicate_events")},
        **{name: seen[name] for name in names},
        "duplicates_dropped": sum(
            machine.dropped for machine in machines if isinstance(machine, DeduplicateOperator)
        ),
        "over_limit": sum(machine.dropped for machine in machines if isinstance(machine, LimitOperator)),
        "expected_rows": sum(predicted.all().values()),
        **of_batches(history),
        **of_faults(faults),
    }


def _all_read(history: ChainHistory) -> bool:
    """Whether there are records besides the sentinels, and committed batches read all of them."""
    last = max((batch.plan.batch for batch in history.batches if batch.plan.committed), default=-1)
    records = range(history.first_sentinel)
    return bool(records) and all(0 <= history.batch_of.get(record, -1) <= last for record in records)


def _flushed(history: ChainHistory, predicted: Predicted) -> bool:
    """Whether nothing but rows of sentinels would still come, however far the watermark went. Uses the model up."""
    if not history.batches or not history.batches[-1].plan.committed:
        return False
    return all(history.is_sentinel(row) for row in predicted.model.flush(FAR_MS))
