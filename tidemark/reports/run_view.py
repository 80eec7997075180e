"""A run as data: what the picture of a report draws, batch by batch, without a word of HTML.

Free of judgement and of I/O. ``tidemark.reports.viewed_run`` makes it of a run directory and its verdict. Times are
milliseconds since the epoch: watermarks and event times are the records' own, the wall clock is Spark's.
"""

from __future__ import annotations

import msgspec

from tidemark.reports.component_tracks import ComponentTrack, FaultView
from tidemark.reports.row_life import RowLives, of_findings

VIEW_FORMAT = 1


class InputView(msgspec.Struct, kw_only=True):
    """An input of the query; ``delay_ms`` is its watermark delay, ``None``: it has no watermark."""

    name: str
    topic: str
    delay_ms: int | None


class InputOfBatch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a batch read of an input.

    ``ends`` are its end offsets by partition. ``latest_ms`` is the latest event time that the input has shown up to
    this batch, ``late`` how many rows were at or before the late watermark; ``None``: not known. ``state_ms`` is the
    state watermark: rows at or before it are evicted.
    """

    rows: int = 0
    ends: dict[str, int] = {}
    latest_ms: int | None = None
    late: int | None = None
    state_ms: int | None = None


class OperatorOfBatch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What Spark reports of a stateful operator after a batch, and how long it took."""

    name: str
    kept: int = 0
    stored: int = 0
    removed: int = 0
    dropped: int = 0
    bytes: int = 0
    times_ms: dict[str, int] = {}


class BatchView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One planned batch.

    ``watermark_ms`` is its eviction watermark, ``late_watermark_ms`` that by which rows are late. ``held_by`` are the
    inputs, by their numbers, that hold the eviction watermark where it is, ``waits`` says that they have shown no row
    since a restart. ``joined``, ``nulls`` and ``repeated`` are rows of the output (``None``: not counted), ``out`` what
    Spark says that it wrote. ``started_ms`` and ``duration_ms`` are of the run of the batch that was reported last.
    ``executors`` ran the join. ``findings`` counts the examples of the verdict by property: those that name this batch,
    and those that name none and of whose input records this batch read the last.
    """

    batch: int
    inputs: list[InputOfBatch]
    watermark_ms: int = 0
    late_watermark_ms: int = 0
    held_by: list[int] = []
    waits: bool = False
    committed: bool = True
    runs: int = 1
    restarted: bool = False
    failed_tasks: int = 0
    joined: int | None = None
    nulls: int | None = None
    repeated: int | None = None
    out: int | None = None
    dropped: int | None = None
    started_ms: int | None = None
    duration_ms: int | None = None
    phases_ms: dict[str, int] = {}
    state_rows: int | None = None
    state_bytes: int | None = None
    operators: list[OperatorOfBatch] = []
    executors: list[str] = []
    lost_executors: list[str] = []
    findings: dict[str, int] = {}


class RunView(msgspec.Struct, kw_only=True):
    """A run. ``rows`` names what ``joined`` counts; ``notes`` say what is not drawn, and why.

    ``last_ms`` is the latest event time but those of the sentinels, which are far in the future; 0: not known.
    ``is_by_reading`` says that output records name no batch: ``joined``, ``nulls`` and ``repeated`` are then counted in
    the batch that read the last of a row's records. ``lives`` are the rows that were followed.
    """

    format: int = VIEW_FORMAT
    rows: str
    inputs: list[InputView]
    batches: list[BatchView]
    faults: list[FaultView]
    tracks: list[ComponentTrack]
    last_ms: int = 0
    is_by_reading: bool = False
    notes: list[str] = []
    lives: RowLives = msgspec.field(default_factory=RowLives)


def without_details(view: RunView) -> RunView:
    """The same without what is shown of a batch only when it is chosen, and without rows that no finding is about."""
    batches = [
        msgspec.structs.replace(
            batch,
            inputs=[msgspec.structs.replace(one, ends={}) for one in batch.inputs],
            operators=[],
            executors=[],
        )
        for batch in view.batches
    ]
    note = "offsets, operators and executors of the batches are left out, because the page would be too large"
    lives = of_findings(view.lives)
    return msgspec.structs.replace(view, batches=batches, notes=[*view.notes, note], lives=lives)


def thinned(view: RunView, most: int) -> RunView:
    """The same with at most about so many batches, evenly spread; those with faults, findings and restarts stay."""
    step = -(-len(view.batches) // max(most, 1))
    faulty = {fault.batch for fault in view.faults}
    kept = [
        batch
        for at, batch in enumerate(view.batches)
        if at % step == 0 or batch.findings or batch.restarted or batch.batch in faulty
    ]
    left_out = f"{len(view.batches) - len(kept):,} of {len(view.batches):,} batches"
    note = f"{left_out} are left out, because the page would be too large"
    return msgspec.structs.replace(view, batches=kept, notes=[*view.notes, note])
