"""Queries that are changed between two lives, all in one session: what becomes of each, and what the judge says.

    python -m tests.upgrades.changed FOLDER

All do the same left outer join at first. While they run, some checkpoints are copied, and the left topic gets a third
partition. Then all are stopped, each is changed in its way, and all are started again, in a session with another number
of cores. What came of it is printed, a line of JSON for each query.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.foreign_query import ForeignSpark
from tests.e2e.own_broker import own_broker
from tests.upgrades.running import words_of
from tests.upgrades.site import JoinQuery, Site, contract_of
from tidemark.campaigns.state_stores import HDFS
from tidemark.formats.contract import Contract, JoinKind
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.preflight import changes_of_contract, changes_of_settings
from tidemark.sparkfiles.checkpoint import STATE_FORMAT, STATE_PROVIDER
from tidemark.sparkfiles.query_log import QueryLog, read_query_log

PARTITIONS = "spark.sql.shuffle.partitions"
KEPT = (STATE_PROVIDER, STATE_FORMAT, PARTITIONS)
"""Settings of which the log says what the query goes on with."""
BACKED_UP = ("restored", "recut")
"""Queries whose checkpoint is copied before they read the second slice, and is the copy in their second life."""
AT_MOST = 6
"""Records of a topic in a batch of the second life of ``recut``; the 17 of the second slice were in one before."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a changed query.

    ``refused`` are Spark's words if it did not go on. ``kept`` are settings in the log of its last batch. ``verdict``
    and ``findings`` are by the contract of the changed query, ``by_old`` by the one it had before, ``since`` by the new
    one again, of a log that begins with the last batch of the first life; ``said`` is what is said of the first
    finding, or why the verdict is inconclusive. ``batches`` are the last of each life, ``partitions`` those of the
    output to which batches wrote, up to the last of the first life and since. ``foretold`` are the effects that are
    known from contracts and settings alone.
    """

    name: str
    foretold: list[str] = []
    refused: str = ""
    kept: dict[str, str] = {}
    batches: tuple[int, int] = (0, 0)
    partitions: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    verdict: str = ""
    findings: dict[str, int] = {}
    said: str = ""
    by_old: str = ""
    old_findings: dict[str, int] = {}
    since: str = ""


class Regrouped(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a query on another number of executors: how many there were in each life.

    ``defects`` are known ones of Spark that it has, ``findings`` are all that are none.
    """

    verdict: str
    findings: list[str]
    defects: list[str]
    executors: tuple[set[int], set[int]]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong but known defects of Spark."""
        return not self.findings and self.verdict == ("INVALID" if self.defects else "VALID")


def run_changes(bootstrap: str, folder: Path, spark: ForeignSpark) -> dict[str, Changed]:
    """Both lives of all queries, and what came of each, by name."""
    queries = [
        JoinQuery(name, "left_outer", folder, {STATE_PROVIDER: HDFS, STATE_FORMAT: "2", PARTITIONS: "2"})
        for name in CHANGES
    ]
    for query in queries:
        if query.name in ("format", "back"):
            query.conf[STATE_PROVIDER] = ROCKSDB
    site = Site(bootstrap, folder, queries)
    with site.running(spark) as program:
        site.feed()
        site.await_read(program)
        for query in queries:
            if query.name in BACKED_UP:
                shutil.copytree(query.checkpoint, query.checkpoint.with_name("backup"))
        site.grow(site.left, 3)
        site.feed()
        site.await_read(program)
    before = {query.name: (read_query_log(query.checkpoint), contract_of(query)) for query in queries}
    for query in queries:
        CHANGES[query.name](site, query)
    with site.running(spark, slots=7) as program:
        site.await_read(program)
        for at_end in (False, True):
            site.feed(at_end=at_end)
            site.await_read(program)
    return {query.name: _judged(site, query, *before[query.name]) for query in queries}


def run_on_other_executors(
    bootstrap: str, folder: Path, spark: ForeignSpark, before: int, after: int
) -> dict[str, Regrouped]:
    """Each sort of join, on so many executors in its first life and so many in its second, and what came of it."""
    queries = [
        JoinQuery(kind, kind, folder, {STATE_PROVIDER: HDFS, STATE_FORMAT: "2", PARTITIONS: "3"})
        for kind in map(str, JoinKind)
    ]
    site = Site(bootstrap, folder, queries)
    with site.running(spark, executors=before) as program:
        for _ in range(2):
            site.feed()
            site.await_read(program)
    firsts = {query.name: read_query_log(query.checkpoint).planned[-1].batch + 1 for query in queries}
    with site.running(spark, executors=after) as program:
        for at_end in (False, True):
            site.feed(at_end=at_end)
            site.await_read(program)
    return {query.name: _regrouped(site, query, firsts[query.name]) for query in queries}


def _regrouped(site: Site, query: JoinQuery, first: int) -> Regrouped:
    verdict = site.audit(query, query.checkpoint.parent / "audit").verdict
    return Regrouped(
        verdict=verdict.verdict,
        findings=[finding.message for finding in verdict.findings if not finding.defect],
        defects=sorted({finding.defect for finding in verdict.findings if finding.defect}),
        executors=in_each_life(site.records(query), first, lambda one: int(one.header("executors") or 0)),
    )


def in_each_life(
    records: Iterable[OutputRecord], first: int, what: Callable[[OutputRecord], int]
) -> tuple[set[int], set[int]]:
    """What is said of the records of batches before ``first``, and of those of it and later ones."""
    lives: tuple[set[int], set[int]] = (set(), set())
    for record in records:
        lives[int(record.header("batch") or 0) >= first].add(what(record))
    return lives


def _judged(site: Site, query: JoinQuery, first: QueryLog, old: Mapping[str, Any]) -> Changed:
    contracts = [Contract.from_json(one) for one in (old, contract_of(query))]
    changes = (*changes_of_contract(*contracts), *changes_of_settings(first.conf, query.conf))
    foretold = sorted({str(change.effect) for change in changes})
    if query.refused:
        return Changed(name=query.name, foretold=foretold, refused=words_of(query.refused))
    last = first.planned[-1].batch
    log, audits = read_query_log(query.checkpoint), query.checkpoint.parent
    verdict = site.audit(query, audits / "audit").verdict
    by_old = site.audit(query, audits / "audit-by-old", dict(old)).verdict
    before, since = in_each_life(site.records(query), last + 1, lambda one: one.partition)
    told = [one.message for one in (*verdict.causes, *verdict.findings[:1])] + verdict.inconclusive
    return Changed(
        name=query.name,
        foretold=foretold,
        kept={name: log.conf[name] for name in KEPT if name in log.conf},
        batches=(last, log.planned[-1].batch),
        partitions=(tuple(sorted(before)), tuple(sorted(since))),
        verdict=verdict.verdict,
        findings=dict(verdict.findings_total),
        said=" | ".join(told)[:900],
        by_old=by_old.verdict,
        old_findings=dict(by_old.findings_total),
        since=site.audit(_trimmed(query, last), audits / "audit-since").verdict.verdict,
    )


def _trimmed(query: JoinQuery, first: int) -> JoinQuery:
    """The query with a copy of its checkpoint whose log begins with a batch."""
    since = replace(query, place="since")
    shutil.copytree(query.checkpoint, since.checkpoint)
    for part in ("offsets", "commits"):
        for path in (since.checkpoint / part).glob("[0-9]*"):
            if int(path.name) < first:
                path.unlink()
    return since


def _asked(**changes: Any) -> Callable[[Site, JoinQuery], None]:
    return lambda _, query: query.changes.update(changes)


def _moved(_: Site, query: JoinQuery) -> None:
    query.checkpoint.rename(query.checkpoint.with_name("moved"))
    query.place = "moved"


def _copied(_: Site, query: JoinQuery) -> None:
    shutil.copytree(query.checkpoint, query.checkpoint.with_name("copied"))
    query.place = "copied"


def _restored(_: Site, query: JoinQuery) -> None:
    shutil.rmtree(query.checkpoint)
    query.checkpoint.with_name("backup").rename(query.checkpoint)


def _recut(site: Site, query: JoinQuery) -> None:
    _restored(site, query)
    query.changes["at_most"] = AT_MOST


def _kind(kind: str) -> Callable[[Site, JoinQuery], None]:
    return lambda _, query: setattr(query, "kind", kind)


CHANGES: Mapping[str, Callable[[Site, JoinQuery], None]] = {
    "cores": lambda _site, _query: None,
    "moved": _moved,
    "copied": _copied,
    "restored": _restored,
    "recut": _recut,
    "sink": lambda site, query: site.grow(query.output, 3),
    "provider": lambda _, query: query.conf.update({STATE_PROVIDER: ROCKSDB}),
    "back": lambda _, query: query.conf.update({STATE_PROVIDER: HDFS}),
    "format": lambda _, query: query.conf.update({STATE_FORMAT: "3"}),
    "partitions": lambda _, query: query.conf.update({PARTITIONS: "5"}),
    "delay": _asked(delays_s=(40, 20)),
    "sooner": _asked(delays_s=(2, 5)),
    "wider": _asked(upper_s=40),
    "narrower": _asked(upper_s=5),
    "filter": _asked(where="l_price < 50"),
    "column": _asked(more=True),
    "key": _asked(keys=["lot"]),
    "keys": _asked(keys=["key", "lot"]),
    "kind": _kind("inner"),
    "semi": _kind("left_semi"),
    "equal": _asked(equal=True),
    "both": _asked(condition="l_price < r_price"),
    "topic": lambda site, query: query.changes.update(left=site.right, moved="l"),
}
"""Name -> what is done to a query between its two lives."""


def main(folder: Path) -> None:
    """Run them on this process's PySpark, and print what came of it."""
    with own_broker(folder / "broker") as broker:
        for one in run_changes(
            broker.bootstrap, folder / "queries", ForeignSpark.of(Path(sys.executable))
        ).values():
            print(json.dumps(msgspec.to_builtins(one)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
