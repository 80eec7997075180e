"""What the driver can see of the batch that is about to be written: its entry in the checkpoint. Free of Spark.

Spark logs what a batch reads in ``offsets/<batch>`` before it runs it, and keeps that file until long after. Its
fingerprint tells a batch that is run again from another one of the same number, which a checkpoint that was rolled
back would make; its time tells whether the ledger can still be trusted, because brokers forget offsets after a while.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from tidemark.errors import SinkRefused
from tidemark.sparkfiles.checkpoint import read_query_id

DAY_S = 86_400.0

Seen = tuple[int, str]
"""What tasks are told of the batch in flight: its id, and its fingerprint."""


@dataclass(frozen=True)
class InFlight:
    """The newest batch of a checkpoint: its id, the fingerprint of its source offsets, its time (in the file)."""

    batch: int
    offsets: str
    time_ms: int


def local_path(checkpoint: str) -> str | None:
    """The folder, if it is one of this machine; ``None`` for one in HDFS or in an object store."""
    parts = urlsplit(checkpoint)
    if parts.scheme in ("", "file"):
        return unquote(parts.path) if parts.scheme else checkpoint
    return None


def query_id(checkpoint: str | None) -> str | None:
    """The id of the query that a checkpoint belongs to; ``None`` where that cannot be seen from here."""
    folder = local_path(checkpoint) if checkpoint else None
    try:
        return read_query_id(folder) if folder else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest(checkpoint: str | None) -> InFlight | None:
    """The newest batch of a checkpoint; ``None`` where there is none, or where it cannot be seen from here."""
    folder = local_path(checkpoint) if checkpoint else None
    try:
        names = os.listdir(os.path.join(folder, "offsets")) if folder else []
        batches = [int(name) for name in names if re.fullmatch(r"\d+", name)]
        if not folder or not batches:
            return None
        with open(os.path.join(folder, "offsets", str(max(batches))), encoding="utf-8") as file:
            return read_offsets(max(batches), file.read())
    except OSError:
        return None  # the folder is another machine's


def read_offsets(batch: int, text: str) -> InFlight | None:
    """An offset log entry: a version, a line of JSON about the batch, then one line per source."""
    version, _, rest = text.partition("\n")
    about, _, sources = rest.partition("\n")
    try:
        time_ms = int(json.loads(about)["batchTimestampMs"])
    except (ValueError, KeyError, TypeError):
        return None  # not yet written as a whole, or of a version that has another form
    digest = hashlib.sha256(f"{version}\n{sources.strip()}".encode()).hexdigest()
    return InFlight(batch, digest[:16], time_ms)


def must_be_fresh(batch: InFlight, guard_s: float, now: datetime | None = None) -> None:
    """Raise ``SinkRefused`` if the batch is so old that brokers may have forgotten whether it was written."""
    age_s = (now or datetime.now(UTC)).timestamp() - batch.time_ms / 1000
    if age_s > guard_s:
        raise SinkRefused(
            f"batch {batch.batch} was begun {_told(age_s)} ago, and has not ended",
            detail="brokers forget committed offsets after offsets.retention.minutes (7 days, if nobody changed it), "
            "so an empty ledger no longer proves that nothing was written",
            hint="compare the topic with the batch by its header or by hand; then set the option ignoreExpiry to true "
            "for one start (or expiryGuardSeconds, if the brokers keep offsets for longer)",
        )


def _told(age_s: float) -> str:
    return f"{age_s / DAY_S:.1f} days" if age_s > DAY_S else f"{age_s:.0f} s"
