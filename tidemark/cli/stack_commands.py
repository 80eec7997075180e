"""``tidemark up``, ``down``, ``status`` and ``doctor``: operate the stack by hand.

Progress is shown on a terminal only; ``--json`` prints one object. Nothing heavy is imported here, so that ``up``
returns at once if the stack runs.
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
from tidemark.errors import EXIT_TESTBED, EXIT_VALID, UsageError
from tidemark.paths import BACKEND_VARIABLE

if TYPE_CHECKING:
    from tidemark.stack import Stack
    from tidemark.stack.spec import StackSpec

SparkOption = Annotated[
    Path | None,
    typer.Option(
        "--spark", metavar="PYTHON", help="The Python interpreter whose PySpark to run. Default: this one."
    ),
]
KINDS = {"local": "local processes", "compose": "containers", "external": "external"}
Backend = Annotated[
    str | None,
    typer.Option(
        envvar=BACKEND_VARIABLE,
        help="local (processes), compose (containers) or external. Default: that of the running stack, else "
        "compose where a container engine and Compose are available.",
    ),
]
BootstrapInside = Annotated[
    str, typer.Option(help="external: Kafka's HOST:PORT as Spark sees it, if different.")
]
ExternalLogin = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="external: settings of Kafka's client (a login), NAME=VALUE in each line; default:"
        " TIDEMARK_KAFKA_CONF.",
    ),
]
LoginInside = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="external: the login in Kafka's Java names, in a file that driver and executors see; default: each"
        " run writes one below --shared-dir.",
    ),
]
KafkaVersion = Annotated[
    str,
    typer.Option(
        "--kafka",
        metavar="VERSION",
        help="local: brokers of another version of Kafka: 3.9.2 or 4.1.1. Default: that of the stack.",
    ),
]
KafkaSecurity = Annotated[
    str,
    typer.Option(
        metavar="LOGIN",
        help="local, compose: brokers that want a login over TLS: sasl-plain, sasl-scram, mtls. The client's"
        " settings are shown.",
    ),
]
SharedDir = Annotated[
    Path | None,
    typer.Option(help="external: a folder that Spark and this machine share under the same path."),
]
_MIB = 1 << 20


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("up")(up_command)
    app.command("down")(down_command)
    app.command("status")(status_command)
    app.command("doctor")(doctor_command)


def up_command(
    backend: Backend = None,
    workers: Annotated[int, typer.Option(help="Spark workers.")] = 2,
    brokers: Annotated[int, typer.Option(help="Kafka brokers: 1, or 3 to survive the loss of one.")] = 1,
    kafka_port: Annotated[int | None, typer.Option(help="Kafka's port. Default: a free port.")] = None,
    spark: SparkOption = None,
    bootstrap: Annotated[str, typer.Option(help="external: Kafka's HOST:PORT as this machine sees it.")] = "",
    bootstrap_inside: BootstrapInside = "",
    remote: Annotated[
        str,
        typer.Option(
            help="external: the Spark Connect server, sc://HOST:PORT, or sc://HOST:PORT/;token=@FILE;…"
        ),
    ] = "",
    kafka_conf: ExternalLogin = None,
    kafka_conf_inside: LoginInside = "",
    registry: Annotated[bool, typer.Option("--registry", help="Start a schema registry, too.")] = False,
    kafka: KafkaVersion = "",
    kafka_security: KafkaSecurity = "",
    shared_dir: SharedDir = None,
    as_json: AsJson = False,
) -> None:
    """Start the stack, or reuse the running one if it was asked for in the same way; it lives until `tidemark down`.

    A running stack with other settings, say another number of brokers, is ended first, with its topics, unless in use.
    """
    from tidemark.formats.client_settings import conf_from_environment
    from tidemark.stack import StackSpec, up
    from tidemark.stack.backend_choice import backend_to_start
    from tidemark.stack.spec import External

    began = time.monotonic()
    chosen, why = backend_to_start(backend)
    external = None
    if bootstrap or remote or shared_dir is not None or chosen == "external":
        conf = kafka_conf or conf_from_environment()
        login = "" if conf is None else str(conf.absolute())
        shared = str((shared_dir or Path()).absolute())
        external = External(bootstrap, remote, shared, bootstrap_inside, login, kafka_conf_inside)
        _must_be_own(chosen, workers=workers, brokers=brokers, kafka_port=kafka_port)
    else:
        _must_not_be_external(chosen, kafka_conf, kafka_conf_inside, bootstrap_inside)
    spec = StackSpec(
        chosen, spark or Path(sys.executable), workers, kafka_port, brokers, external,
        registry=registry, kafka=kafka, kafka_security=kafka_security,
    )  # fmt: skip
    with _progress(as_json) as say:
        stack = up(spec, progress=say)
    described = {**_described(stack), "seconds": round(time.monotonic() - began, 2), "why": why}
    typer.echo(json.dumps(described) if as_json else "\n".join(_up_lines(described)))


def _must_be_own(backend: str, **options: int | None) -> None:
    """Refuse what says how a stack is made where somebody else made it; the names are those of ``StackSpec``."""
    from tidemark.stack import StackSpec

    for name, given in options.items():
        if given != getattr(StackSpec, name):
            raise UsageError(
                f"--{name.replace('_', '-')} is given, and the backend is {backend}",
                detail="tidemark starts nothing of an external stack",
                hint="leave it out",
            )


def _must_not_be_external(backend: str, conf: Path | None, conf_inside: str, bootstrap_inside: str) -> None:
    """Refuse what says how a stack of somebody else is reached."""
    if conf is not None or conf_inside:
        raise UsageError(
            f"--kafka-conf is given, and the backend is {backend}",
            detail="it has the login of a Kafka that somebody else operates",
            hint="for brokers of a stack of your own that want a login: --kafka-security",
        )
    if bootstrap_inside:
        raise UsageError(
            f"--bootstrap-inside is given, and the backend is {backend}",
            detail="it is Kafka's address for the Spark of an external stack",
            hint="leave it out, or give --backend external with --bootstrap, --remote and --shared-dir",
        )


def _up_lines(described: dict[str, Any]) -> Iterator[str]:
    versions = described["versions"]
    shown = ", ".join(
        f"{name.capitalize()} {versions[name]}" for name in ("kafka", "spark") if name in versions
    )
    yield f"up after {described['seconds']:.1f} s: {shown}"
    yield f"  backend        {KINDS[described['backend']]} ({described['why']})"
    yield f"  Kafka          {described['bootstrap_servers']}"
    if described["kafka_conf"]:
        yield f"  its login      {described['kafka_conf']} (--kafka-conf)"
    yield f"  Spark Connect  {described['remote']}"
    if described["registry"]:
        yield f"  registry       {described['registry']}"
    yield f"  state          {described['state_dir']}"


def down_command(as_json: AsJson = False) -> None:
    """End the stack, even if it is in use, and remove its data."""
    from tidemark.stack import down

    with _progress(as_json) as say:
        say("ending the stack")
        ended = down()
    typer.echo(json.dumps({"ended": ended}) if as_json else "down" if ended else "no stack was running")


def status_command(as_json: AsJson = False) -> None:
    """Show the components of the stack; exit code 4 if one of them does not run."""
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
        typer.echo("no stack is running; `tidemark up` starts one")
    else:
        typer.echo(f"{'COMPONENT':12} {'STATE':8} {'PID':>8} {'MiB':>6}  ADDRESS")
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
    """Check everything that a stack needs, and show what to do; exit code 4 if a stack cannot start."""
    from tidemark.stack.doctor import CheckStatus, examine

    results = examine(_spec(spark))
    if as_json:
        typer.echo(json.dumps([vars(result) for result in results]))
    else:
        for result in results:
            good = result.status is CheckStatus.GOOD
            lines = [*result.text.splitlines(), *([] if good or not result.hint else [f"-> {result.hint}"])]
            typer.echo(f"{result.status:8} {result.name:9} " + f"\n{'':19}".join(lines))
    failed = any(result.status is CheckStatus.BAD for result in results)
    raise typer.Exit(EXIT_TESTBED if failed else EXIT_VALID)


def _spec(spark: Path | None) -> StackSpec:
    from tidemark.stack import spec_to_lease

    return spec_to_lease(spark)


def _described(stack: Stack) -> dict[str, Any]:
    return {
        "backend": stack.spec.backend,
        "bootstrap_servers": stack.bootstrap_servers,
        "kafka_conf": str(stack.kafka_conf) if stack.kafka_conf is not None else "",
        "remote": next(
            (component.address for component in stack.status() if component.name == "driver"), None
        ),
        "registry": stack.registry,
        "state_dir": str(stack.state_dir),
        "versions": stack.versions,
    }


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[str], None]]:
    """On a terminal a spinner with the current step, else nothing."""
    if as_json or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking for a running stack") as spinner:
        yield spinner.update
