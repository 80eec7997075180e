"""``campaign.json`` in the folder of a campaign: what it was asked, what came of it, and what does not hold.

It has what the evidence below the folder has not: items whose evidence was deleted because they hold, and items that
failed before they had any. The campaign writes it while it goes, so that it is there after a crash, too; the head of
the folder's index is made of it. Free of judgement, and of how a campaign runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidemark.atomic_files import write_atomically

NAME = "campaign.json"


class FailedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that does not hold: its name, why, and the command that runs it again.

    ``run_dir`` is its evidence, ``shrunk`` the folder with what was made smaller of it, relative to the campaign's
    folder; empty if there is none.
    """

    name: str
    why: str
    run_dir: str = ""
    command: str = ""
    shrunk: str = ""


class FactTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table: its title, its headings, and its rows, as text."""

    title: str
    head: list[str]
    rows: list[list[str]]


class CampaignFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``said`` is the result in a sentence; ``complete`` is false while it goes on, and if it was interrupted.

    ``asked`` and ``came`` are pairs of a name and a value. ``resume`` is the command that goes on where it was
    interrupted; empty if no journal was asked for. ``runs`` are the run directories that are of it, relative to the
    folder; ``None``: all that are there.
    """

    name: str
    said: str
    command: str = ""
    resume: str = ""
    complete: bool = True
    asked: list[tuple[str, str]] = []
    came: list[tuple[str, str]] = []
    failed: list[FailedItem] = []
    tables: list[FactTable] = []
    runs: list[str] | None = None


@dataclass
class FactsWriter:
    """Writes ``campaign.json`` of a folder while its campaign goes on; one that cannot be written ends no campaign.

    It writes after each of the first ``often`` outcomes, and then after every ``often``: facts count all of them again.
    """

    folder: Path
    often: int = 50
    outcomes: int = 0

    def note(self, facts: Callable[[], CampaignFacts]) -> None:
        """Write what has come so far, of a campaign that goes on."""
        self.outcomes += 1
        if self.outcomes <= self.often or self.outcomes % self.often == 0:
            self.end(facts(), complete=False)

    def end(self, facts: CampaignFacts, *, complete: bool) -> None:
        """Write what has come in all; ``complete`` if nothing interrupted it."""
        with suppress(OSError):
            write_facts(self.folder, msgspec.structs.replace(facts, complete=complete))


def write_facts(folder: Path, facts: CampaignFacts) -> None:
    """Write ``campaign.json``; the folder is made if it is not there. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / NAME, msgspec.json.format(msgspec.json.encode(facts), indent=2))


def read_facts(folder: Path) -> CampaignFacts | None:
    """What is known of the campaign of a folder; ``None`` if it is no campaign's, or of another version."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=CampaignFacts)
    except (OSError, msgspec.DecodeError):
        return None


def place_in(folder: Path, run_dir: str | Path | None) -> str:
    """A run directory relative to the folder of its campaign; empty if it is not there, or is elsewhere."""
    if not run_dir or not Path(run_dir).is_dir():
        return ""
    path, root = Path(run_dir).resolve(), folder.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else ""


def shrunk_folder(run_dir: Path) -> Path:
    """Where a campaign makes a run smaller: beside its evidence."""
    return run_dir.with_name(f"{run_dir.name}-shrunk")


def shrunk_in(folder: Path, run_dir: str | Path | None) -> str:
    """What was made smaller of a run, relative to the folder of its campaign; empty if nothing was."""
    beside = shrunk_folder(Path(run_dir)) if run_dir else None
    return place_in(folder, beside) if beside is not None and (beside / "shrunk.json").is_file() else ""
