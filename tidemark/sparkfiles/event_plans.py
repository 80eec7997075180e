"""Reads the plans of streaming queries from Spark's event log, as ``explain()`` prints them.

Free of Spark. The log of every Spark has the plan of each batch as a tree (``SparkListenerSQLExecutionStart``,
``sparkPlanInfo``), whatever ``spark.sql.ui.explainMode`` says. The topics of the inputs are in the progress reports, in
the order in which the plan reads them. A plan has no more than ``spark.sql.debug.maxToStringFields`` (25) entries in a
list; what is left out is written as ``... 3 more fields``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.sparkfiles.checkpoint import POLICY
from tidemark.sparkfiles.eventlog import JOIN
from tidemark.sparkfiles.log_lines import EVENT, HEAD, PROGRESS_EVENT, log_files, log_lines, parsed_line

PLAN_HEADING = "== Physical Plan =="
_JOIN = JOIN.encode()
_START = b"SparkListenerSQLExecutionStart"
_WRAPPERS = ("WholeStageCodegen", "InputAdapter", "AdaptiveSparkPlan")
"""Nodes of the tree that ``explain()`` prints as a mark of the line, or not at all."""
_WRITERS = ("WriteToDataSourceV2", "WriteToContinuousDataSource")
_NO_DATA = "LocalTableScan"
"""What stands for an input of which the batch reads nothing."""
_TOPIC = re.compile(r"Subscribe\[([^,\[\]]+)\]")
_NAMED = re.compile(r"^(?P<name>.*?)\n?id = (?P<id>[0-9a-f-]{36})$", re.MULTILINE)


@dataclass
class LoggedQuery:
    """A streaming query with a join of streams: its id, its name, its plan and ``multipleWatermarkPolicy``.

    The policy is ``None`` if the query did not set it: the application may have (``spark-submit --conf``).

    ``topics`` are those of its Kafka sources, in the order of the plan; ``None`` for a source that is none, or reads
    more than one. It is empty if the log has no progress report of the query.
    """

    id: str
    name: str
    plan: str
    policy: str | None
    is_whole: bool
    """Whether each input was read by the batch that the plan is of."""
    topics: list[str | None] = field(default_factory=list)


def logged_queries(path: Path) -> list[LoggedQuery]:
    """The queries with a join of streams in an event log (a file, or the folder of a log that was rolled).

    Raises ``UsageError`` if it cannot be read, or has no such query.
    """
    found: dict[str, LoggedQuery] = {}
    topics: dict[str, list[str | None]] = {}
    for event in _events(path):
        progress = event.get("progress")
        if isinstance(progress, dict):
            topics[str(progress.get("id"))] = [
                _topic(str(source.get("description"))) for source in progress.get("sources", ())
            ]
            continue
        query = _query(event)
        if query is not None and (query.id not in found or (query.is_whole and not found[query.id].is_whole)):
            found[query.id] = query
    for query in found.values():
        query.topics = topics.get(query.id, [])
    if not found:
        raise UsageError(
            f"the event log {str(path)!r} has no query with a join of two streams",
            detail=f"there is no batch of a streaming query whose plan has a {JOIN}",
            hint="name the log of the application that runs the query (spark.eventLog.dir), once it has run a batch",
        )
    return list(found.values())


def chosen_query(queries: list[LoggedQuery], asked: str | None) -> LoggedQuery:
    """The query of this id or name, or the only one; raises ``UsageError``."""
    known = [query for query in queries if asked is None or asked in (query.id, query.name)]
    if len(known) != 1:
        names = ", ".join(f"{query.name or 'without a name'} ({query.id})" for query in queries)
        raise UsageError(
            f"the event log has {len(known)} queries {asked!r}"
            if asked is not None
            else f"the event log has {len(known)} queries with a join",
            detail=f"queries: {names}",
            hint="say which one by its id: --query ID",
        )
    return known[0]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for file in log_files(path):
        if not file.is_file():
            raise UsageError(
                f"there is no event log {str(file)!r}", hint="give a file, or the folder of a log"
            )
        for number, line in log_lines(file):
            head = line[:HEAD] if line.startswith(EVENT) else b""
            if PROGRESS_EVENT in head or (_START in head and _JOIN in line):
                yield parsed_line(file, number, line)


def _topic(description: str) -> str | None:
    """``KafkaV2[Subscribe[orders]]`` reads one topic."""
    found = _TOPIC.search(description)
    return None if found is None else found[1]


def _query(event: dict[str, Any]) -> LoggedQuery | None:
    """The query that a batch is of, which its description names since Spark 2.3."""
    named = _NAMED.search(str(event.get("description")))
    tree = event.get("sparkPlanInfo")
    if named is None or not isinstance(tree, dict):
        return None
    root = _unwrapped(tree)
    while root["nodeName"] in _WRITERS and len(root["children"]) == 1:
        root = _unwrapped(root["children"][0])
    lines = [*_printed(root, "", "")]
    return LoggedQuery(
        id=named["id"],
        name=named["name"].strip(),
        plan="\n".join([PLAN_HEADING, *lines, ""]),
        policy=(event.get("modifiedConfigs") or {}).get(POLICY),
        is_whole=not any(_NO_DATA in line for line in lines),
    )


def _unwrapped(node: dict[str, Any]) -> dict[str, Any]:
    while node["nodeName"].startswith(_WRAPPERS) and len(node["children"]) == 1:
        node = node["children"][0]
    return node


def _printed(node: dict[str, Any], first: str, rest: str) -> Iterator[str]:
    """The lines of a tree; ``first`` and ``rest`` are how its first and its further lines begin."""
    yield first + str(node["simpleString"]).replace("\n", " ")
    children = [_unwrapped(child) for child in node["children"]]
    for child in children[:-1]:
        yield from _printed(child, f"{rest}:- ", f"{rest}:  ")
    for child in children[-1:]:
        yield from _printed(child, f"{rest}+- ", f"{rest}   ")
