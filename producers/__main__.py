"""The command line of the producers: ``python -m producers generate | flights | samples | replay | sentinels``.

Every command prints one JSON line on standard output; progress and errors go to standard error. The exit codes are
those of ``tidemark.errors``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from producers import generate_options as options
from producers.generate_options import Out
from producers.progress import progress_bar
from producers.settings import Settings, parse_pace
from tidemark.errors import EXIT_INTERRUPTED, TidemarkError, UsageError
from tidemark.formats.chain import Chain
from tidemark.formats.client_settings import CONF_VARIABLE, read_client_settings
from tidemark.formats.contract_files import contract_of_file
from tidemark.formats.sample_records import read_sample
from tidemark.formats.trace import Header, TraceReader, must_be_json_lines, write_trace

CONNECT_S = 10.0
"""Calibration: a running broker answers a metadata request in milliseconds, one that is starting within 5 s."""

STDIN = 0

app = typer.Typer(
    name="python -m producers",
    help="Generates traces and publishes them to Kafka.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
DEFAULTS = Settings()
KafkaConf = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=CONF_VARIABLE,
        show_envvar=False,
        help="Settings of Kafka's client (a login), NAME=VALUE in each line; default: TIDEMARK_KAFKA_CONF.",
    ),
]


@app.command()
def generate(
    out: Out,
    seed: options.Seed = DEFAULTS.seed,
    impressions: options.Impressions = DEFAULTS.impressions,
    ctr: options.Ctr = DEFAULTS.ctr,
    slices: options.SliceCount = DEFAULTS.slices,
    pace: options.Pace = DEFAULTS.pace,
    lateness: options.Lateness = DEFAULTS.lateness,
    partitions: options.Partitions = DEFAULTS.partitions,
    unreadable: options.Unreadable = DEFAULTS.unreadable,
    null_keys: options.NullKeys = DEFAULTS.null_keys,
    duplicates: options.Duplicates = DEFAULTS.duplicates,
    changed_duplicates: options.ChangedDuplicates = DEFAULTS.changed_duplicates,
    moved_duplicates: options.MovedDuplicates = DEFAULTS.moved_duplicates,
    key_skew: options.Skew = DEFAULTS.key_skew,
    silent: options.Silent = DEFAULTS.silent,
    events_per_second: options.EventsPerSecond = DEFAULTS.events_per_second,
    bursts: options.Bursts = DEFAULTS.bursts,
    transactions: options.TransactionShare = DEFAULTS.transactions,
    aborted: options.Aborted = DEFAULTS.aborted,
    compacted: options.Compacted = DEFAULTS.compacted,
    edges: options.Edges = DEFAULTS.edges,
    impression_delay_ms: options.WatermarkDelay = DEFAULTS.delays_ms[0],
    click_delay_ms: options.WatermarkDelay = DEFAULTS.delays_ms[1],
    bound_ms: options.BoundMs = DEFAULTS.bound_ms,
) -> None:
    """Generate a trace of ad impressions and clicks."""
    given = dict(locals())
    from producers.generate import write

    names = {field.name for field in fields(Settings)}
    settings = Settings(
        **{name: value for name, value in given.items() if name in names and name != "pace"},
        pace=parse_pace(pace),
        delays_ms=(impression_delay_ms, click_delay_ms),
    )
    sha256, header = write(settings, writable(out))
    print_trace(sha256, header)


@app.command()
def flights(
    out: Out,
    month: Annotated[int, typer.Option(min=0, max=12, help="1 to 12; 0 is the whole year.")] = 1,
    pace: Annotated[str, typer.Option(help="stepped, backlog or timed.")] = "stepped",
    slice_hours: Annotated[float, typer.Option(help="Hours of arrivals per slice.")] = 24,
) -> None:
    """Generate a trace from real data: departures from New York in 2013, and the hourly weather there."""
    from producers.flights import FlightSettings, write

    settings = FlightSettings(month=month or None, pace=parse_pace(pace), slice_hours=slice_hours)
    sha256, header = write(settings, writable(out))
    print_trace(sha256, header)


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="The trace to publish.")],
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT of a broker.")],
    topic: Annotated[
        list[str], typer.Option(help="LOGICAL=TOPIC, for each topic of the trace; repeatable.")
    ] = [],  # noqa: B006
    pace: Annotated[str, typer.Option(help="backlog or timed; default: the pace of the trace.")] = "",
    speed: Annotated[float, typer.Option(help="Speed of the pace timed: 1 is real time.")] = 1.0,
    interactive: Annotated[
        bool, typer.Option(help="Publish slice N when `publish N` is read from standard input.")
    ] = False,
    end_with_stdin: Annotated[bool, typer.Option(help="Stop when standard input is closed.")] = False,
    kafka_conf: KafkaConf = None,
    connect_s: Annotated[float, typer.Option(help="How long to wait for the broker.")] = CONNECT_S,
) -> None:
    """Publish a trace."""
    from producers.kafka_out import KafkaOut
    from producers.replay import publish_all, publish_on_request, publish_timed

    if end_with_stdin and not interactive:
        _end_with_stdin()
    with TraceReader(trace) as reader:
        topics = _topics(topic, reader.header)
        chosen = pace or reader.header.pace
        if not interactive and chosen not in ("backlog", "timed"):
            raise UsageError(
                f"the pace {chosen!r} needs a program that knows when a slice has been processed",
                hint="use --interactive, --pace backlog, or `tidemark replay --checkpoint`",
            )
        total = sum(reader.header.counts.get(name, 0) for name in reader.header.topics)
        login = read_client_settings(kafka_conf) if kafka_conf is not None else {}
        with KafkaOut(bootstrap, topics, login) as out:
            out.check_topics(reader.header, connect_s)
            if interactive:
                publish_on_request(reader.header, reader, out, commands=sys.stdin, answers=sys.stdout)
                return
            start_s = time.monotonic()
            with progress_bar("publish", total) as progress:
                if chosen == "timed":
                    records = publish_timed(reader, out, progress, speed=speed)
                else:
                    records = publish_all(reader, out, progress)
            seconds = round(time.monotonic() - start_s, 3)
            print_json({"done": True, "records": records, "seconds": seconds, "topics": dict(out.sent)})


@app.command()
def sentinels(
    contract: Annotated[Path, typer.Argument(help="The pipeline's contract, a JSON file.")],
    trace: Annotated[Path, typer.Argument(help="The trace that the sentinels follow.")],
    out: Out,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; each is a slice.")] = 1,
) -> None:
    """Make the sentinels that flush a join after a trace: one record per input, far in the future."""
    from producers.sentinels import make_sentinels

    header, records = make_sentinels(contract_of_file(contract), trace, rounds=rounds)
    print_json({"trace_sha256": write_trace(writable(out), header, records), "records": len(records)})


@app.command()
def samples(
    contract: Annotated[
        Path, typer.Argument(help="The contract of a join, as `tidemark contract --json` prints it.")
    ],
    out: Out,
    sample: Annotated[
        list[str],
        typer.Option(help="TOPIC=FILE, a file whose first line is a record as JSON; for each topic."),
    ] = [],  # noqa: B006
) -> None:
    """Make a trace of a sample record of each input: pairs at and beyond the ends of the bound, late records, …"""
    from producers.samples import sample_trace

    described = contract_of_file(contract)
    if isinstance(described, Chain):
        raise UsageError(
            f"{str(contract)!r} is the contract of a chain", hint="samples are for a single join"
        )
    files = _pairs("--sample", "TOPIC=FILE", sample)
    topics = (described.left.topic, described.right.topic)
    missing = [topic for topic in topics if topic not in files]
    if missing:
        raise UsageError(
            f"there is no sample of {' and '.join(missing)}", hint="give --sample TOPIC=FILE for each"
        )
    header, records = sample_trace(described, {topic: read_sample(Path(files[topic])) for topic in topics})
    print_json({"trace_sha256": write_trace(writable(out), header, records), "records": len(records)})


def print_trace(sha256: str, header: Header) -> None:
    """Print the result of a command that generated a trace."""
    about = {"counts": header.counts, "slices": header.slices, "goals": header.goals}
    print_json({"trace_sha256": sha256, **about})


def print_json(answer: dict[str, Any]) -> None:
    """Print a command's result, one JSON line."""
    print(json.dumps(answer), flush=True)


def _topics(pairs: list[str], header: Header) -> dict[str, str]:
    given = _pairs("--topic", "LOGICAL=TOPIC", pairs)
    for name in given:
        if name not in header.topics:
            raise UsageError(f"the trace has no topic {name!r}", hint=f"it has {', '.join(header.topics)}")
    return {name: given.get(name, name) for name in header.topics}


def _end_with_stdin() -> None:
    """Stop as by Ctrl-C when standard input is closed, so that this process does not outlive its parent."""

    def watch() -> None:
        # Not sys.stdin: a waiting thread would hold its lock and block the end of the interpreter.
        while os.read(STDIN, 4096):
            pass  # the content is ignored
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def _pairs(option: str, form: str, texts: list[str]) -> dict[str, str]:
    """The values of an option ``NAME=VALUE``, by name."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"cannot read {option} {text!r}", hint=f"write {form}")
        found[name] = value
    return found


def writable(path: Path) -> Path:
    """``path``, if a file can be written there; raises ``UsageError`` if not."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {str(path.parent)!r}", hint="create it first")
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder", hint="give the name of a file")
    must_be_json_lines(path)
    return path


def main() -> NoReturn:
    """Run a command and exit with its code; an error is printed as three lines, never as a traceback."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        app(standalone_mode=True)
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0)


if __name__ == "__main__":
    main()
