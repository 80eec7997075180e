"""Random chains over random records, in Spark and in the judge's model: ``chain_fuzz.py --seeds 100 [--first 1]``.

One classic session, no Kafka. A batch is a file; every phase of a history starts or goes on with the query, and has it
run until it has nothing to do. Compared are the batches that there are, and of each its rows, its watermark and the
number of late rows; the states of all operators after the last batches; and the plan has to be the chain's
(``preflight.chain_plan``). Prints a JSON line for each seed; ends with 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pyspark

from pipelines.operator_state import write_operator_state
from pipelines.state import FIRST_WITH_READER
from tests.spark import chain_queries
from tests.spark.chain_traces import SHAPES, History, make_history
from tidemark.formats import chain
from tidemark.formats.evidence import OperatorStateRow
from tidemark.oracle.chain_judgement import rules_of_run
from tidemark.oracle.compare.operator_states import ComparedStates, compare_batch
from tidemark.oracle.compare.spark_account import METRICS
from tidemark.oracle.input.rows import Row, passes
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import StoredRow
from tidemark.oracle.model.reported_operators import operator_name, reported_machines
from tidemark.preflight import compare_chain, read_plan, read_steps
from tidemark.stack.components import spark_settings
from tidemark.stack.install import hadoop_defaults_jar, jars
from tidemark.stack.install.toolchain import find_java, find_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "topic STRING, id STRING, k STRING, v BIGINT, t BIGINT"

LAST = 3
"""After so many batches the state is read: the last one has little left in it."""

Told = list[tuple[list[dict[str, Any]], bool]]
"""The batches so far: their rows, and whether the query had just been started again."""


@dataclass
class Seen:
    """What a batch was: its rows, its watermark in ms, how many rows were late; and what each operator counted."""

    rows: Counter[tuple[Any, ...]]
    watermark_ms: int
    late: int
    counts: list[dict[str, int | None]] = field(default_factory=list)
    states: list[tuple[str, list[StoredRow] | None]] = field(default_factory=list)
    """Of each operator the rows of its state, as the model has them."""


@dataclass
class InSpark:
    """A history as Spark runs it."""

    session: SparkSession
    history: History
    folder: Path
    files: int = 0
    rows: dict[int, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    query: Any = None
    plan_differs: list[str] = field(default_factory=list)

    def run(self) -> dict[int, Seen]:
        """Run it to its end."""
        (self.folder / "in").mkdir()
        for phase in self.history.phases:
            if phase.restart:
                self.stop(rerun=phase.rerun)
            for rows in phase.batches:
                self.write(rows)
            if self.query is None:
                self.start()
            self.query.processAllAvailable()
        self.stop()
        return {number: Seen(self.rows[number], *self.reported(number)) for number in sorted(self.rows)}

    def start(self) -> None:
        """Start the query, or start it again."""
        self.session.conf.set(
            "spark.sql.streaming.noDataMicroBatches.enabled", str(self.history.no_data).lower()
        )
        self.session.conf.set("spark.sql.streaming.multipleWatermarkPolicy", str(self.history.chain.policy))
        records = (
            self.session.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "in"))
        )
        self.session.conf.set("spark.sql.debug.maxToStringFields", "100000")
        rows = chain_queries.query(self.history.chain, records)
        self.plan_differs = plan_differs(self.history.chain, rows)
        self.query = (
            rows.writeStream.foreachBatch(self.take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .outputMode("append")
            .start()
        )

    def take(self, rows: DataFrame, batch: int) -> None:
        """The rows of a batch; those of the last time that it ran."""
        self.rows[batch] = Counter(tuple(row) for row in rows.collect())

    def stop(self, *, rerun: bool = False) -> None:
        """Stop; ``rerun``: as if the last batch had not been committed."""
        if self.query is None:
            return
        self.query.stop()
        for report in self.query.recentProgress:
            data = report if type(report) is dict else json.loads(report.json)  # PySpark 3.5 has dictionaries
            if "addBatch" in data["durationMs"]:
                self.reports[data["batchId"]] = data
        self.query = None
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        if rerun:
            (commits / str(last)).unlink()
            (commits / f".{last}.crc").unlink()

    def states(self, batches: Sequence[int]) -> dict[int, list[OperatorStateRow]]:
        """The rows of the states of all operators after each of some batches."""
        path = self.folder / "state.jsonl"
        wanted = {"batches": list(batches), "format": 2, "path": str(path)}
        write_operator_state(self.session, str(self.folder / "checkpoint"), wanted)
        found: dict[int, list[OperatorStateRow]] = {batch: [] for batch in batches}
        for line in path.read_bytes().splitlines():
            row = msgspec.json.decode(line, type=OperatorStateRow)
            found[row.batch].append(row)
        return found

    def write(self, rows: list[dict[str, Any]]) -> None:
        """A file, there at once."""
        part = self.folder / "part"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(part, (1_000_000 + self.files, 1_000_000 + self.files))
        part.rename(self.folder / "in" / f"{self.files:04}.json")
        self.files += 1

    def reported(self, number: int) -> tuple[int, int, list[dict[str, int | None]]]:
        """Watermark, late rows and the counts of each operator of a batch, from its progress."""
        data = self.reports[number]
        text = data.get("eventTime", {}).get("watermark", "1970-01-01T00:00:00.000Z")
        moment = datetime.fromisoformat(text).timestamp()
        operators = data["stateOperators"]
        late = sum(one["numRowsDroppedByWatermark"] for one in operators)
        return (
            round(moment * 1000),
            late,
            [{name: one[name] for name in ("operatorName", *METRICS)} for one in operators],
        )


def plan_differs(described: chain.Chain, rows: DataFrame) -> list[str]:
    """What of a query's plan is not as its chain says."""
    with redirect_stdout(StringIO()) as printed:
        rows.explain()
    plan = printed.getvalue()
    compared = compare_chain(described, read_steps(plan), read_plan(plan).columns, str(described.policy))
    return [f"plan: {mismatch}" for mismatch in compared.mismatches]


def predicted(history: History) -> dict[int, Seen]:
    """The same, as the judge's model has it; batches without data where it says that there is one."""
    told: Told = []
    for phase in history.phases:
        starting = phase.restart or not told
        if phase.rerun and phase.restart:
            told[-1] = told[-1][0], True
        for number, rows in enumerate(phase.batches):
            told.append((rows, starting and not phase.rerun and number == 0))
        ran = bool(phase.batches) or (phase.rerun and phase.restart)
        if (
            history.no_data
            and (ran or not phase.restart)
            and told
            and _replay(history, told)[0].wants_another()
        ):
            told.append(([], False))
    return dict(enumerate(_replay(history, told)[1]))


def _replay(history: History, told: Told) -> tuple[Model, list[Seen]]:
    model, seen = Model(history.chain, rules_of_run({"spark": pyspark.__version__})), []
    for rows, restarted in told:
        if restarted:
            model.restart()
        watermark_ms = model.watermark_ms
        out = model.batch([read_rows(source, rows) for source in history.chain.sources])
        late = sum(_dropped(machine.step, machine.late_rows) for machine in model.machines)
        counts = [
            dict(zip(METRICS, machine.counts(), strict=True)) | {"operatorName": operator_name(machine.step)}
            for machine in reported_machines(model)
        ]
        stored = [(operator_name(one.step), one.stored()) for one in reported_machines(model)]
        states = [(name, None if rows is None else list(rows)) for name, rows in stored]
        written = Counter(row.get(history.chain.output) for row in out)
        seen.append(Seen(written, watermark_ms, late, counts, states))
    return model, seen


def read_rows(source: chain.Source, rows: list[dict[str, Any]]) -> list[Row]:
    """The rows of a file, as a source gives them on."""
    mine = [
        {one.name: row[one.column or one.name] for one in source.fields} | {source.time: row["t"]}
        for row in rows
        if row["topic"] == source.topic
    ]
    return [
        Row(values)
        for values in mine
        if all(values[name] is not None for name in source.required) and passes(values, source.filters)
    ]


def _dropped(step: chain.Step, late: list[Row]) -> int:
    """Spark counts the late rows of an aggregate after it has put the rows of a group together."""
    if isinstance(step, chain.Aggregate):
        return len({row.get((*step.keys, str(chain.time_of(step)))) for row in late})
    return len(late)


def same_counts(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether Spark's counts are those of the model, where it knows them."""
    return len(one) == len(other) and all(
        ours[name] in (None, theirs[name]) for theirs, ours in zip(one, other, strict=True) for name in theirs
    )


def differences(history: History, real: dict[int, Seen], model: dict[int, Seen]) -> list[str]:
    """What the two say differently."""
    found = []
    if real.keys() != model.keys():
        found.append(f"Spark ran the batches {list(real)}, the model {list(model)}")
    for number in sorted(real.keys() & model.keys()):
        one, other = real[number], model[number]
        found += [
            f"batch {number}: {what} is {getattr(one, what)}, not {getattr(other, what)}"
            for what in ("watermark_ms", "late")
            if getattr(one, what) != getattr(other, what)
        ]
        if not same_counts(one.counts, other.counts):
            found.append(f"batch {number}: operators count {one.counts}, not {other.counts}")
        if one.rows != other.rows and not isinstance(history.chain.last, chain.Limit):
            found.append(
                f"batch {number}: only Spark {one.rows - other.rows}, only model {other.rows - one.rows}"
            )
        if sum(one.rows.values()) != sum(other.rows.values()):
            found.append(f"batch {number}: {sum(one.rows.values())} rows, not {sum(other.rows.values())}")
    return found


def state_differences(in_spark: InSpark, model: dict[int, Seen]) -> list[str]:
    """What is wrong in the states after the last batches; a state that cannot be compared is, too."""
    if int(pyspark.__version__.partition(".")[0]) < FIRST_WITH_READER:
        return []
    compared = ComparedStates()
    for batch, rows in in_spark.states(sorted(in_spark.rows)[-LAST:]).items():
        if batch in model:
            compare_batch(batch, rows, model[batch].states, compared)
    notes = (note for note in compared.notes if "is not determined" not in note)
    return [*map(str, compared.findings), *notes]


def open_session() -> SparkSession:
    """A small classic session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]")
    own = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000", "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.fileSource.cleaner.numThreads": "0", "spark.log.level": "ERROR",
    }  # fmt: skip
    for name, value in (own | as_a_stack_does()).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def as_a_stack_does() -> dict[str, str]:
    """How the JVM runs, and how files are written: as in a driver of a stack, which takes half the time."""
    spark = find_spark(Path(sys.executable))
    files = jars.provide(find_java(), spark, ["files"], lambda text: print(text, file=sys.stderr))["files"]
    return {
        "spark.driver.extraClassPath": ":".join(
            map(str, (hadoop_defaults_jar.write_into(jars.cache_folder()), *files))
        ),
        "spark.driver.extraJavaOptions": " ".join(spark_settings.DRIVER_JVM),
        **spark_settings.local_files(spark.version),
    }


def main() -> int:
    """Run seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--kind", default=None, help="only chains of this name")
    parser.add_argument("--each", type=int, default=0, help="so many seeds of every kind")
    args = parser.parse_args()
    session, failed = open_session(), 0
    cases = [(seed, args.kind) for seed in range(args.first, args.first + args.seeds)]
    if args.each:
        cases = [(args.first + number, shape) for shape in SHAPES for number in range(args.each)]
    for seed, shape in cases:
        history = make_history(Random(f"chain-{seed}"), shape)
        with tempfile.TemporaryDirectory() as folder:
            try:
                in_spark = InSpark(session, history, Path(folder))
                real, said = in_spark.run(), predicted(history)
                found = differences(history, real, said) + in_spark.plan_differs
                found += state_differences(in_spark, said)
                answer = {"batches": len(real), "rows": sum(sum(one.rows.values()) for one in real.values()),
                          "late": sum(one.late for one in real.values())}  # fmt: skip
            except Exception as error:  # noqa: BLE001 (the next seed is to be run as well)
                found, answer = [f"{type(error).__name__}: {str(error)[:600]}"], {}
        failed += bool(found)
        print(
            json.dumps({"seed": seed, "chain": history.chain.name, **answer, "differences": found}),
            flush=True,
        )
    session.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
