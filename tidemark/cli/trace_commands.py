"""``tidemark replay`` and ``tidemark record``: traces into Kafka, and out of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.live_view import is_live
from tidemark.cli.run_commands import check_salt
from tidemark.cli.shared_options import AsJson, KafkaConf, Redact, RedactSalt
from tidemark.errors import UsageError
from tidemark.formats.trace import PACES, Header, Pace, TraceReader

if TYPE_CHECKING:
    from tidemark.formats.contract import Contract
    from tidemark.kafka.record import RecordOptions
    from tidemark.redaction import Redactor
    from tidemark.runner.run_options import Report

Bootstrap = Annotated[str, typer.Option(help="HOST:PORT of a broker; the running stack's if not said.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="LOGICAL=TOPIC; repeatable. The same name if not said.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("replay")(replay_command)
    app.command("record")(record_command)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command("producers", context_settings=passed_on)(producers_command)


def producers_command(context: typer.Context) -> None:
    """`python -m producers ARGS`, wherever it is installed: generate, flights, samples, replay, sentinels."""
    import subprocess
    import sys

    from tidemark.formats.client_settings import CONF_VARIABLE
    from tidemark.runner.programs import program_environment

    command = [sys.executable, "-P", "-m", "producers", *context.args]
    environment = program_environment(None)
    if os.environ.get(CONF_VARIABLE):
        environment[CONF_VARIABLE] = os.environ[CONF_VARIABLE]
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)


def replay_command(
    trace: Annotated[Path, typer.Argument(help="The trace to publish.")],
    bootstrap: Bootstrap = "",
    topic: Topics = None,
    pace: Annotated[str, typer.Option(help=f"{', '.join(PACES)}; the trace's own if not said.")] = "",
    speed: Annotated[float, typer.Option(min=0.001, help="Of the pace timed: 1 is real time.")] = 1.0,
    checkpoint: Annotated[Path | None, typer.Option(help="Of the query to follow, at pace stepped.")] = None,
    timeout_s: Annotated[float, typer.Option(help="For one slice to be processed.")] = 300.0,
    create: Annotated[bool, typer.Option("--create", help="Create the topics that are missing.")] = False,
    kafka_conf: KafkaConf = None,
    as_json: AsJson = False,
) -> None:
    """Publish a trace: the same partitions, order, keys, headers and timestamps."""
    with TraceReader(trace) as reader:
        header = reader.header
    chosen = _pace(pace or header.pace)
    _must_be_of_pace(chosen, checkpoint, speed)
    broker, conf = broker_and_conf(bootstrap, kafka_conf)
    topics = _topics(topic, list(header.topics))
    if create:
        _create_missing(broker, header, topics)
    if checkpoint is not None:
        from tidemark.runner.trace_replay import ReplayOptions, replay_stepped

        with _bar("slices published", as_json) as report:
            options = ReplayOptions(
                broker=broker, kafka_conf=conf, topics=topics, checkpoint=checkpoint, batch_s=timeout_s,
                report=report,
            )  # fmt: skip
            done = replay_stepped(trace, options)
        _say(
            {"done": True, "records": done.records, "batches": done.batches, "torn_slices": done.torn},
            as_json,
        )
        return
    from tidemark.kafka.connection import connected_admin
    from tidemark.runner.trace_replay import replay_by_itself

    pairs = [f"--topic={name}={actual}" for name, actual in topics.items()]
    connected_admin(broker)
    login = [f"--kafka-conf={conf}"] if conf is not None else []
    arguments = [str(trace), "--bootstrap", broker["bootstrap.servers"], *login, *pairs]
    arguments += ["--pace", chosen, "--speed", str(speed)]
    code = replay_by_itself(arguments)
    if code:
        raise typer.Exit(code)


def _must_be_of_pace(chosen: str, checkpoint: Path | None, speed: float) -> None:
    """Refuse options that say something of another pace, and ``stepped`` without a checkpoint."""
    if chosen == "stepped" and checkpoint is None:
        raise UsageError(
            "the pace 'stepped' publishes a slice when the one before has been processed",
            hint="name the checkpoint of the query to follow (--checkpoint DIR), or give --pace backlog",
        )
    for is_given, option, needed in (
        (checkpoint is not None, "--checkpoint", "stepped"),
        (speed != 1.0, "--speed", "timed"),
    ):
        if is_given and chosen != needed:
            raise UsageError(
                f"{option} is given, and the pace is {chosen!r}",
                detail=f"it says something of the pace {needed!r} alone",
                hint=f"leave it out, or give --pace {needed}",
            )


def record_command(
    out: Annotated[Path, typer.Option(help="The trace to write; a name in .zst is compressed.")],
    topic: Topics = None,
    bootstrap: Bootstrap = "",
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A run directory or an audit, in the place of topics: its batches become the slices.",
        ),
    ] = None,
    pace: Annotated[
        str, typer.Option(help="What the trace's header says; timed if not said, of a run stepped.")
    ] = "",
    slice_s: Annotated[float, typer.Option(min=0, help="Arrival time in a slice; 0: one slice.")] = 0.0,
    contract: Annotated[Path | None, typer.Option(help="JSON; tells how to read event times.")] = None,
    kafka_conf: KafkaConf = None,
    redact: Redact = False,
    redact_salt: RedactSalt = None,
    as_json: AsJson = False,
) -> None:
    """Make a trace of what is in topics of any Kafka, or of what a run read.

    With --run the trace is that of a run, or of an audited query, and a slice is what one of its batches read:
    published at the pace stepped, the same records share a batch again.

    With --redact, which needs --contract, the trace has salted hashes for ids and keys and no other values; the
    contract of its records is written beside it: NAME.contract.json.
    """
    from tidemark.kafka.record import RecordOptions

    check_salt(redact=redact, salt=redact_salt)
    _must_have_folder(out)
    if run is not None:
        given = {
            "--topic": topic, "--bootstrap": bootstrap, "--slice-s": slice_s, "--contract": contract,
            "--kafka-conf": kafka_conf, "--redact": redact,
        }  # fmt: skip
        _cut(run, out, _pace(pace or "stepped"), [name for name, value in given.items() if value], as_json)
        return
    pairs = _pairs_to_record(topic, has_contract=contract is not None, redact=redact)
    broker, _ = broker_and_conf(bootstrap, kafka_conf)
    options = RecordOptions(
        topics=pairs, pace=_pace(pace or "timed"), slice_s=slice_s, contract=_contract(contract)
    )
    redactor = _redactor(redact_salt, options) if redact else None
    with _bar("records read", as_json) as report:
        done = _recorded(broker, options, out, report, redactor)
    _say(done, as_json)


def _must_have_folder(out: Path) -> None:
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {str(out.parent)!r}", hint="make it first")


def _pairs_to_record(topic: Sequence[str] | None, *, has_contract: bool, redact: bool) -> dict[str, str]:
    """The topics to record, by their logical names; raises ``UsageError`` if none is named."""
    if redact and not has_contract:
        raise UsageError(
            "--redact is given without --contract",
            hint="a contract says which fields are ids, keys and times",
        )
    if not topic:
        raise UsageError(
            "no topic to record", hint="add --topic impressions=TOPIC --topic clicks=TOPIC, or --run DIR"
        )
    return dict(map(pair, topic))


def _cut(run: Path, out: Path, pace: Pace, given: Sequence[str], as_json: bool) -> None:
    """Cut the trace of a run by its batches; ``given`` are options that are about topics."""
    from tidemark.formats.batch_slices import cut_by_batches
    from tidemark.formats.evidence import open_run

    if given:
        raise UsageError(
            f"--run is given with {', '.join(given)}",
            detail="a run directory has the records already, and says which batch read them",
            hint="leave out one or the other",
        )
    done = cut_by_batches(open_run(run), out, pace)
    said = {"trace_sha256": done.sha256, "counts": done.header.counts, "slices": done.header.slices}
    _say({**said, **done.left_out, "trace": str(out)} | ({"notes": done.notes} if as_json else {}), as_json)
    for note in () if as_json else done.notes:
        sys.stdout.write(f"{'note':<14}{note}\n")


def _redactor(salt: Path | None, options: RecordOptions) -> Redactor:
    """What redacts the records of a contract, which can be."""
    from tidemark.redaction import Redactor

    redactor = Redactor(salt)
    if options.contract is not None:
        redactor.must_be_able(options.contract)
    return redactor


def _recorded(
    broker: Mapping[str, str], options: RecordOptions, out: Path, report: Report, redactor: Redactor | None
) -> dict[str, Any]:
    """Record, and redact what was recorded; what is to be said of the trace."""
    from tidemark.kafka.record import record
    from tidemark.redaction import clear_evidence

    def read(done: int) -> None:
        report("read", done, 0)

    place = None
    if redactor is None or options.contract is None:
        sha256, header = record(broker, options, out, read)
    else:
        with clear_evidence(out) as folder:
            _, header = record(broker, options, folder / out.name, read)
            sha256, place = redactor.redact_trace(folder / out.name, options.contract, out)
    said = {"trace_sha256": sha256, "counts": header.counts, "slices": header.slices, "trace": str(out)}
    return said if place is None else {**said, "contract": str(place)}


def broker_and_conf(bootstrap: str, kafka_conf: Path | None) -> tuple[dict[str, str], Path | None]:
    """The settings of a client of the broker that is named, or else of the running stack's; and their file.

    Raises ``UsageError`` if none is named and none runs, and for a file that is none.
    """
    from tidemark.formats.client_settings import broker_settings, conf_from_environment
    from tidemark.runner.kafka_access import conf_of
    from tidemark.stack import current

    if bootstrap:
        conf = kafka_conf or conf_from_environment()
        return broker_settings(bootstrap, conf), conf
    stack = current()
    if stack is None:
        raise UsageError("no stack runs", hint="`tidemark up` starts one; or name a broker (--bootstrap)")
    conf = conf_of(stack, kafka_conf)
    return broker_settings(stack.bootstrap_servers, conf), conf


def _create_missing(broker: Mapping[str, str], header: Header, topics: dict[str, str]) -> None:
    from tidemark.kafka import client as kafka

    there = kafka.partitions(broker)
    wanted = {topics[name]: spec.partitions for name, spec in header.topics.items()}
    missing = {name: n for name, n in wanted.items() if name not in there}
    kafka.create_topics(broker, missing, [topics[name] for name in header.compacted])


def _topics(pairs: Sequence[str] | None, logical: Sequence[str]) -> dict[str, str]:
    given = dict(map(pair, pairs or ()))
    for name in given:
        if name not in logical:
            raise UsageError(f"the trace has no topic {name!r}", hint=f"it has {', '.join(logical)}")
    return {name: given.get(name, name) for name in logical}


def _pace(text: str) -> Pace:
    for pace in PACES:
        if pace == text:
            return pace
    raise UsageError(f"there is no pace {text!r}", hint=f"choose one of {', '.join(PACES)}")


def pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE``; raises ``UsageError`` for anything else."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"cannot read {text!r}", hint="write NAME=VALUE")
    return name, value


def _contract(path: Path | None) -> Contract | None:
    if path is None:
        return None
    from tidemark.formats.contract_files import join_of_file

    return join_of_file(path)


def _say(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(done) + "\n")
        return
    for name, value in done.items():
        if value is not None and value is not True and value not in ([], {}):
            shown = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else value
            sys.stdout.write(f"{name.replace('_', ' '):<14}{shown}\n")


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Report]:
    """A bar on a terminal, nothing elsewhere."""
    if not is_live(quiet=quiet):
        yield lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda _what, done, total: progress.update(task, completed=done, total=total or None)
