"""Reads the state of a join from a checkpoint, in a session of its own: ``python -m pipelines.checkpoint_state``.

Used by ``tidemark audit --read-state``, whose query is somebody else's and may not run any more. The one argument is
JSON: ``checkpoint``, ``contract``, ``scratch`` (a folder for Spark's temporary files), ``conf`` (settings of the
session), and what ``pipelines.state.write_state`` takes. Prints one line of JSON: ``rows``, or why the state cannot be
read, in ``problem``, and then waits: the end of standard input ends it, whatever it does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from pipelines.failure import causes_of
from pipelines.query_server import say
from pipelines.state import StateProblem, write_state
from tidemark.formats.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping


def open_session(scratch: str, settings: Mapping[str, str]) -> SparkSession:
    """A session in this process that leaves nothing outside of ``scratch``."""
    conf = {
        **settings,
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}",
        "spark.driver.maxResultSize": "0",
        "spark.driver.memory": "2g",
        "spark.local.dir": scratch,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("tidemark audit")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Spark 4.2 tells the coordinator of state stores of each snapshot that it reads; it begins with the first query, or
    # with the first look for one.
    session.streams.active  # noqa: B018
    return session


def read(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of the state to a file; the answer."""
    contract = Contract.from_json(asked["contract"])
    try:
        session = open_session(asked["scratch"], asked["conf"])
        rows = write_state(session, asked["checkpoint"], contract, dict(asked))
        session.stop()
    except StateProblem as error:
        return {"problem": str(error)}
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
        return {"problem": last_cause(error)}
    return {"rows": rows}


def last_cause(error: Exception) -> str:
    """The last of the causes that an error of Spark has in its text, or else the first line of that."""
    text = str(error)
    causes = causes_of(text)
    return causes[-1].strip() if causes else f"{type(error).__name__}: {text.partition(chr(10))[0]}"


def main() -> None:
    """Read, answer, and wait for the end."""
    ended = threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True)
    ended.start()
    say("state", **read(json.loads(sys.argv[1])))
    ended.join()


if __name__ == "__main__":
    main()
