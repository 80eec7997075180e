"""Starts the query of a pipeline that has ``start(spark, io)``, and makes sure that it is the one to be judged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.project_modules import pickle_by_value
from pipelines.query import POLICY
from pipelines.user_errors import as_usage_error
from tidemark.errors import TidemarkError, UsageError
from tidemark.formats.client_settings import spark_options
from tidemark.formats.registry_schemas import REGISTRY_VARIABLE
from tidemark.formats.run_io import RunIO

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def run_io(args: Namespace) -> RunIO:
    """What the command line says of the run."""
    return RunIO(
        bootstrap=args.bootstrap,
        topics=dict(args.input),
        output=args.output,
        checkpoint=args.checkpoint,
        trigger_ms=args.trigger_ms,
        max_offsets={name: int(limit) for name, limit in args.max_offsets},
        table=args.table,
        registry=os.environ.get(REGISTRY_VARIABLE, ""),
        login=spark_options(args.kafka_conf, args.kafka_setting),
    )


def start_own(session: SparkSession, pipeline: Any, args: Namespace) -> StreamingQuery:
    """Call ``start``; raises ``UsageError`` if it fails, returns no query, or one with another checkpoint.

    A function that ``start`` gives Spark may use ``io``, also in a Python worker that cannot import tidemark.
    """
    pickle_by_value([RunIO.__module__])
    if POLICY not in dict(args.conf):
        session.conf.set(POLICY, str(pipeline.CONTRACT.policy))
    name = pipeline.CONTRACT.name
    try:
        query: StreamingQuery = pipeline.start(session, run_io(args))
    except TidemarkError:
        raise
    except Exception as error:
        raise as_usage_error(error, f"`start` of the pipeline {name!r} failed") from error
    if not hasattr(query, "runId"):
        raise UsageError(
            f"`start` of the pipeline {name!r} returned {type(query).__name__}",
            hint="return the StreamingQuery that is to be judged",
        )
    metadata = Path(args.checkpoint) / "metadata"
    found = json.loads(metadata.read_text())["id"] if metadata.is_file() else ""
    if found != str(query.id):
        raise UsageError(
            f"the query that `start` of the pipeline {name!r} returned has another checkpoint",
            detail=f"{args.checkpoint} has {'that of query ' + found if found else 'none'}; the query is {query.id}",
            hint='set .option("checkpointLocation", io.checkpoint) on the query that is returned',
        )
    return query
