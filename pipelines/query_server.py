"""What can be asked of a query that was started, in JSON lines: for a program of one query, and for one of many.

``status`` what Spark says that it is doing · ``check`` whether it has failed · ``wait SECONDS`` until it has ended by
itself · ``stop`` ends it now, and has its progress reports · ``state JSON`` writes the state to a file.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from pipelines.failure import reason_of
from pipelines.operator_state import write_operator_state
from pipelines.query import explain
from pipelines.state import StateProblem, write_state
from pipelines.user_errors import place_in, python_error_in
from tidemark.errors import UsageError
from tidemark.formats.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidemark.formats.contract import Contract

Answer = dict[str, Any]


def answers_only_on_stdout() -> None:
    """Let what the user's code prints go to standard error, where nobody takes it for an answer."""
    sys.stdout = sys.stderr


def say(event: str, **fields: Any) -> None:
    """Print an answer, or what has happened."""
    stream = sys.__stdout__ if sys.stdout is sys.stderr else sys.stdout
    print(json.dumps({"event": event, **fields}), file=stream, flush=True)


@dataclass
class QueryServer:
    """A query, and the session, the checkpoint and the contract with which its state is read.

    ``sources`` gives the modules of the user's project that were imported until now. ``stops_all``: the user's
    code may have started other queries in this session, which end with this one.
    """

    session: SparkSession
    query: StreamingQuery
    checkpoint: str
    contract: Contract | Chain
    sources: Callable[[], dict[str, str]] = dict
    stops_all: bool = False

    def answer(self, line: str) -> Answer:
        """Do what a line asks for; raises ``UsageError`` for what cannot be done."""
        word, _, rest = line.strip().partition(" ")
        match word:
            case "status":
                status = self.query.status
                runs = status["isTriggerActive"] or status["message"].startswith("Waiting for")
                return (None if runs else self.failure()) or {"event": "status", **status}
            case "check":
                return self.failure() or {"event": "well"}
            case "wait":
                return self._wait(int(rest))
            case "stop":
                self.stop()
                return {"event": "stopped", "progress": self._progress()}
            case "explain":
                return {
                    "event": "plan",
                    **explain(self.session, self.query.explain),
                    "sources": self.sources(),
                }
            case "state":
                return {"event": "state", **self._state(json.loads(rest))}
        raise UsageError(f"cannot do {word!r}", hint="start, check, status, wait, stop, state")

    def stop(self) -> None:
        """Stop the query, and others that the user's code has started in this session."""
        self.query.stop()
        for other in self.session.streams.active if self.stops_all else []:
            other.stop()

    def failure(self) -> Answer | None:
        """Why the query has failed; ``None`` if it has not."""
        error = self.query.exception()
        if error is None:
            return None
        answer = {"event": "failed", "message": reason_of(str(error))}
        if place := place_in(str(error)):
            answer |= {"error": python_error_in(str(error)), "place": place}
        return answer

    def _wait(self, timeout_s: int) -> Answer:
        try:
            if not self.query.awaitTermination(timeout_s):
                return {"event": "running"}
        except StreamingQueryException:
            if failed := self.failure():  # which says more than the exception does
                return failed
            raise
        return {"event": "ended", "progress": self._progress()}

    def _progress(self) -> list[Answer]:
        """Spark's progress reports; PySpark 3.5 has them as dictionaries."""
        return [
            report if type(report) is dict else json.loads(report.json)
            for report in self.query.recentProgress
        ]

    def _state(self, wanted: Answer) -> Answer:
        """How many rows the state had, or why it cannot be read: ``note`` if that is expected, else ``problem``."""
        try:
            if isinstance(self.contract, Chain):
                return {"rows": write_operator_state(self.session, self.checkpoint, wanted)}
            return {"rows": write_state(self.session, self.checkpoint, self.contract, wanted)}
        except StateProblem as error:
            return {"note": str(error)}
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
            return {"problem": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
