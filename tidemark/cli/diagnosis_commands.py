"""``tidemark diagnose DIR``: which other contract, or which delivery, would make a red run right.

Free of Spark and Kafka. Writes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("diagnose")(diagnose)


def diagnose(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as one JSON object.")] = False,
    budget: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long to search, in seconds.")
    ] = 10.0,
) -> None:
    """Say which other contract, or which delivery, would make a red run right.

    The judge is asked again with other contracts (kind, bound, delays, policy, keys, filters, steps), other rules of
    Spark and other deliveries, one change first, then two. Exit code 0: there is an answer, or nothing is wrong; 1:
    nothing that was asked about explains all findings.
    """
    import msgspec

    from tidemark import public_api

    found = public_api.diagnose(directory, budget_s=budget)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        for line in found.lines():
            typer.echo(line)
    raise typer.Exit(1 if found.outcome in ("unexplained", "not asked") else 0)
