"""Writes the pages of docs/reference that the source says: ``python -m docs.generate``.

Command line, pytest fixtures, formats, faults, properties, exit codes, and what a stack has of ports, images and
variables. The pages are committed, so that they can be read where the code is; a test compares them with their source.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from docs.environment import VARIABLES
from docs.markdown import inline, markdown, table
from tidemark import errors, pytest_plugin
from tidemark.faults import schedule
from tidemark.formats import (
    avro_records,
    chain,
    contract,
    csv_records,
    events,
    evidence,
    json_schema_records,
    kafka_record,
    protobuf_records,
    record_fields,
    registry_schemas,
    time_forms,
    trace,
)
from tidemark.formats.faults import AMOUNTS, POINTS
from tidemark.oracle import findings
from tidemark.runner import RunOptions
from tidemark.stack.components import launch_specs, ports
from tidemark.stack.install import jars, schema_registry
from tidemark.stack.spec import OTHER_KAFKAS

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Written by `python -m docs.generate`; not to be edited by hand. -->"
WIDTH = 100
FAULT_FORM = (
    "A fault is `COMPONENT[:ACTION[=AMOUNT]][@POINT][~SECONDS][*COUNT or *until=30s]`; a schedule joins "
    "them by commas, those that overlap by `+`: [inject faults](../howto/inject-faults.md#faults-that-overlap)."
)
FAULT_WORDS = (
    "Without `:ACTION` it is a `kill`, which `registry` has not; a pause, an outage or a fault of the network lasts "
    "{seconds:g} second; it is done once. `executors` are all executors at once; `leader` is the broker that leads a "
    "partition of the output, `coordinator` the one that coordinates the ledger of a sink partition: both need "
    "a stack of three brokers; `kill-twice` kills the next driver, too, while it runs the batch again. "
    "A killed driver is started again at once, or has a standby (`--standby`); a killed executor is replaced by "
    "Spark. `--kill-executors 3` is "
    "`executor*3`, `--kill-drivers 3` is `driver@written*3`. `cut` and what begins with it, `delay`, `jitter`, "
    "`throttle`, `loss` and `reset` disturb the network: of a broker that to Spark, of an executor that to its driver "
    "and to other executors (without `delay` and `jitter`), of `registry` that to the query "
    "(on local processes alone); {amounts} have an amount. "
    "A fault that could not be injected at its point makes the run `UNKNOWN`."
)
PORT_WORDS = (
    "A free port is one from 15000 up to the range that the system uses for outgoing connections; `tidemark status` "
    "shows those of the running stack. `--kafka-port` asks for one of Kafka's. Spark's web pages are off."
)
IMAGE_WORDS = (
    "The backend `compose` has one image, `tidemark:` and a tag made of its content, from `{base}`: Debian's Java, "
    "Python and iptables (workers and brokers have `NET_ADMIN` for their own network), the wheels of "
    "`compose/requirements.lock` and the jars of `tidemark/stack/install/jars.lock`. Both "
    "backends run Kafka {kafka}. `tidemark up --backend local --kafka VERSION` starts brokers of {others}, from the "
    "jars of `tidemark/stack/install/brokers.lock`."
)
PYTEST_WORDS = (
    "Options of `run_pipeline(pipeline, **options)` are the fields of `RunOptions`; "
    "[the command line](cli.md#tidemark-run) describes them under the name in the last column. What it takes as words "
    'is a tuple of them, as `generator=("--aborted", "0.1", "--slices", "24")`; seconds are a number. A test takes the '
    "stack that is up, so for three brokers `tidemark up --brokers 3` comes before pytest. "
    "`driver` names a driver of the stack that no other test uses, and `send_modules` sends the project's modules to "
    "executors. `report`, `say` and `watch` are functions that are told of progress. "
    "The result has `verdict`, `run_dir`, `trace_sha256` and `command`; `assert_valid()` raises `AssertionError` for "
    "any verdict but `VALID`, so for `UNKNOWN`, too."
)
ON_COMMAND_LINE = {
    "generator": "`--generate`",
    "python": "`--spark`",
    "send_modules": "",
    "driver": "",
    "diagnosis": "`--no-diagnosis`",
    "recover_within_s": "`--recover-within`",
    "watermark_stands_at_most_s": "`--watermark-stands-at-most`",
    "hung_after_s": "`--hung-after`",
}
"""Where the name of an option in Python is not that on the command line; empty where there is none."""


SPARK_3_5_WORDS = (
    "Spark 3.5 needs Java 17, and PySpark 3.5 an interpreter of Python 3.11; its wheel has no server of Spark Connect,"
    " which is fetched with the connector. Tried is 3.5.7."
)
REGISTRY_WORDS = (
    "`tidemark up --registry` and `tidemark run --registry` start a schema registry as a component of the stack: "
    "Apicurio Registry {version}, at the address of its API for Confluent's clients, which `tidemark status` shows. It "
    "keeps schemas in memory, and ends with the stack; a stack that runs already is given one. The first time its "
    "archive is fetched (109 MB) and unpacked into the cache. The backend `compose` has none."
)


def pages() -> dict[str, str]:
    """File name -> text of each page that the source says."""
    written: dict[str, Callable[[], str]] = {
        "cli": _cli,
        "pytest": _pytest,
        "contract": _contract,
        "trace": lambda: _format("The trace", trace),
        "evidence": lambda: _format("Evidence", evidence),
        "faults": _faults,
        "properties": _properties,
        "exit-codes": _exit_codes,
        "ports-images-environment": _environment,
    }
    return {f"{name}.md": f"{NOTE}\n\n{write().strip()}\n" for name, write in written.items()}


def main() -> None:
    """Write the pages that differ."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: docs/reference/{name}", file=sys.stderr)


def _cli() -> str:
    programs = {"tidemark": "tidemark.cli", "python -m producers": "producers.__main__"}
    shown = [
        "# Command line",
        (
            "What `--help` of each command says. In a checkout the command is `.venv/bin/tidemark`; "
            "`tidemark producers` is `python -m producers`. Of the [exit codes](exit-codes.md) 2, "
            "4 and 130 mean the same for all; those of a campaign, `contract`, `diagnose` and `versions` are in their "
            "help."
        ),
    ]
    for program, module in programs.items():
        group: Any = typer.main.get_command(importlib.import_module(module).app)
        shown += [f"## `{program}`", _help(group, program)]
        for name, command in group.commands.items():
            shown += [f"### `{program} {name}`", _help(command, f"{program} {name}")]
    return "\n\n".join(shown)


def _help(command: Any, name: str) -> str:
    """The help of one command as plain text, whatever the terminal is."""
    command.rich_markup_mode = None
    context = command.make_context(
        name, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    said = command.get_help(context).replace("\\[", "[")
    return "```text\n" + "\n".join(line.rstrip() for line in said.strip().splitlines()) + "\n```"


def _pytest() -> str:
    fields = [
        [
            f"`{field.name}`",
            f"`{inspect.formatannotation(field.type)}`".replace("'", ""),
            f"`{field.default!r}`",
            ON_COMMAND_LINE.get(field.name, f"`--{field.name.replace('_', '-')}`"),
        ]
        for field in dataclasses.fields(RunOptions)
        if isinstance(field.default, (str, int, float, tuple, type(None)))
    ]
    return "\n\n".join(
        (
            "# pytest",
            "The package brings a plugin; nothing has to be imported or switched on.",
            markdown(pytest_plugin.__doc__ or ""),
            PYTEST_WORDS,
            table(["option", "type", "default", "command line"], fields),
        )
    )


def _contract() -> str:
    kinds = ", ".join(f"`{kind}`" for kind in contract.JoinKind)
    return "\n\n".join(
        (
            _format("The contract", contract),
            f"`kind` is one of {kinds}.",
            "## Fields",
            markdown(record_fields.__doc__ or ""),
            "## Times",
            markdown(time_forms.__doc__ or ""),
            "## Decoding by functions",
            markdown(kafka_record.__doc__ or ""),
            "### Avro",
            markdown(avro_records.__doc__ or ""),
            "### Schema registries",
            markdown(registry_schemas.__doc__ or ""),
            "### JSON with a schema ID",
            markdown(json_schema_records.__doc__ or ""),
            "### Protobuf",
            markdown(protobuf_records.__doc__ or ""),
            "### CSV",
            markdown(csv_records.__doc__ or ""),
            "## How values are read",
            markdown(events.__doc__ or ""),
            "## Chains",
            markdown(chain.__doc__ or ""),
        )
    )


def _format(title: str, module: Any) -> str:
    first, _, _ = (module.__doc__ or "").partition("\n")
    return f"# {title}\n\n{inline(first.partition(': ')[2] or first).capitalize()}\n\n{markdown(module.__doc__ or '')}"


def _faults() -> str:
    rows = [
        [f"`{component}`", f"`{action}`", " ".join(f"`{point}`" for point in points)]
        for (component, action), points in POINTS.items()
    ]
    return "\n\n".join(
        (
            "# Faults",
            markdown(schedule.__doc__ or ""),
            FAULT_FORM,
            table(["component", "action", "commit points, the default first"], rows),
            FAULT_WORDS.format(seconds=_pause_s(), amounts=_amounts()),
            (
                "How a point is made, and the proof: [commit points](../explanation/commit-points.md); of the network:"
                " [to Kafka](../howto/inject-faults.md#the-network-between-spark-and-kafka) and"
                " [to executors](../howto/inject-faults.md#the-network-between-driver-and-executors)."
            ),
        )
    )


def _amounts() -> str:
    """The actions that have an amount, with what it is if nothing is said."""
    return ", ".join(f"`{action}={usual:g}{unit}`" for action, (unit, usual) in AMOUNTS.items())


def _pause_s() -> float:
    """How long a pause lasts if nothing is said."""
    [fault] = schedule.read_schedule("broker:pause")
    return fault.duration_s


def _properties() -> str:
    said = markdown(findings.__doc__ or "")
    names = ", ".join(
        f"[`{name}`](#{name})" if f"## `{name}`" in said else f"`{name}`" for name in findings.PROPERTIES
    )
    return f"# Properties\n\nEach finding names the property that is violated: {names}.\n\n{said}"


def _exit_codes() -> str:
    codes = [
        (errors.EXIT_VALID, "`VALID`, or done"),
        (errors.EXIT_INVALID, "`INVALID`: there is a finding; or what was compared differs"),
        (errors.EXIT_USAGE, "wrong usage or input"),
        (
            errors.EXIT_UNKNOWN,
            "`UNKNOWN`: nothing wrong was found, and the run did not show all that it was asked to show",
        ),
        (
            errors.EXIT_TESTBED,
            "no verdict: the testbed failed, or the query under test ended with an error of its own",
        ),
        (errors.EXIT_INTERRUPTED, "Ctrl-C, or SIGTERM"),
    ]
    rows = [[f"{code}", meaning] for code, meaning in codes]
    return (
        f"# Exit codes\n\n{table(['code', 'meaning'], rows)}\n\n## Errors\n\n{markdown(errors.__doc__ or '')}"
    )


def _environment() -> str:
    base = re.search(r"^ARG BASE=(\S+)", (ROOT / "compose" / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    kafka = re.search(r"^broker org\.apache\.kafka kafka-server (\S+)", jars.LOCK.read_text(), re.MULTILINE)
    assert kafka is not None
    connectors = [[f"{major}.{minor}", version] for (major, minor), version in jars.CONNECTORS.items()]
    variables = [[f"`{name}`", told.set_by, told.meaning] for name, told in sorted(VARIABLES.items())]
    return "\n\n".join(
        (
            "# Ports, images, environment variables",
            "## Ports",
            f"Everything that is reached from this machine listens on `{ports.LOOPBACK}` only.",
            table(["component", "backend `local`", "backend `compose`"], _port_rows()),
            PORT_WORDS,
            "## Images and versions",
            IMAGE_WORDS.format(base=base[1], kafka=kafka[1], others=", ".join(OTHER_KAFKAS)),
            table(["Spark", "Kafka connector"], connectors),
            SPARK_3_5_WORDS,
            REGISTRY_WORDS.format(version=schema_registry.archive().version),
            "Memory of each container, from `compose/compose.yaml`:",
            table(["service", "limit"], _memory_rows()),
            "## Environment variables",
            table(["variable", "set by", "meaning"], variables),
        )
    )


def _port_rows() -> list[list[str]]:
    inside = launch_specs.INSIDE_PORT
    return [
        [
            "Kafka",
            "a free port for each broker, and one for each controller",
            f"a free port published; {inside} inside",
        ],
        ["Spark master", "a free port", f"{_health_port('master')} inside"],
        ["Spark worker", "a free port for each", f"{_health_port('worker-1')} inside"],
        ["driver (Spark Connect)", "a free port", "the same port inside, published"],
        ["schema registry, where one is asked for", "a free port", "none"],
        [
            "network proxy, where a schedule disturbs the network",
            "a free port for each broker, and of its control",
            "free ports published",
        ],
    ]


def _services() -> dict[str, str]:
    """Service of the Compose file -> its lines."""
    text = (
        (ROOT / "compose" / "compose.yaml")
        .read_text()
        .partition("\nservices:\n")[2]
        .partition("\nnetworks:")[0]
    )
    parts = re.split(r"^  ([\w-]+):.*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _health_port(service: str) -> str:
    found = re.search(r"/dev/tcp/[^/]+/(\d+)", _services()[service])
    assert found is not None, service
    return found[1]


def _memory_rows() -> list[list[str]]:
    shown, last = [], ""
    for name, text in _services().items():
        limit = re.search(r"mem_limit: (\w+)", text)
        last = limit[1] if limit else last
        shown.append([f"`{name}`", last])
    return shown


if __name__ == "__main__":
    main()
