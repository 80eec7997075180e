"""``tidemark convert``: run directories and traces of an earlier format version."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemark.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("convert")(convert_command)


def convert_command(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or traces.", metavar="PATH")],
    out: Annotated[
        Path | None, typer.Option(help="A folder for the converted copies; in place if not given.")
    ] = None,
) -> None:
    """Bring run directories and traces of an earlier format version to the one that is read."""
    from tidemark.formats.conversion import convert

    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no {str(path)!r}", hint="name run directories or traces")
    for path in paths:
        place = path if out is None else _copy(path, out)
        said = "converted" if convert(place) else "has the current format version already"
        sys.stdout.write(f"{place}: {said}\n")


def _copy(path: Path, folder: Path) -> Path:
    """A copy in ``folder``, by the same name; raises ``UsageError`` if there is one of that name."""
    copy = folder / path.resolve().name
    if copy.exists():
        raise UsageError(f"{str(copy)!r} is there already", hint="name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copyfile(path, copy)
    return copy
