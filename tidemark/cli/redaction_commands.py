"""``tidemark redact DIR --to DIR2``: evidence that is there already, redacted. Free of Kafka and Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.shared_options import RedactSalt


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("redact")(redact_command)


def redact_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
    to: Annotated[
        Path, typer.Option(metavar="DIR2", help="Where the redacted evidence goes: a new directory.")
    ],
    redact_salt: RedactSalt = None,
) -> None:
    """Write a run directory without its data: ids and keys as salted hashes, no other values; times and offsets stay.

    It is sealed, and `tidemark check` gives the same verdict and the same findings. The original is read only. Exit
    code 2: the evidence cannot be read, is not as it was sealed, or is of a contract that cannot be redacted.
    """
    from tidemark.redaction import Redactor

    made = Redactor(redact_salt).redact(directory, to)
    records = ", ".join(f"{name} {count:,}" for name, count in made.manifest.records.items())
    typer.echo(f"{to}: redacted ({records})")
