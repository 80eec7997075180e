"""The evidence of a run of which DuckDB can scan the large files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tidemark.oracle.input.history import Evidence


class LargeEvidence(Evidence, Protocol):
    """Evidence that DuckDB can scan."""

    def scan(self, name: str) -> str | None:
        """The text of a table function for ``trace``, ``flush`` or ``output``, with the fields of a record as columns
        (headers as JSON); ``None`` if there is none, or nothing shows that the file is as a run wrote it.
        """

    def pick(self, name: str, asked: bytes) -> Iterator[Any]:
        """The records of such a file, in order, of which ``asked`` has a 1 at the number of their row of the scan."""


@dataclass(frozen=True)
class ScannedRun:
    """A run and its scans; ``flush`` is ``None`` if there is none."""

    run: LargeEvidence
    trace: str
    flush: str | None
    output: str

    def pick(self, name: str, asked: bytes) -> Iterator[Any]:
        """The records of a file by the numbers of their rows of a scan."""
        return self.run.pick(name, asked) if b"\1" in asked else iter(())


def scanned_run(run: Evidence) -> ScannedRun | None:
    """The scans of a run; ``None`` if DuckDB can read no trace or no output."""
    scan = getattr(run, "scan", None)
    if scan is None:
        return None
    trace, flush, output = (scan(name) for name in ("trace", "flush", "output"))
    return None if trace is None or output is None else ScannedRun(run, trace, flush, output)  # type: ignore[arg-type]
