"""Reads the batch in flight from the checkpoint's offset log. Free of Spark.

Spark logs the source offsets of a batch in ``offsets/<batch>`` before it runs the batch. The fingerprint of these
offsets distinguishes a batch that is run again from a different batch with the same id, as after a rollback of the
checkpoint. The time of the batch shows whether its ledger entry may have expired.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.errors import SinkRefused
from tidemark.sink.driver.checkpoint_files import CheckpointFiles
from tidemark.sparkfiles.checkpoint import read_query_id

DAY_S = 86_400.0

BatchFingerprint = tuple[int, str]
"""What tasks receive about the batch in flight: its id and fingerprint."""


@dataclass(frozen=True)
class InFlight:
    """The newest batch of a checkpoint: its id, the fingerprint of its source offsets, its logged timestamp."""

    batch: int
    offsets: str
    time_ms: int


def query_id(files: CheckpointFiles | None) -> str | None:
    """The query id in a checkpoint; ``None`` if it has none, or cannot be read from here."""
    text = files.text("metadata") if files else None
    try:
        return read_query_id(text) if text else None
    except (ValueError, KeyError, TypeError):
        return None


def newest(files: CheckpointFiles | None) -> InFlight | None:
    """The newest batch of a checkpoint; ``None`` if it has none, or cannot be read from here."""
    batches = [int(name) for name in (files.names("offsets") if files else ()) if re.fullmatch(r"\d+", name)]
    text = files.text(f"offsets/{max(batches)}") if files and batches else None
    return read_offsets(max(batches), text) if text else None


def read_offsets(batch: int, text: str) -> InFlight | None:
    """Parse an offset log entry: version, batch metadata as JSON, one line per source; ``None`` if it is incomplete."""
    version, _, rest = text.partition("\n")
    about, _, sources = rest.partition("\n")
    try:
        time_ms = int(json.loads(about)["batchTimestampMs"])
    except (ValueError, KeyError, TypeError):
        return None  # partially written, or in the format of another version
    digest = hashlib.sha256(f"{version}\n{sources.strip()}".encode()).hexdigest()
    return InFlight(batch, digest[:16], time_ms)


def check_age(batch: InFlight, guard_s: float, now: datetime | None = None) -> None:
    """Raise ``SinkRefused`` if the batch is so old that its ledger entries may have expired."""
    age_s = (now or datetime.now(UTC)).timestamp() - batch.time_ms / 1000
    if age_s > guard_s:
        raise SinkRefused(
            f"batch {batch.batch} was begun {_duration(age_s)} ago and is not complete; the limit is "
            f"{_duration(guard_s)}",
            detail="brokers delete committed offsets after offsets.retention.minutes (7 days by default), so a missing "
            "ledger entry no longer proves that the batch was not written",
            hint="check in the topic whether the rows of this batch are there; then set the option "
            "ignoreExpiry to true "
            "for one start (or raise expiryGuardSeconds, if the brokers keep offsets for longer)",
        )


def _duration(age_s: float) -> str:
    return f"{age_s / DAY_S:.1f} days" if age_s > DAY_S else f"{age_s:.0f} s"
