"""A program of plain PySpark that shows a bug: what can be attached to a ticket, without anything of this project.

Free of Kafka and Spark: it writes text. The batches of the smallest run become files, one a side and batch, which
Spark's file source reads one a batch (``maxFilesPerTrigger``); a no-data batch between others becomes a pair of files
without rows, in which Spark does the same; a restart of the query is one in the program, too.
"""

from __future__ import annotations

import json
import pprint
from collections.abc import Iterator, Sequence

from tidemark.campaigns.shrink.shrinkable import fields_in
from tidemark.formats.contract import Contract, Literal, Side, Term, WatermarkPolicy
from tidemark.formats.record_fields import BIGINT, STRING
from tidemark.formats.time_forms import ISO
from tidemark.oracle.input.history import Evidence, History, first_of, read_history, right_of
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_answer import ask

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
Batch = tuple[list[str], list[str]]
"""The rows of one batch, left and right, as JSON."""


def why_not_plain(contract: Contract, pipeline: str) -> str:
    """Why no program is written of a case; empty if one can be."""
    if pipeline:
        return "the query is that of a program: its contract alone does not show the bug"
    for side, values in zip((contract.left, contract.right), contract.values, strict=True):
        fields = [*values.values(), side.time_field]
        if side.time_format != ISO or side.time_zone != "UTC" or any(len(one.path) != 1 for one in fields):
            return f"the records of {side.topic} are nested, or their times are no ISO-8601"
        if any(one.made.kind not in (STRING, BIGINT) or one.cast or one.round for one in values.values()):
            return f"{side.topic} has fields of other types than STRING and BIGINT"
    return ""


def plain_program(contract: Contract, conf: dict[str, str], run: Evidence, title: str) -> str:
    """The program. ``run`` is the evidence of the smallest run, from which batches and expected rows are taken."""
    history = read_history(run)
    settings = {**conf, **({POLICY: "max"} if contract.policy is WatermarkPolicy.MAX else {})}
    values = {
        "TITLE": title.replace("\\", "").replace('"', "'"),
        "STARTS": pprint.pformat(_starts(run, history), width=112),
        "EXPECTED": pprint.pformat(sorted(_expected(history), key=str), width=112),
        "CONF": pprint.pformat(settings, width=112),
        "LEFT": _side(contract, LEFT),
        "RIGHT": _side(contract, RIGHT),
        "CONDITION": '" AND ".join(\n        '
        + pprint.pformat(_conditions(contract), width=80).replace("\n", "\n        ")
        + "\n    )",
        "HOW": json.dumps(contract.kind.how),
        "WHERE": "".join(f".where({json.dumps(_term(contract, term))})" for term in contract.where),
        "SENTINELS": pprint.pformat(_sentinels(contract, run), width=112),
        "IDS": "1" if contract.output.right_id is None else "2",
        "COLUMNS": ", ".join(json.dumps(name) for name in _columns(contract)),
    }
    text = TEMPLATE
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return text


def is_seen_in_rows(contract: Contract, run: Evidence) -> bool:
    """Whether other rows came than those that are right, by their ids: nothing else is seen by a program."""
    names, sentinels = (contract.output.left_id, contract.output.right_id), _sentinels(contract, run)
    came = list[list[str | None]]()
    for record in run.output():
        fields = fields_in(record.value) or {}
        ids = [None if (one := fields.get(name)) is None else str(one) for name in names if name is not None]
        if not any(one in some for one, some in zip(ids, sentinels, strict=False)):
            came.append(ids)
    return sorted(came, key=str) != sorted(_expected(read_history(run)), key=str)


def _sentinels(contract: Contract, run: Evidence) -> list[list[str]]:
    """The ids of the sentinels of each side."""
    found: list[list[str]] = [[], []]
    for record in run.inputs():
        at = 0 if record.topic == contract.left.topic else 1
        side = (contract.left, contract.right)[at]
        if record.is_sentinel and isinstance(record.value, str):
            found[at].append(str((fields_in(record.value) or {}).get(str(side.field(side.id).path[0]))))
    return found


def _starts(run: Evidence, history: History) -> list[list[Batch]]:
    """The batches of each start of the query; a no-data batch at the end of one comes by itself."""
    values = {
        (one.topic, one.partition, one.offset): one.value for one in run.inputs()
    }  # of the smallest run: few
    starts: list[list[Batch]] = []
    for batch in history.batches:
        if batch.plan.restarted or not starts:
            starts.append([])
        sides: list[list[str]] = []
        for side, rows in zip((LEFT, RIGHT), batch.rows, strict=True):
            found = [values[(history.side(side).topic, *history.position(row))] for row in rows]
            sides.append(
                [text.decode() if isinstance(text, bytes) else text for text in found if text is not None]
            )
        starts[-1].append((_plain(sides[0]), _plain(sides[1])))
    for start in starts:
        while start and start[-1] == ([], []):
            start.pop()
    return [start for start in starts if start]


def _plain(texts: Sequence[str]) -> list[str]:
    """Records as one line each."""
    found = []
    for text in texts:
        fields = fields_in(text)
        found.append(json.dumps(fields, default=float) if fields is not None else text.replace("\n", " "))
    return found


def _expected(history: History) -> Iterator[list[str | None]]:
    """The ids of the rows that are right, by SQL, without those of sentinels."""
    answer, rows = ask(history), history.rows
    for identity in answer.identity[answer.is_right].tolist():
        if history.is_of_sentinel(identity):
            continue
        ids: list[str | None] = [None, None]
        for row in (first_of(identity), right_of(identity)):
            if row is not None:
                ids[rows.side[row]] = rows.id[row]
        yield ids[:1] if history.contract.output.right_id is None else ids


def _side(contract: Contract, at: int) -> str:
    """The stream of one side, with prefixed columns: ``l_id``, ``l_time``, ``l_key0`` and what is compared."""
    side, values, prefix = (contract.left, contract.right)[at], contract.values[at], "lr"[at]
    names = {str(field.path[0]): field.made.kind for field in values.values()}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in names.items())
    time = str(side.time_field.path[0])
    lines = [
        f".schema({json.dumps(f'{schema}, `{time}` TIMESTAMP')})",
        f".json(folder + {json.dumps(f'/{prefix}')})",
    ]
    if not side.keeps_null_event_time:
        lines.append(f".where({json.dumps(f'`{time}` IS NOT NULL')})")
    for what in side.filters:
        name = values[what.field].path[0]
        lines.append(f".where({json.dumps(f'`{name}` {what.op} {_literal(what.value)}')})")
    columns = [f"`{values[side.id].path[0]}` AS {prefix}_id", f"`{time}` AS {prefix}_time"]
    columns += [
        f"`{field.path[0]}` AS {_column(prefix, side, name)}"
        for name, field in values.items()
        if name != side.id
    ]
    if side.id in side.keys:
        columns.append(f"`{values[side.id].path[0]}` AS {_column(prefix, side, side.id)}")
    lines.append(f".selectExpr({', '.join(map(json.dumps, columns))})")
    if side.watermark_delay_ms is not None:
        lines.append(f'.withWatermark("{prefix}_time", "{side.watermark_delay_ms} milliseconds")')
    if contract.bound.window_ms is not None:
        window = f"window({prefix}_time, '{contract.bound.window_ms} milliseconds') AS {prefix}_window"
        others = [column.split(" AS ")[-1] for column in columns if not column.endswith(f" {prefix}_time")]
        lines.append(f".selectExpr({', '.join(map(json.dumps, [window, *others]))})")
    return "\n        ".join(lines)


def _column(prefix: str, side: Side, name: str) -> str:
    return f"{prefix}_key{side.keys.index(name)}" if name in side.keys else f"{prefix}_{name}"


def _conditions(contract: Contract) -> list[str]:
    bound, time = contract.bound, "window" if contract.bound.window_ms else "time"
    found = [f"l_key{at} = r_key{at}" for at in range(len(contract.left.keys))]
    found += [f"l_{time} = r_{time}"] if bound.equal else []
    for end_ms, op, strict in (
        (bound.lower_ms, ">", bound.lower_strict),
        (bound.upper_ms, "<", bound.upper_strict),
    ):
        if end_ms is not None:
            away = "" if bound.window_ms else f" + INTERVAL '{end_ms / 1000:.3f}' SECOND"
            found.append(f"l_{time} {op}{'' if strict else '='} r_{time}{away}")
    return found + [_term(contract, term) for term in contract.condition]


def _term(contract: Contract, term: Term) -> str:
    left = _literal(term.value) if term.left is None else _column("l", contract.left, term.left)
    right = _literal(term.value) if term.right is None else _column("r", contract.right, term.right)
    return f"{left} {term.op} {right}"


def _literal(value: Literal | None) -> str:
    return "'{}'".format(value.replace("'", "\\'")) if isinstance(value, str) else str(value)


def _columns(contract: Contract) -> list[str]:
    """The ids; and the times, where nothing else of the join uses them and Spark would leave them out before it."""
    ids = ["l_id"] if contract.output.right_id is None else ["l_id", "r_id"]
    time = "time" if contract.bound.window_ms is None else "window"
    return [*ids, *([f"l_{time}", f"r_{time}"] if contract.bound.is_open else [])]


TEMPLATE = '''"""<TITLE>

Plain PySpark: python repro.py. Prints what should come, what came, and the versions; exit code 1 if they differ.
"""

import os
import platform
import sys
import tempfile

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

# Each start of the query: its batches, one after the other, each with the rows of the left and of the right side.
STARTS = <STARTS>

# The rows that are right, by their ids; and the ids of left and right rows that only move the watermarks at the end.
EXPECTED = <EXPECTED>
SENTINELS = <SENTINELS>

CONF = <CONF>


def stream(spark):
    return spark.readStream.option("maxFilesPerTrigger", 1)


def joined(spark, folder):
    left = (
        stream(spark)
        <LEFT>
    )
    right = (
        stream(spark)
        <RIGHT>
    )
    condition = <CONDITION>
    return left.join(right, expr(condition), <HOW>)<WHERE>.select(<COLUMNS>)


def write(folder, name, number, lines):
    """A file that is older than those after it: the source reads them in this order."""
    path = os.path.join(folder, name, f"{number:04}.json")
    with open(path, "w") as file:
        file.writelines(line + "\\n" for line in lines)
    os.utime(path, (1_700_000_000 + 10 * number,) * 2)


def main():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.sql.session.timeZone", "UTC")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    came = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in ("l", "r"):
            os.mkdir(os.path.join(folder, name))
        number = 0
        for batches in STARTS:
            for left, right in batches:
                write(folder, "l", number, left)
                write(folder, "r", number, right)
                number += 1
            query = (
                joined(spark, folder)
                .writeStream.foreachBatch(lambda rows, batch: came.extend(rows.collect()))
                .option("checkpointLocation", os.path.join(folder, "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        spark.stop()
    got = [[None if one is None else str(one) for one in list(row)[:<IDS>]] for row in came]
    got = sorted((row for row in got if not any(one in ids for one, ids in zip(row, SENTINELS))), key=str)
    print(f"PySpark {pyspark.__version__}, Python {platform.python_version()}")
    print(f"expected: {EXPECTED}")
    print(f"got:      {got}")
    print("missing: ", [row for row in EXPECTED if row not in got])
    print("too much:", [row for row in got if row not in EXPECTED])
    return int(got != EXPECTED)


if __name__ == "__main__":
    sys.exit(main())
'''
