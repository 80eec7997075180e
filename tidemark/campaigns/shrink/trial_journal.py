"""The journal of trials: what is in it is not run again, after Ctrl-C or with another budget.

JSON Lines. The first names what is made smaller; each other line is a trial::

    {"shrink": "9f2c…", "code_sha256": "…"}
    {"digest": "41aa…", "red": true, "seconds": 1.2}

A last line that a crash or a full disk has cut off is left out, and its trial is run again.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from tidemark import paths
from tidemark.campaigns.campaign import end_with_whole_line, whole_lines
from tidemark.errors import UsageError

TRIALS = "trials.jsonl"
"""Its name in the folder of a search."""


class JournalHead(msgspec.Struct, frozen=True):
    """What the trials are of: the digest of the first case and of the bug, and the code that ran."""

    shrink: str
    code_sha256: str


class JournalledTrial(msgspec.Struct, frozen=True):
    """A trial of the candidate with this digest: whether it showed the bug, and how long it took in seconds."""

    digest: str
    red: bool
    seconds: float


class TrialJournal:
    """The file of a search; made anew, unless ``resume``: then ``outcomes`` are the trials in it, by digest.

    Raises ``UsageError`` if it is of another search, or cannot be read.
    """

    def __init__(self, path: Path, shrinks: str, *, resume: bool) -> None:
        self._path = path
        self._head = JournalHead(shrinks, paths.code_sha256())
        self.outcomes: dict[str, list[bool]] = {}
        if resume and path.is_file():
            self.outcomes = self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(self._head) + b"\n")

    def add(self, trial: JournalledTrial) -> None:
        """Append a trial that has ended."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(trial) + b"\n")

    def _read(self) -> dict[str, list[bool]]:
        first, *lines = whole_lines(self._path.read_bytes()).splitlines() or [b""]
        outcomes = defaultdict[str, list[bool]](list)
        try:
            head = msgspec.json.decode(first, type=JournalHead)
            for line in lines:
                trial = msgspec.json.decode(line, type=JournalledTrial)
                outcomes[trial.digest].append(trial.red)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{str(self._path)!r} cannot be read", detail=str(error), hint="begin anew without --resume"
            ) from error
        if head != self._head:
            raise UsageError(
                f"{str(self._path)!r} has trials of another run, another finding or other code",
                detail=f"it says {head.shrink[:12]} and code {head.code_sha256[:12]},"
                f" this is {self._head.shrink[:12]} and code {self._head.code_sha256[:12]}",
                hint="begin anew without --resume",
            )
        end_with_whole_line(self._path)
        return dict(outcomes)
