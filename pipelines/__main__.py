"""Runs one pipeline: ``python -m pipelines NAME``, or a file of the user: ``python -m pipelines PATH.py``.

``--describe`` prints the contract as JSON. Without it, the program starts the query on a driver (``--remote``) and
prints JSON lines: ``{"event": "started", ...}``, then an answer to each command on its standard input (``status``;
``stop``; after ``stop`` also ``state JSON``, which writes the join's state to a file), and ``{"event": "failed", ...}``
if the query has failed. With ``--wait`` it first answers each line ``plan`` with ``{"event": "plan", ...}``, the
physical plan as text, and starts the query at the first other line. The end of standard input stops the query, so no
query outlives the process that started it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pipelines
from pipelines.described import read_contract
from pipelines.query import SINKS, build_records, explain, open_session, start_records
from pipelines.query_server import QueryServer, say
from tidemark.errors import TestbedError, TidemarkError, UsageError

if TYPE_CHECKING:
    from types import ModuleType, SimpleNamespace

    from pyspark.sql import DataFrame, SparkSession

NOT_PIPELINES = {
    "__main__",
    "checkpoint_state",
    "codec",
    "described",
    "failure",
    "query",
    "query_server",
    "schemas",
    "session_server",
    "side_columns",
    "state",
}


def names() -> list[str]:
    """The names of the bundled pipelines, one file each."""
    found = pkgutil.iter_modules(pipelines.__path__)  # also works inside a zip
    return sorted(module.name for module in found if module.name not in NOT_PIPELINES)


def load(name: str) -> ModuleType | SimpleNamespace:
    """The pipeline of this name, Python file or contract file (``.json``); raises ``UsageError``."""
    if name.endswith(".json"):
        return read_contract(name)
    if name.endswith(".py"):
        spec = importlib.util.spec_from_file_location("pipeline_of_user", name)
        if not Path(name).is_file() or spec is None or spec.loader is None:
            raise UsageError(f"there is no pipeline file {name!r}", hint="give the path of a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    elif name in names():
        module = importlib.import_module(f"pipelines.{name}")
    else:
        raise UsageError(
            f"there is no pipeline {name!r}",
            hint=f"the bundled pipelines are {', '.join(names())}; or give the path of a Python file",
        )
    for needed in ("CONTRACT", "build"):
        if not hasattr(module, needed):
            raise UsageError(
                f"pipeline {name!r} has no {needed}",
                hint="a pipeline has a CONTRACT and a function build(left, right); see pipelines/inner.py",
            )
    return module


def main() -> int:
    """Parse the command line, run, return the exit code."""
    args = _arguments()
    try:
        module = load(args.pipeline)
        if args.describe:
            print(json.dumps(module.CONTRACT.to_json()))
            return 0
        with open_session(args) as session:
            records = build_records(session, module, args)
            if args.wait and not _is_started(session, records):
                return 0
            query = start_records(records, module, args)
            say("started", query_id=str(query.id), run_id=str(query.runId))
            columns = getattr(module, "COLUMNS", module.CONTRACT)
            return _serve(QueryServer(session, query, args.checkpoint, columns))
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _is_started(session: SparkSession, records: DataFrame) -> bool:
    """Answer lines ``plan`` until another line comes. Whether one came: False at the end of input."""
    while (line := sys.stdin.readline()).strip() == "plan":
        say("plan", **explain(session, records))
    return line != ""


def _serve(server: QueryServer) -> int:
    """Answer commands until the end of input; a query that has failed ends the program."""
    for line in sys.stdin:
        answer = server.failure() or server.answer(line)
        say(**answer)
        if answer["event"] == "failed":
            return TestbedError.exit_code
    server.query.stop()
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    parser.add_argument("pipeline", help=f"one of {', '.join(names())}, or the path of a Python file")
    parser.add_argument("--describe", action="store_true", help="print the contract as JSON and exit")
    parser.add_argument("--remote", help="the driver: sc://HOST:PORT/;session_id=UUID")
    parser.add_argument("--bootstrap", help="Kafka's bootstrap servers, HOST:PORT[,...]")
    parser.add_argument(
        "--input", type=_pair, action="append", default=[], help="LOGICAL=TOPIC; once for each input"
    )
    parser.add_argument("--output", help="the output topic")
    parser.add_argument("--sink", choices=SINKS, default=SINKS[0], help="the sink (default: %(default)s)")
    parser.add_argument("--checkpoint", help="the checkpoint folder, as a path on the driver")
    parser.add_argument("--query-name", default="tidemark", help="the query's name in Spark")
    parser.add_argument("--trigger-ms", type=int, default=0, help="processing-time trigger, in milliseconds")
    parser.add_argument(
        "--max-offsets", type=_pair, action="append", default=[], help="LOGICAL=maxOffsetsPerTrigger"
    )
    parser.add_argument("--wait", action="store_true", help="start the query only at a line of input")
    parser.add_argument(
        "--conf", type=_pair, action="append", default=[], help="NAME=VALUE, a setting of the session"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
