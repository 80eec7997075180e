"""``tidemark convert``: run directories and traces of an earlier format version; JSON Lines to Parquet, and back."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.run_commands import check_choice
from tidemark.errors import UsageError
from tidemark.formats.storage import STORAGES, recover, store_run, store_trace


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("convert")(convert_command)


def convert_command(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or traces.", metavar="PATH")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Store trace, flush, output and state as parquet, a tenth as large, or as jsonl: the same records.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the converted copies; in place if not given.")
    ] = None,
) -> None:
    """Bring run directories and traces of an earlier format version to the one that is read; or, with --to, store them
    in another format.

    A directory that is not as it was sealed is refused. It is replaced once the new one is complete; its seal is new,
    and says which seal it comes from. Converted back, the JSON Lines are the same, byte by byte.
    """
    from tidemark.formats.conversion import convert

    check_choice("--to", to, (None, *STORAGES))
    for path in paths:
        recover(path)
        if not path.exists():
            raise UsageError(f"there is no {str(path)!r}", hint="name run directories or traces")
    for path in paths:
        if to is not None:
            sys.stdout.write(_stored(path, to, out))
            continue
        place = path if out is None else _copy(path, out)
        said = "converted" if convert(place) else "has the current format version already"
        sys.stdout.write(f"{place}: {said}\n")


def _stored(path: Path, to: str, out: Path | None) -> str:
    """Store a run directory or a trace as ``to``; what is to be said of it."""
    storage = STORAGES[STORAGES.index(to)]
    copy = None if out is None else _free(path, out)
    if path.is_dir():
        place = path if copy is None else copy
        is_changed = store_run(path, storage, copy)
    else:
        place = store_trace(path, storage, out)
        is_changed = place != path
    return f"{place}: {'converted' if is_changed else f'is {to} already'}\n"


def _copy(path: Path, folder: Path) -> Path:
    """A copy in ``folder``, by the same name; raises ``UsageError`` if there is one of that name."""
    copy = _free(path, folder)
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copyfile(path, copy)
    return copy


def _free(path: Path, folder: Path) -> Path:
    """The path of a copy in ``folder``, which is made; raises ``UsageError`` if there is one of that name."""
    copy = folder / path.resolve().name
    if copy.exists():
        raise UsageError(f"{str(copy)!r} is there already", hint="name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    return copy
