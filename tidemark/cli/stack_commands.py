"""``tidemark up``, ``down``, ``status`` and ``doctor``: the stack by hand.

Quiet where the output is not a terminal; ``--json`` prints one object. ``up`` on a running stack answers at once:
nothing heavy is imported here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.shared_options import AsJson
from tidemark.errors import EXIT_TESTBED, EXIT_VALID
from tidemark.paths import BACKEND_VARIABLE

if TYPE_CHECKING:
    from tidemark.stack import Stack
    from tidemark.stack.spec import StackSpec

SparkOption = Annotated[
    Path | None,
    typer.Option(
        "--spark", metavar="PYTHON", help="An interpreter whose PySpark is to run; this one's if not said."
    ),
]
KINDS = {"local": "local processes", "compose": "containers", "external": "external"}
_MIB = 1 << 20


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("up")(up_command)
    app.command("down")(down_command)
    app.command("status")(status_command)
    app.command("doctor")(doctor_command)


def up_command(
    backend: Annotated[
        str | None,
        typer.Option(
            envvar=BACKEND_VARIABLE,
            help="local (processes), compose (containers) or external; if not said, that of the running stack, "
            "else containers where an engine and Compose answer.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Spark workers.")] = 2,
    brokers: Annotated[int, typer.Option(help="Kafka brokers: 1, or 3 of which one may be lost.")] = 1,
    kafka_port: Annotated[int | None, typer.Option(help="Kafka's port; a free one if not said.")] = None,
    spark: SparkOption = None,
    bootstrap: Annotated[
        str, typer.Option(help="external: Kafka's HOST:PORT, as this machine sees it.")
    ] = "",
    bootstrap_inside: Annotated[
        str, typer.Option(help="external: Kafka's HOST:PORT as Spark sees it, where that is another.")
    ] = "",
    remote: Annotated[str, typer.Option(help="external: the Spark Connect server, sc://HOST:PORT.")] = "",
    shared_dir: Annotated[
        Path | None,
        typer.Option(help="external: a folder that Spark and this machine see under the same path."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the stack, or find it running; it lives until `tidemark down`."""
    from tidemark.stack import StackSpec, up
    from tidemark.stack.backend_choice import backend_to_start
    from tidemark.stack.spec import External

    began = time.monotonic()
    chosen, why = backend_to_start(backend)
    external = None
    if bootstrap or remote or shared_dir is not None or chosen == "external":
        external = External(bootstrap, remote, str((shared_dir or Path()).absolute()), bootstrap_inside)
    spec = StackSpec(chosen, spark or Path(sys.executable), workers, kafka_port, brokers, external)
    with _progress(as_json) as say:
        stack = up(spec, progress=say)
    described = {**_described(stack), "seconds": round(time.monotonic() - began, 2), "why": why}
    typer.echo(json.dumps(described) if as_json else "\n".join(_up_lines(described)))


def _up_lines(described: dict[str, Any]) -> Iterator[str]:
    versions = described["versions"]
    shown = ", ".join(
        f"{name.capitalize()} {versions[name]}" for name in ("kafka", "spark") if name in versions
    )
    yield f"up after {described['seconds']:.1f} s: {shown}"
    yield f"  backend        {KINDS[described['backend']]} ({described['why']})"
    yield f"  Kafka          {described['bootstrap_servers']}"
    yield f"  Spark Connect  {described['remote']}"
    yield f"  state          {described['state_dir']}"


def down_command(as_json: AsJson = False) -> None:
    """End the stack, whoever uses it, and remove its data."""
    from tidemark.stack import down

    with _progress(as_json) as say:
        say("ending the stack")
        ended = down()
    typer.echo(json.dumps({"ended": ended}) if as_json else "down" if ended else "there was no stack")


def status_command(as_json: AsJson = False) -> None:
    """Show the parts of the stack; exit code 4 if one of them does not run."""
    from tidemark.stack import ComponentState, current

    stack = current()
    components = stack.status() if stack is not None else []
    running = bool(components) and all(component.state is ComponentState.RUNNING for component in components)
    if as_json:
        known = _described(stack) if stack is not None else {}
        shown = [
            {
                "name": component.name,
                "state": component.state.value,
                "pid": component.pid,
                "address": component.address,
                "rss_mib": component.rss_bytes // _MIB,
            }
            for component in components
        ]
        typer.echo(json.dumps({"running": running, "components": shown, **known}))
    elif stack is None:
        typer.echo("no stack runs; `tidemark up` starts one")
    else:
        typer.echo(f"{'PART':12} {'STATE':8} {'PID':>8} {'MiB':>6}  ADDRESS")
        for component in components:
            pid = "-" if component.pid is None else str(component.pid)
            typer.echo(
                f"{component.name:12} {component.state:8} {pid:>8} "
                f"{component.rss_bytes // _MIB:>6}  {component.address}"
            )
        typer.echo(
            f"{'':30} {sum(component.rss_bytes for component in components) // _MIB:>6}  {stack.state_dir}"
        )
    raise typer.Exit(EXIT_VALID if running else EXIT_TESTBED)


def doctor_command(spark: SparkOption = None, as_json: AsJson = False) -> None:
    """Look at everything that a stack needs, and say what to do; exit code 4 if one cannot start."""
    from tidemark.stack.doctor import Finding, examine

    looks = examine(_spec(spark))
    if as_json:
        typer.echo(json.dumps([vars(look) for look in looks]))
    else:
        for look in looks:
            good = look.finding is Finding.GOOD
            lines = [*look.text.splitlines(), *([] if good or not look.hint else [f"-> {look.hint}"])]
            typer.echo(f"{look.finding:8} {look.what:9} " + f"\n{'':19}".join(lines))
    raise typer.Exit(EXIT_TESTBED if any(look.finding is Finding.BAD for look in looks) else EXIT_VALID)


def _spec(spark: Path | None) -> StackSpec:
    from tidemark.stack import spec_to_lease

    return spec_to_lease(spark)


def _described(stack: Stack) -> dict[str, Any]:
    return {
        "backend": stack.spec.backend,
        "bootstrap_servers": stack.bootstrap_servers,
        "remote": next(
            (component.address for component in stack.status() if component.name == "driver"), None
        ),
        "state_dir": str(stack.state_dir),
        "versions": stack.versions,
    }


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[str], None]]:
    """A spinner with what is being done, on a terminal; else nothing."""
    if as_json or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking for a running stack") as spinner:
        yield spinner.update
