"""``tidemark ledger``: shows the exactly-once sink's ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.shared_options import AsJson, KafkaConf
from tidemark.cli.trace_commands import Bootstrap, broker_and_conf
from tidemark.sink.ledger import DEFAULT_LEDGER, DEFAULT_PREFIX

if TYPE_CHECKING:
    from tidemark.sink.ledger import LedgerEntry, Names

    Row = tuple[Names, int, LedgerEntry]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("ledger")(ledger_command)


def ledger_command(
    bootstrap: Bootstrap = "",
    query: Annotated[str, typer.Option(help="Only this query: its id, or the beginning of it.")] = "",
    prefix: Annotated[
        str, typer.Option(help="The sink's option transactionalIdPrefix; empty: any.")
    ] = DEFAULT_PREFIX,
    topic: Annotated[str, typer.Option(help="The sink's option ledgerTopic.")] = DEFAULT_LEDGER,
    kafka_conf: KafkaConf = None,
    as_json: AsJson = False,
) -> None:
    """Show the exactly-once sink's ledger: the last committed batch and its rows, per query and partition."""
    from tidemark.kafka.connection import connected_admin

    settings, _ = broker_and_conf(bootstrap, kafka_conf)
    connected_admin(settings)  # says why a broker does not answer
    rows = [row for row in _rows(settings, topic, prefix) if row[0].query.startswith(query)]
    if as_json:
        typer.echo(json.dumps([_as_json(row) for row in rows]))
    elif rows:
        _print(rows)
    else:
        of = f" of query {query}" if query else ""
        typer.echo(f"the ledger {topic!r} at {settings['bootstrap.servers']} has no entries{of}", err=True)


def _rows(settings: dict[str, str], topic: str, prefix: str) -> Iterator[Row]:
    from tidemark.sink.ledger import committed, read_group

    for group, entry in committed(settings, topic):
        known = read_group(group)
        if known is not None and prefix in ("", known[0].prefix):
            yield *known, entry


def _as_json(row: Row) -> dict[str, object]:
    names, partition, entry = row
    return {
        "query": names.query,
        "sink": names.sink,
        "partition": partition,
        "partitions": entry.partitions,
        "batch": _batch(entry),
        "rows": entry.rows,
        "topic": entry.topic,
        "run": entry.run,
        "prefix": names.prefix,
        "cluster": entry.cluster,
    }


def _batch(entry: LedgerEntry) -> int | None:
    """The last batch that was written; ``None`` if there is none yet."""
    return entry.next_batch - 1 if entry.next_batch else None


def _print(rows: list[Row]) -> None:
    typer.echo(f"{'QUERY':36}  {'SINK':6} {'PARTITION':>9} {'BATCH':>7} {'ROWS':>9}  {'TOPIC':24} RUN")
    for names, partition, entry in sorted(rows, key=lambda row: (row[0].query, row[0].sink, row[1])):
        of = f"{partition} of {entry.partitions}"
        topic = entry.topic or "(in the rows)"
        batch, count, run = _batch(entry), entry.rows, entry.run[:8] or "-"
        last = "-" if batch is None else str(batch)
        typer.echo(f"{names.query}  {names.sink:6} {of:>9} {last:>7} {count:>9,}  {topic:24} {run}")
