"""The command line: ``tidemark COMMAND``.

Free of work: each command module registers its commands here and does its heavy imports when it is called, so that
``tidemark up`` on a running stack answers at once. Exit codes are those of ``tidemark.errors``.
"""

from __future__ import annotations

import signal
import sys
import traceback
from typing import Annotated, NoReturn

import typer

import tidemark
from tidemark.cli import (
    audit_commands,
    chaos_commands,
    check_commands,
    contract_commands,
    conversion_commands,
    diagnosis_commands,
    fuzz_commands,
    init_commands,
    redaction_commands,
    run_commands,
    shrink_commands,
    sink_commands,
    stack_commands,
    trace_commands,
    versions_commands,
)
from tidemark.errors import EXIT_INTERRUPTED, EXIT_TESTBED, TestbedError, TidemarkError

app = typer.Typer(
    name="tidemark",
    help="Checks every output row of a Spark stream-stream join, and shows the row that is wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemark {tidemark.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Checks every output row of a Spark stream-stream join, and shows the row that is wrong."""


for _module in (
    stack_commands, init_commands, run_commands, chaos_commands, contract_commands, check_commands, diagnosis_commands,
    audit_commands, shrink_commands,
    trace_commands, sink_commands, fuzz_commands, versions_commands, conversion_commands, redaction_commands,
):  # fmt: skip
    _module.register(app)


def _refuse_a_mixture() -> None:
    """End with exit code 4 where ``tidemark/__init__.py`` is of another package: what would run is a mixture."""
    if getattr(tidemark, "DISTRIBUTION", None) is None:
        from tidemark.installation import HINT, problem

        error = TestbedError("this is not the package that it was", detail=problem() or "", hint=HINT)
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    An error is three lines, also one of the system, as of a disk that is full; an error of tidemark's own has a
    traceback. Both are exit code 4: 1 would say that a finding is there.
    """
    _refuse_a_mixture()
    # Of a job in the background a shell may have SIGINT ignored; SIGTERM ends it all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(standalone_mode=True)
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        print(f"error: {_of_system(error)}", file=sys.stderr)
        sys.exit(EXIT_TESTBED)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is no finding)
        traceback.print_exc()
        print(f"error: {_of_its_own(error)}", file=sys.stderr)
        sys.exit(EXIT_TESTBED)
    sys.exit(0)


def _of_its_own(error: Exception) -> TestbedError:
    return TestbedError(
        f"tidemark itself failed: {type(error).__name__}",
        detail="the traceback above says where; nothing was judged by it",
        hint="report it, with the command and the traceback",
    )


def _of_system(error: OSError) -> TestbedError:
    """An error of the system in the words of the others."""
    where = f"{str(error.filename)!r}: " if error.filename is not None else ""
    return TestbedError(
        f"{where}{error.strerror or error}",
        detail="the system refuses what tidemark asked of it",
        hint="see to the rights of the folder, and to the space on its disk, and run the command again",
    )
