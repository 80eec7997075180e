"""Runs one pipeline: ``python -m pipelines NAME``, or one of the user: a file, or a module of the user's project.

``--draft`` prints the plan of a function of two streams, which need have no contract. ``--describe`` prints the
contract as JSON; ``--inspect`` prints a line for tidemark: ``contract``, ``imports_at_call``
and ``starts_query``, or ``needs_session`` if the user's module can only be imported where there is a session
(``--remote``). Without them, the program starts the query on a driver and prints JSON lines: ``{"event": "started",
...}``, then an answer to each command on its standard input (``status``; ``stop``; after ``stop`` also ``state JSON``,
which writes the state to a file), and ``{"event": "failed", ...}`` if the query has failed. With ``--wait`` it
first answers each line ``plan`` with ``{"event": "plan", ...}``, the physical plan as text, and starts the query at the
first other line; the plan of a pipeline that starts its own query is empty until ``explain`` is asked for. The end of
standard input stops the query, so no query outlives the process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from pipelines.own_query import start_own
from pipelines.pipeline_loader import load, load_function, names
from pipelines.project_modules import (
    add_to_path,
    imports_at_call,
    pickle_by_value,
    project_modules,
    send_modules,
)
from pipelines.query import (
    SINKS,
    add_login,
    build_for_draft,
    build_records,
    explain,
    open_session,
    print_plan,
    start_records,
)
from pipelines.query_server import QueryServer, answers_only_on_stdout, say
from pipelines.user_errors import came_from_spark
from tidemark.errors import TestbedError, TidemarkError
from tidemark.formats.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType, SimpleNamespace
    from typing import Any

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Pipeline = ModuleType | SimpleNamespace

CONNECT = "SPARK_CONNECT_MODE_ENABLED"
"""Set by PySpark with the first session of Spark Connect; functions are those of Connect from then on."""


def main() -> int:
    """Parse the command line, run, return the exit code."""
    args = _arguments()
    add_to_path([*args.py_file, *args.path])
    answers_only_on_stdout()
    try:
        if args.remote is None:
            return _tell_without_session(args)
        with open_session(args) as session:
            if args.draft:
                return _tell_plan(session, args)
            module = load(args.pipeline, contract_only=args.contract_only)
            if args.inspect or args.describe:
                return _tell(module, args)
            pickle_by_value(_sources(module))
            if args.send:
                send_modules(session, _sources(module), args.py_file)
            query = _started(session, module, args)
            if query is None:
                return 0
            app_id = session.conf.get("spark.app.id")
            say("started", query_id=str(query.id), run_id=str(query.runId), app_id=app_id)
            is_chain = isinstance(module.CONTRACT, Chain)
            columns = module.CONTRACT if is_chain else getattr(module, "COLUMNS", module.CONTRACT)
            sources, own = lambda: _sources(module), hasattr(module, "start")
            return _serve(QueryServer(session, query, args.checkpoint, columns, sources, stops_all=own))
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _tell_plan(session: SparkSession, args: argparse.Namespace) -> int:
    """Print the plan of what a function makes of two streams, for a draft of its contract."""
    function, module = load_function(args.pipeline)
    pickle_by_value(project_modules(module))
    rows, names = build_for_draft(session, function)
    say("plan", **explain(session, lambda: print_plan(session, rows)), **names)
    return 0


def _started(session: SparkSession, module: Pipeline, args: argparse.Namespace) -> StreamingQuery | None:
    """The pipeline's query, once it is to be started; ``None`` if the input ended before."""
    if hasattr(module, "start"):
        is_wanted = not args.wait or _is_wanted(
            lambda: {"plan": "", "policy": "", "sources": _sources(module)}
        )
        return start_own(session, module, args) if is_wanted else None
    records = build_records(session, module, args)
    pickle_by_value(_sources(module))  # `build` may have imported more
    told = lambda: {**explain(session, lambda: print_plan(session, records)), "sources": _sources(module)}  # noqa: E731
    return start_records(records, module, args) if not args.wait or _is_wanted(told) else None


def _tell_without_session(args: argparse.Namespace) -> int:
    os.environ[CONNECT] = "1"
    try:
        return _tell(load(args.pipeline, contract_only=args.contract_only), args)
    except TidemarkError as error:
        if not (args.inspect and came_from_spark(error.__cause__)):
            raise
        say("described", needs_session=error.message)
        return 0


def _tell(module: Pipeline, args: argparse.Namespace) -> int:
    contract = module.CONTRACT.to_json()
    if args.inspect:
        own_module = getattr(module, "MODULE", "")
        lazily, own = imports_at_call(_sources(module), own_module), hasattr(module, "start")
        say("described", contract=contract, imports_at_call=lazily, starts_query=own)
    else:
        print(json.dumps(contract), file=sys.__stdout__)
    return 0


def _sources(module: Pipeline) -> dict[str, str]:
    """The modules of the user's project that were imported until now; none of a bundled pipeline."""
    return project_modules(module.MODULE) if hasattr(module, "MODULE") else {}


def _is_wanted(told: Callable[[], dict[str, Any]]) -> bool:
    """Answer each line ``plan`` with the plan, until another line comes; returns False at the end of input."""
    while (line := sys.stdin.readline()).strip() == "plan":
        say("plan", **told())
    return line != ""


def _serve(server: QueryServer) -> int:
    """Answer commands until the end of input; a query that has failed ends the program."""
    for line in sys.stdin:
        answer = server.failure() or server.answer(line)
        say(**answer)
        if answer["event"] == "failed":
            return TestbedError.exit_code
    server.stop()
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    parser.add_argument(
        "pipeline",
        help=f"one of {', '.join(names())}; the path of a Python file; or MODULE:CONTRACT of a project",
    )
    parser.add_argument("--describe", action="store_true", help="print the contract as JSON and exit")
    parser.add_argument(
        "--contract-only", action="store_true", help="the module need not have more than that"
    )
    parser.add_argument(
        "--draft",
        action="store_true",
        help="print the plan of MODULE:FUNCTION, or of FILE.py:FUNCTION, and exit",
    )
    parser.add_argument("--inspect", action="store_true", help="print contract and sources as JSON and exit")
    parser.add_argument(
        "--send", action="store_true", help="send the project's modules and the packages to Spark"
    )
    parser.add_argument(
        "--path", action="append", default=[], help="a folder in which modules are looked for"
    )
    parser.add_argument(
        "--py-file", action="append", default=[], help="a package for driver and executors, too"
    )
    parser.add_argument("--remote", help="the driver: sc://HOST:PORT/;session_id=UUID")
    parser.add_argument("--bootstrap", help="Kafka's bootstrap servers, HOST:PORT[,...]")
    add_login(parser)
    parser.add_argument(
        "--input", type=_pair, action="append", default=[], help="LOGICAL=TOPIC; once for each input"
    )
    parser.add_argument("--output", help="the output topic")
    parser.add_argument("--table", default="", help="a folder that may be written in its place")
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
