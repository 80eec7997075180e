"""What functions of a user's file have read of the records of a trace (``tidemark.formats.kafka_record``).

Free of Kafka and Spark. A run or an audit keeps it beside the trace, in the same format and the same order: the value
of a record is JSON then, or text that says why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidemark.errors import BrokenEvidence
from tidemark.formats.chain import decoders_of, read_contract
from tidemark.formats.trace import Record, TraceReader

Value = str | bytes | None


def decoded_path(trace: Path) -> Path:
    """Where it is for a trace of a run directory."""
    return trace.with_name(f"decoded_{trace.name.partition('.')[0]}.jsonl")


@contextmanager
def decoded_values(trace: Path, contract: Mapping[str, Any]) -> Iterator[Callable[[Record], Value]]:
    """A function that gives the value of each record of a trace, one after the other, decoded where its topic is.

    Raises ``BrokenTrace`` and ``BrokenEvidence`` if what was decoded is not there, or of other records.
    """
    topics = decoders_of(read_contract(contract))
    if not topics:
        yield Record.text_or_bytes
        return
    path = decoded_path(trace)
    with TraceReader(path) as reader:
        records = iter(reader)

        def value(record: Record) -> Value:
            found = next(records, None)
            if found is None or (found.topic, found.partition) != (record.topic, record.partition):
                raise BrokenEvidence(
                    f"{str(path)!r} cannot be read as evidence",
                    detail=f"its records are not those of {trace.name}",
                    hint="the docstring of tidemark/formats/evidence.py describes each file",
                )
            return found.text_or_bytes() if record.topic in topics else record.text_or_bytes()

        yield value
