"""Runs one join after another on one session: ``python -m pipelines.session_server --remote …``.

Answers JSON lines to the commands on its standard input, one query at a time::

    start {"contract": {...}, "inputs": {"lefts": "t1"}, "output": "t2", "checkpoint": "/...", "conf": {...},
           "sink": "spark", "max_offsets": {"lefts": 3}, "trigger_ms": null}
    check               whether it has failed
    status              what Spark says that it is doing
    wait 60             until the query has ended by itself (``trigger_ms`` null is ``AvailableNow``)
    stop                end it now; the answer has its progress reports, as that of ``wait``
    state {...}         write the state of the last query to a file (``pipelines.state``)

With ``"pipeline": "/.../mine.py"`` it is that file, or that bundled pipeline, which is run, and not what the contract
describes. A ``start`` that asks for what the last one asked for, but for the trigger, starts the same data frame again:
nothing is analysed twice. The end of standard input stops the query.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from pipelines.described import pipeline_of
from pipelines.pipeline_loader import load
from pipelines.query import add_login, build_records, open_session, start_records
from pipelines.query_server import Answer, QueryServer, say
from tidemark.errors import SinkRefused, TidemarkError, UsageError
from tidemark.formats.chain import Chain, read_contract

if TYPE_CHECKING:
    from types import ModuleType, SimpleNamespace

    from pyspark.sql import DataFrame, SparkSession


class Server:
    """The session, and the query that runs in it, if one does."""

    def __init__(self, session: SparkSession, args: argparse.Namespace) -> None:
        self._session = session
        self._args = args
        self._started: QueryServer | None = None
        self._conf: dict[str, str] = {}
        self._built: tuple[Answer, ModuleType | SimpleNamespace, DataFrame] | None = None

    def answer(self, line: str) -> Answer:
        """Do what a line asks for."""
        word, _, rest = line.strip().partition(" ")
        if word == "start":
            return self._start(json.loads(rest))
        if self._started is None:
            raise UsageError(f"there is no query to {word!r}", hint="`start` one first")
        return self._started.answer(line)

    def close(self) -> None:
        """Stop the query."""
        if self._started is not None:
            self._started.query.stop()

    def _start(self, asked: Answer) -> Answer:
        args = argparse.Namespace(
            bootstrap=self._args.bootstrap,
            kafka_conf=self._args.kafka_conf,
            kafka_setting=self._args.kafka_setting,
            input=list(asked["inputs"].items()),
            output=asked["output"],
            sink=asked["sink"],
            checkpoint=asked["checkpoint"],
            query_name=asked["output"],
            trigger_ms=asked.pop("trigger_ms"),
            max_offsets=list(asked["max_offsets"].items()),
            conf=list(asked["conf"].items()),
        )
        if self._built is None or self._built[0] != asked:
            self._built = None  # what is half made is not started again
            self._built = (asked, *self._build(asked, args))
        _, module, records = self._built
        query = start_records(records, module, args)
        self._started = QueryServer(self._session, query, self._checkpoint, self._contract)
        return {"event": "started", "query_id": str(query.id), "run_id": str(query.runId)}

    def _build(
        self, asked: Answer, args: argparse.Namespace
    ) -> tuple[ModuleType | SimpleNamespace, DataFrame]:
        """The pipeline and its output, in a session that has the settings that were asked for and no others."""
        for name in self._conf:
            self._session.conf.unset(name)
        self._conf = dict(asked["conf"])
        for name, value in self._conf.items():
            self._session.conf.set(name, value)
        contract, file = read_contract(asked["contract"]), asked.get("pipeline")
        if file:
            module = load(file)
        elif isinstance(contract, Chain):
            raise UsageError(
                f"the chain {contract.name!r} has no pipeline", hint="only one join is made of its contract"
            )
        else:
            module = pipeline_of(contract)
        columns: Any = contract if isinstance(contract, Chain) else getattr(module, "COLUMNS", contract)
        self._checkpoint, self._contract = asked["checkpoint"], columns
        return module, build_records(self._session, module, args)


def main() -> int:
    """Parse the command line, serve, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.session_server", description=__doc__)
    parser.add_argument("--remote", required=True, help="the driver: sc://HOST:PORT/;session_id=UUID")
    parser.add_argument("--bootstrap", required=True, help="Kafka's bootstrap servers, HOST:PORT[,...]")
    add_login(parser)
    args = parser.parse_args()
    args.conf = []
    try:
        with open_session(args) as session:
            server = Server(session, args)
            say("ready")
            for line in sys.stdin:
                try:
                    say(**server.answer(line))
                except SinkRefused as error:
                    say("failed", message=str(error))
                except UsageError:
                    raise
                except Exception as error:  # noqa: BLE001 (a query that fails is an answer, not the end)
                    say("failed", message=f"{type(error).__name__}: {error}")
            server.close()
            return 0
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
