"""Options that several commands have, in the same words."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}

Pipeline = Annotated[
    str,
    typer.Argument(
        help="A bundled one (inner, left_outer, …, flights_weather), FILE.py, a module of your project"
        " (PACKAGE.MODULE:CONTRACT), or a contract: FILE.json"
    ),
]
Trace = Annotated[Path | None, typer.Option(help="Replay this trace instead of generating one.")]
Project = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the pipeline's modules are found first; default: the project of the current folder.",
    ),
]
PyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="A .py, .zip or .whl that the pipeline needs, on the executors too; repeatable."
    ),
]
Functions = Annotated[
    str,
    typer.Option(
        metavar="FILE.py|MODULE",
        help="Where the functions are that the contract names in decode and encode: a file, or PACKAGE.MODULE;"
        " default: the pipeline's own.",
    ),
]
Jars = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A jar for driver and executors; repeatable.")
]
Packages = Annotated[
    list[str] | None,
    typer.Option(
        metavar="G:A:V", help="A package for driver and executors by its Maven coordinates; repeatable."
    ),
]
Sink = Annotated[str, typer.Option(help="exactly-once, or spark: Spark's own Kafka sink (at-least-once).")]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE for the Spark session, as spark.sql.shuffle.partitions=4; repeatable."),
]
Generate = Annotated[str, typer.Option(help="More options for `python -m producers generate`.")]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DEFECT", help="A known defect of Spark that does not make the run INVALID; repeatable."
    ),
]
Waive = Annotated[
    list[str] | None,
    typer.Option(metavar="GOAL", help="A coverage goal that the run need not meet to be VALID; repeatable."),
]
Evidence = Annotated[Path | None, typer.Option(help="Where the evidence goes; default: below runs/.")]
KafkaConf = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Settings of Kafka's client (a login), NAME=VALUE in each line, in Java's names or librdkafka's;"
        " default: TIDEMARK_KAFKA_CONF; of a stack that tidemark started, its own.",
    ),
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Keep and show no data: ids and keys as salted hashes, no other values; times and offsets stay.",
    ),
]
RedactSalt = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --redact: the salt of the hashes, 16 bytes or more, to compare two runs; default: a random one.",
    ),
]
KeepCheckpoint = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoint",
        help="Copy the query's checkpoint into the run directory at the end, of a run that failed, too: `checkpoint/`.",
    ),
]
Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="Keep a second driver ready, with executors of its own: when the driver dies, the query goes on there.",
    ),
]
NoDiagnosis = Annotated[
    bool,
    typer.Option(
        "--no-diagnosis",
        help="Of an INVALID verdict, do not look for another contract or delivery that explains it (at most 5 s).",
    ),
]
RecoverWithin = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Demand that the batch in which a fault was injected is committed so soon after it: 20s, 1m.",
    ),
]
Progress = Annotated[
    str,
    typer.Option(
        "--progress-during-faults",
        metavar="AMOUNT",
        help="Demand so many batches (1) or input rows (500rows) committed while a fault lasts: pause, outage, cut …",
    ),
]
WatermarkStands = Annotated[
    str,
    typer.Option(
        "--watermark-stands-at-most",
        metavar="TIME",
        help="Demand that the watermark never stands for longer.",
    ),
]
StateRows = Annotated[
    int | None,
    typer.Option(
        "--state-rows-at-most",
        min=0,
        metavar="N",
        help="Demand that no batch leaves more rows in Spark's state.",
    ),
]
HungAfter = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="The query has hung if it commits nothing for so long while the run waits for it: the run ends, UNKNOWN.",
    ),
]
Summary = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a summary as a document, too.")]
Log = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Each outcome goes there as it comes, a JSON line each.")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Run only what is not in --log yet; code and packages must be the same."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
MarkdownTo = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help="Also write the verdict in Markdown, for the comment of a pull request or a CI job's summary; `-` is"
        " standard output.",
    ),
]
JUnitTo = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Also write JUnit XML for CI: a suite for each run, a case for each property; `-` is standard output.",
    ),
]


def in_time(recover: str, progress: str, stands: str, rows: int | None, hung: str) -> dict[str, Any]:
    """Options of ``RunOptions`` by these five; raises ``BadParameter`` for what is no length of time."""
    return {
        "recover_within_s": seconds_of(recover, "--recover-within") if recover else None,
        "progress_during_faults": progress,
        "watermark_stands_at_most_s": seconds_of(stands, "--watermark-stands-at-most") if stands else None,
        "state_rows_at_most": rows,
        "hung_after_s": seconds_of(hung, "--hung-after"),
    }


def seconds_of(text: str, option: str = "--budget") -> float:
    """``90``, ``90s``, ``10m``, ``1.5h`` in seconds; raises ``BadParameter``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is no length of time: 90s, 10m, 1h", param_hint=option)
    return float(found[1]) * SECONDS[found[2]]


def resumed(command: str, log: Path | None) -> str:
    """The command that goes on with a campaign; empty if its outcomes are in no ``--log``."""
    return "" if log is None else f"{command} --log {shlex.quote(str(log))} --resume"
