"""What a campaign finds, and no known defect explains, is made smaller by itself, into a folder beside its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemark.cli.shared_options import seconds_of
from tidemark.cli.shrink_commands import shrink_on, what_is_there
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.campaigns.shrink.red_run import RedRun
    from tidemark.stack import Stack

ShrinkTime = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long to make each run smaller with a finding that no known defect explains: 90s, 2m; 0: not.",
    ),
]


class RedItem(NamedTuple):
    """An item of a campaign: its name, its evidence, and what reads this as a red run."""

    name: str
    run_dir: Path
    read: Callable[[Path], RedRun]


def shrink_budget(text: str) -> float:
    """The budget of each run in seconds; 0: none is made smaller. Raises ``BadParameter``."""
    return 0.0 if text.strip() == "0" else seconds_of(text, "--shrink")


def shrink_items(items: Iterable[RedItem], stack: Stack, budget_s: float, say: Callable[[str], None]) -> None:
    """Make runs smaller, each within the budget; what cannot be is said, and changes no outcome."""
    from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
    from tidemark.reports.campaign_facts import shrunk_folder

    for item in items if budget_s else ():
        folder = shrunk_folder(item.run_dir)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            found, _ = shrink_on(stack, item.read(item.run_dir), ShrinkOptions(folder, budget_s, say=say))
            say(f"{item.name}: {found.before}; made smaller: {found.after}; {folder}")
        except KeyboardInterrupt:
            say(f"interrupted at {item.name}; {what_is_there(folder)}")
            return
        except (TidemarkError, OSError) as error:
            say(f"{item.name} was not made smaller: {error}")
