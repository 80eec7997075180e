"""``tidemark contract PIPELINE``: what a pipeline promises, and whether its plan is that of such a join.

The plan is made by a driver of the stack; nothing is started, no topic is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.shared_options import AsJson
from tidemark.errors import EXIT_INVALID, EXIT_VALID

if TYPE_CHECKING:
    from tidemark.formats.chain import Chain
    from tidemark.formats.contract import Contract
    from tidemark.runner import Placing


def register(app: typer.Typer) -> None:
    """Add ``contract`` to the command line."""
    app.command("contract")(contract_command)


def contract_command(
    pipeline: Annotated[str, typer.Argument(help="The name of a bundled pipeline, or FILE.py")],
    spark: Annotated[Path | None, typer.Option(help="Interpreter with another PySpark to plan on.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the Spark session; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold a pipeline's contract against its plan, and warn of joins that are badly placed.

    Exit code 0, or 1 where contract and plan differ.
    """
    from tidemark.runner import describe, place_pipeline
    from tidemark.stack import lease, spec_to_lease

    contract = describe(pipeline, spark)
    with lease(spec_to_lease(spark)) as stack:
        placing = place_pipeline(pipeline, contract, stack, conf=tuple(conf or ()), python=spark)
    if as_json:
        _print_json(contract, placing)
    else:
        _print(contract, placing)
    raise typer.Exit(EXIT_INVALID if placing.comparison.mismatches else EXIT_VALID)


def _print_json(contract: Contract | Chain, placing: Placing) -> None:
    import msgspec

    shown = {
        "contract": contract.to_json(),
        "mismatches": placing.comparison.mismatches,
        "not_compared": placing.comparison.not_compared,
        "warnings": placing.advice,
        "plan": placing.plan,
    }
    typer.echo(msgspec.json.encode(shown).decode())


def _print(contract: Contract | Chain, placing: Placing) -> None:
    import json

    typer.echo(json.dumps(contract.to_json(), indent=2))
    placing.tell(typer.echo)
    for sentence in placing.comparison.not_compared:
        typer.echo(f"not compared: {sentence}")
    differ, warned = len(placing.comparison.mismatches), len(placing.advice)
    typer.echo(f"{contract.name}: {differ} mismatches between contract and plan, {warned} warnings")
