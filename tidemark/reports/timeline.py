"""A run as a picture: a line per batch, with what it read and wrote, its watermark, and the faults injected in it.

Free of judgement: it shows what the evidence says. ``tidemark check DIR --batches`` prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from tidemark.formats.chain import Chain
from tidemark.formats.contract import Contract
from tidemark.formats.events import write_time
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.formats.faults import Fault

BAR = 24
"""Characters of the longest bar."""


def timeline(run: RunDirectory) -> Iterator[str]:
    """The lines of the picture: ``█`` are joined (or semi) rows, ``░`` NULL rows, in scale with the largest batch."""
    contract, faults, batches = run.contract, run.faults(), run.batches()
    joined, nulls = _written(run, contract)
    most = max((joined[batch] + nulls[batch] for batch in {*joined, *nulls}), default=1)
    read, silent = 0, waits(batches)
    yield f"{'batch':>5} {'watermark':<24} {'read':>8} {'joined':>8} {'NULL':>8}"
    for batch in batches:
        ends = sum(sum(partitions.values()) for partitions in batch.end_offsets.values())
        number, rows, read = batch.batch, ends - read, ends
        bar = "█" * round(BAR * joined[number] / most) + "░" * round(BAR * nulls[number] / most)
        figures = f"{rows or '':>8} {joined[number] or '':>8} {nulls[number] or '':>8}"
        wait = f"  ∥ watermark waits for {' and '.join(silent[number])}" if number in silent else ""
        told = f"{bar:<{BAR}}{_marks(batch, faults)}{wait}"
        yield f"{number:>5} {_watermark(batch):<24} {figures}  {told}".rstrip()


def _written(run: RunDirectory, contract: Contract | Chain) -> tuple[Counter[int], Counter[int]]:
    """Output records by the batch in their header: those with a right side (or of a semi join), and NULL rows."""
    joined: Counter[int] = Counter()
    nulls: Counter[int] = Counter()
    right = None if isinstance(contract, Chain) else contract.output.right_id
    for record in run.output():
        batch = record.header("batch") or ""
        if not batch.isdigit():
            continue
        is_null = right is not None and _field(record.value, right) is None
        (nulls if is_null else joined)[int(batch)] += 1
    return joined, nulls


def _field(value: str | None, name: str) -> object:
    try:
        fields = msgspec.json.decode(value or "null")
    except msgspec.DecodeError:
        return None
    return fields.get(name) if isinstance(fields, dict) else None


def _watermark(batch: Batch) -> str:
    return write_time(batch.watermark_ms * 1000) if batch.watermark_ms > 0 else "-"


def _marks(batch: Batch, faults: Iterable[Fault]) -> str:
    mine = [fault for fault in faults if fault.injected and fault.batch == batch.batch]
    marks = [f"  ⚡ {fault.label} ({fault.recovery_s or 0:.1f} s)" for fault in mine]
    marks += ["  ↻ begun again" if batch.runs > 1 else "  ↻ after a restart"] if batch.restarted else []
    return "".join(marks) + ("" if batch.committed else "  not committed")


def waits(batches: Iterable[Batch]) -> dict[int, list[str]]:
    """Batch whose watermark stands -> the inputs that have had no rows since a restart, which is why.

    Spark keeps the watermark over a restart, not the latest event time of each input, and moves it only once it has one
    of all of them (``WatermarkTracker.updateWatermark``).
    """
    found: dict[int, list[str]] = {}
    known: dict[str, dict[str, int]] | None = None
    before: Batch | None = None
    for batch in batches:
        if known is not None and before is not None:
            silent = [topic for topic, ends in before.end_offsets.items() if ends == known.get(topic)]
            if silent and batch.watermark_ms == before.watermark_ms:
                found[batch.batch] = silent
            known = known if silent else None
        if batch.restarted and before is not None:
            known = before.end_offsets
        before = batch
    return found
