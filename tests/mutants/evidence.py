"""Mutants in the evidence of a real run: what a broken engine or sink would have left, or a harness that lies.

A mutant changes a :class:`Copy` of the evidence of a run that was VALID.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tidemark.formats.contract import Contract
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import LEFT, Disposition, History, read_history
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.sql.join_answer import ask

OUTER = ("left_outer", "right_outer", "full_outer")
PAIRS = ("inner", *OUTER)
EVERY = (*PAIRS, "left_semi")
change = msgspec.structs.replace


class Copy:
    """The evidence of a run, to be changed and written to a folder of its own."""

    def __init__(self, run: RunDirectory, path: Path) -> None:
        self.sound = run
        self.manifest = run.manifest
        self.contract = Contract.from_json(self.manifest.contract)
        self.batches = run.batches()
        self.output = list(run.output())
        self.trace = run.file("trace").read_bytes()
        self.state = list(run.state() or ())
        self.state_keys = list(run.state_keys() or ())
        self.progress = run.progress()
        self.faults = run.faults()
        self._path = path

    def write(self) -> RunDirectory:
        """The changed evidence."""
        shutil.copytree(
            self.sound.path,
            self._path,
            ignore=shutil.ignore_patterns(
                "logs", "code.zip", "*.json", "output*", "batches*", "state*", "progress*"
            ),
        )
        run = RunDirectory(self._path)
        run.write_json(
            "manifest", change(self.manifest, contract=self.contract.to_json(), records={}, trace_sha256=None)
        )
        run.write_lines("batches", self.batches)
        run.write_lines("output", self.output)
        run.write_lines("state", self.state)
        if self.state_keys:
            run.write_lines("state_keys", self.state_keys)
        run.write_lines("progress", self.progress)
        if self.faults:
            run.write_lines("faults", self.faults)
        run.file("trace").write_bytes(self.trace)
        return run

    def rows(self, *, nulls: bool) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Index, batch and value of the output records that are NULL rows, or of those that are not."""
        names = [name for name in (self.contract.output.left_id, self.contract.output.right_id) if name]
        for index, record in enumerate(self.output):
            value = json.loads(record.value or "")
            if nulls == any(value[name] is None for name in names):
                yield index, int(dict(record.headers)["batch"] or ""), value

    def move(self, index: int, batch: int) -> None:
        """Put an output row into another batch."""
        headers = [(name, str(batch) if name == "batch" else of) for name, of in self.output[index].headers]
        self.output[index] = change(self.output[index], headers=headers)

    def rewrite(self, index: int, value: Mapping[str, Any]) -> None:
        """Give an output row another value."""
        self.output[index] = change(self.output[index], value=json.dumps(value))

    def add(self, like: int, batch: int, value: Mapping[str, Any] | None = None) -> None:
        """Write one more row at the end of the topic, with the headers and (if not said) the value of another."""
        record = self.output[like]
        last = max(one.offset for one in self.output if one.partition == record.partition)
        self.output.append(change(record, offset=last + 1))
        self.move(-1, batch)
        if value is not None:
            self.rewrite(-1, value)

    def columns(self, side: int) -> list[str]:
        """The output's fields that tell which record of a side a row is made of."""
        output = self.contract.output
        name, ref = (output.left_id, output.left_ref) if side == LEFT else (output.right_id, output.right_ref)
        return [name, *(ref or ())] if name else []

    def made_of(self, history: History, rows: Mapping[int, int]) -> dict[str, Any]:
        """The value of an output row of these input rows, by side."""
        value: dict[str, Any] = dict.fromkeys([*self.columns(0), *self.columns(1)])
        for side, row in rows.items():
            told = (history.rows.id[row], *history.position(row))
            value |= zip(self.columns(side), told, strict=True) if self.columns(side) else ()
        return value


Damage = Callable[[Copy], None]


@dataclass(frozen=True)
class Damaged:
    """``damage`` must be killed by ``killed_by`` on each of ``joins``; ``late``: it needs a run with late rows."""

    damage: Damage
    killed_by: str
    joins: tuple[str, ...] = EVERY
    late: bool = False

    def expected(self, join: str) -> str:
        """The property by the name that it has in this join."""
        return (
            "repeated_semi_rows"
            if (join, self.killed_by) == ("left_semi", "duplicate_rows")
            else self.killed_by
        )


# What was planned and committed


def batch_missing(copy: Copy) -> None:
    del copy.batches[len(copy.batches) // 2]


def batch_twice(copy: Copy) -> None:
    copy.batches.insert(2, copy.batches[1])


def commit_taken_back(copy: Copy) -> None:
    copy.batches[1] = change(copy.batches[1], committed=False)


def watermark_raised(copy: Copy) -> None:
    copy.batches[-1] = change(copy.batches[-1], watermark_ms=copy.batches[-1].watermark_ms + 1)


def _ends(batch: Batch, less: Batch) -> Batch:
    """The batch, with one partition's end a record before that of another batch."""
    topic = next(iter(batch.end_offsets))
    ends = dict(batch.end_offsets[topic])
    partition = max(ends, key=lambda name: less.end_offsets[topic].get(name, 0))
    ends[partition] = less.end_offsets[topic][partition] - 1
    return change(batch, end_offsets={**batch.end_offsets, topic: ends})


def offsets_backwards(copy: Copy) -> None:
    copy.batches[3] = _ends(copy.batches[3], copy.batches[0])


def records_read_a_batch_late(copy: Copy) -> None:
    """A batch is said to have read less than it did: what it wrote of the rest is due in the next one."""
    history, topic = read_history(copy.sound), copy.contract.left.topic
    _, partition_of, offset_of = copy.columns(LEFT)
    for _, number, value in copy.rows(nulls=False):
        partition, offset = value[partition_of], value[offset_of]
        if history.rows.batch[history.partitions[LEFT][partition].row_at(offset)] == number > 0:
            plan = copy.batches[number]
            ends = {**plan.end_offsets[topic], str(partition): offset}
            copy.batches[number] = change(plan, end_offsets={**plan.end_offsets, topic: ends})
            return
    raise AssertionError("no row was joined in the batch that read it")


def records_published_in_another_order(copy: Copy) -> None:
    """The trace is not the one that was published: two of its records have changed places."""
    _, _, (one, other) = _row_before_another(copy)
    lines = copy.trace.splitlines(keepends=True)
    lines[one], lines[other] = lines[other], lines[one]
    copy.trace = b"".join(lines)


# What came out


def _last_null(copy: Copy) -> tuple[int, int, dict[str, Any]]:
    return max(copy.rows(nulls=True), key=lambda row: row[1])


def _any_row(copy: Copy) -> tuple[int, int, dict[str, Any]]:
    found = list(copy.rows(nulls=False))
    return found[len(found) // 2]


def _row_before_another(copy: Copy) -> tuple[int, dict[str, Any], tuple[int, int]]:
    """A row whose left record has an event after it in its slice and partition, not the same sent again.

    Index and value of the row; the lines of the trace in which the two records are.
    """
    lines, places = [json.loads(line) for line in copy.trace.splitlines()], defaultdict(list)
    for number, record in enumerate(lines[1:], 1):
        if record["topic"] == copy.contract.left.topic:
            places[record.get("partition", 0)].append(number)
    found = list(copy.rows(nulls=False))
    for index, _, value in found[len(found) // 2 :]:
        _, partition, offset = (value[name] for name in copy.columns(LEFT))
        one, *others = places[partition][offset : offset + 2]
        mine, other = lines[one], lines[others[0]] if others else {}
        same_slice = other.get("slice", 0) == mine.get("slice", 0)
        if "event_ms" in other and other["value"] != mine["value"] and same_slice:
            return index, value, (one, others[0])
    raise AssertionError("no row of this run is made of a record with another after it")


def null_row_a_batch_early(copy: Copy) -> None:
    index, batch, _ = _last_null(copy)
    copy.move(index, batch - 1)


def null_row_a_batch_late(copy: Copy) -> None:
    index, batch, _ = min(copy.rows(nulls=True), key=lambda row: row[1])
    copy.move(index, batch + 1)


def row_a_batch_late(copy: Copy) -> None:
    index, batch, _ = _any_row(copy)
    copy.move(index, batch + 1)


def row_of_a_batch_that_never_was(copy: Copy) -> None:
    copy.move(_any_row(copy)[0], len(copy.batches) + 7)


def row_after_a_later_batch(copy: Copy) -> None:
    """Two rows of one partition and two batches have changed places."""
    last: dict[int, tuple[int, int]] = {}
    for index, batch, _ in copy.rows(nulls=False):
        one = copy.output[index]
        before, earlier = last.get(one.partition, (index, batch))
        if earlier < batch:
            other = copy.output[before]
            copy.output[before] = change(one, offset=other.offset)
            copy.output[index] = change(other, offset=one.offset)
            return
        last[one.partition] = index, batch
    raise AssertionError("no partition of the output has rows of two batches")


def row_deleted(copy: Copy) -> None:
    del copy.output[_any_row(copy)[0]]


def null_row_deleted(copy: Copy) -> None:
    del copy.output[_last_null(copy)[0]]


def transaction_lost(copy: Copy) -> None:
    """All rows of one partition of one batch."""
    gone = [pair for pair in copy.output[_any_row(copy)[0]].headers if pair[0] in ("batch", "partition")]
    copy.output = [record for record in copy.output if not set(gone) <= set(record.headers)]


def topic_cut_off(copy: Copy) -> None:
    """The last joined row of the topic, and all that follows."""
    del copy.output[max(index for index, _, _ in copy.rows(nulls=False)) :]


def row_twice_in_its_batch(copy: Copy) -> None:
    index, batch, _ = _any_row(copy)
    copy.add(index, batch)


def row_again_in_the_next_batch(copy: Copy) -> None:
    index, batch, _ = _any_row(copy)
    copy.add(index, batch + 1)


def null_row_twice(copy: Copy) -> None:
    index, batch, _ = _last_null(copy)
    copy.add(index, batch)


def one_row_twice_another_gone(copy: Copy) -> None:
    rows, output = list(copy.rows(nulls=False)), copy.contract.output
    first, batch, value = rows[0]
    names = [name for name in (output.left_id, output.right_id) if name is not None]
    second = next(row for row, _, other in rows if any(other[name] != value[name] for name in names))
    copy.add(first, batch)
    del copy.output[second]


def null_row_for_a_matched_row(copy: Copy) -> None:
    index, _, value = _any_row(copy)
    absent = copy.columns(0 if copy.contract.kind == "right_outer" else 1)
    copy.add(index, len(copy.batches) - 1, value | dict.fromkeys(absent))


# What rows are made of


def ids_exchanged(copy: Copy) -> None:
    rows = list(copy.rows(nulls=False))
    name = copy.contract.output.left_id
    (first, _, one), (second, _, other) = next((a, b) for a, b in pairwise(rows) if a[2][name] != b[2][name])
    copy.rewrite(first, one | {name: other[name]})
    copy.rewrite(second, other | {name: one[name]})


def left_columns_of_another_row(copy: Copy) -> None:
    history = read_history(copy.sound)
    index, _, value = _any_row(copy)
    row = history.partitions[LEFT][value[copy.columns(LEFT)[1]]].row_at(value[copy.columns(LEFT)[2]])
    prediction = prediction_of(history, ask(history))
    other = next(
        number
        for number in range(history.rows.first_sentinel)
        if history.rows.side[number] == LEFT and prediction.disposition[number] == Disposition.ACCEPTED
        and 0 <= history.rows.key[number] != history.rows.key[row] and not prediction.matched[number]
    )  # fmt: skip
    copy.rewrite(
        index, value | {k: v for k, v in copy.made_of(history, {LEFT: other}).items() if v is not None}
    )


def row_of_nothing(copy: Copy) -> None:
    index, batch, value = _any_row(copy)
    copy.add(index, batch, value | {copy.columns(LEFT)[2]: 1_000_000})


def position_of_another_record(copy: Copy) -> None:
    index, value, _ = _row_before_another(copy)
    copy.rewrite(index, value | {copy.columns(LEFT)[2]: value[copy.columns(LEFT)[2]] + 1})


def made_unreadable(copy: Copy, side: int, partition: int, offset: int) -> None:
    """Cut off an input record: what is left of it is no JSON."""
    lines, topic = copy.trace.splitlines(keepends=True), (copy.contract.left, copy.contract.right)[side].topic
    at = copy.manifest.inputs[topic].start_offsets.get(str(partition), 0)
    for number, line in enumerate(lines[1:], 1):
        record = json.loads(line)
        if (record["topic"], record.get("partition", 0)) == (topic, partition):
            if at == offset:
                cut = record | {"value": record["value"][:-1]}
                lines[number] = json.dumps(cut).encode() + b"\n"
                copy.trace = b"".join(lines)
                return
            at += 1
    raise AssertionError(f"{topic}/{partition} has no offset {offset}")


def record_that_only_the_query_reads(copy: Copy) -> None:
    """The record of a row that came is not what the contract describes."""
    _, _, value = _any_row(copy)
    _, partition, offset = copy.columns(LEFT)
    made_unreadable(copy, LEFT, value[partition], value[offset])


def record_of_ids_that_only_the_query_reads(copy: Copy) -> None:
    """The same, where the output has ids only, and no other record has the id."""
    history, (name, partition, offset) = read_history(copy.sound), copy.columns(LEFT)
    found = [value for _, _, value in copy.rows(nulls=False)]
    value = next(one for one in found if history.rows.id.count(one[name]) == 1)
    copy.contract = replace(
        copy.contract, output=replace(copy.contract.output, left_ref=None, right_ref=None)
    )
    made_unreadable(copy, LEFT, value[partition], value[offset])


# Late rows


def _late(copy: Copy, side: int) -> tuple[History, Prediction, int]:
    history = read_history(copy.sound)
    prediction, partners = prediction_of(history, ask(history)), Partners(history)
    for row in range(history.rows.first_sentinel):
        if (
            history.rows.side[row] == side
            and prediction.disposition[row] == Disposition.LATE
            and partners.of(row)
        ):
            return history, prediction, row
    raise AssertionError("no late row of this run has a partner")


def late_row_joined(copy: Copy) -> None:
    side = 0 if copy.contract.kind == "left_semi" else 1
    history, _, row = _late(copy, side)
    other = Partners(history).of(row)[0]
    copy.add(0, history.rows.batch[row], copy.made_of(history, {side: row, 1 - side: other}))


def null_row_for_a_late_row(copy: Copy) -> None:
    side = 1 if copy.contract.kind == "right_outer" else 0
    history, _, row = _late(copy, side)
    copy.add(0, len(copy.batches) - 1, copy.made_of(history, {side: row}))


# Another promise than the one that the run kept


def delay_promised_shorter(copy: Copy) -> None:
    delays = {side.topic: side.watermark_delay_ms for side in (copy.contract.left, copy.contract.right)}
    slower = max(delays, key=lambda topic: delays[topic] or 0)
    for name in ("left", "right"):
        side = getattr(copy.contract, name)
        if side.topic == slower:
            copy.contract = replace(copy.contract, **{name: replace(side, watermark_delay_ms=15_000)})


def bound_promised_longer(copy: Copy) -> None:
    bound = copy.contract.bound
    copy.contract = replace(
        copy.contract,
        bound=replace(bound, lower_ms=(bound.lower_ms or 0) - 10_000, upper_ms=(bound.upper_ms or 0)),
    )


def bound_promised_shorter(copy: Copy) -> None:
    bound = copy.contract.bound
    half = {"lower_ms": (bound.lower_ms or 0) // 2, "upper_ms": (bound.upper_ms or 0) // 2}
    copy.contract = replace(copy.contract, bound=replace(bound, **half))


EVIDENCE = {
    "batch missing": Damaged(batch_missing, "missing_batches"),
    "batch written down twice": Damaged(batch_twice, "missing_batches"),
    "commit taken back": Damaged(commit_taken_back, "missing_batches"),
    "offsets that go back": Damaged(offsets_backwards, "missing_batches"),
    "records read a batch late": Damaged(records_read_a_batch_late, "misplaced_rows"),
    "records published in another order": Damaged(records_published_in_another_order, "corrupt_rows"),
    "watermark raised by a millisecond": Damaged(watermark_raised, "wrong_watermarks"),
    "NULL row a batch early": Damaged(null_row_a_batch_early, "premature_nulls", OUTER),
    "NULL row a batch late": Damaged(null_row_a_batch_late, "misplaced_rows", OUTER),
    "row a batch late": Damaged(row_a_batch_late, "misplaced_rows"),
    "row of a batch that never was": Damaged(row_of_a_batch_that_never_was, "misplaced_rows"),
    "row after a later batch": Damaged(row_after_a_later_batch, "misordered_rows"),
    "row deleted": Damaged(row_deleted, "lost_rows"),
    "NULL row deleted": Damaged(null_row_deleted, "missing_nulls", OUTER),
    "transaction lost": Damaged(transaction_lost, "lost_rows"),
    "topic cut off": Damaged(topic_cut_off, "lost_rows"),
    "row twice in its batch": Damaged(row_twice_in_its_batch, "duplicate_rows"),
    "row again in the next batch": Damaged(row_again_in_the_next_batch, "duplicate_rows"),
    "NULL row twice": Damaged(null_row_twice, "duplicate_rows", OUTER),
    "one row twice, another gone": Damaged(one_row_twice_another_gone, "duplicate_rows"),
    "NULL row for a matched row": Damaged(null_row_for_a_matched_row, "nulls_for_matched_rows", OUTER),
    "NULL row of an inner join": Damaged(null_row_for_a_matched_row, "phantom_rows", ("inner",)),
    "ids exchanged": Damaged(ids_exchanged, "corrupt_rows"),
    "left columns of another row": Damaged(
        left_columns_of_another_row, "phantom_rows", ("inner", "left_outer", "left_semi")
    ),
    "row of nothing": Damaged(row_of_nothing, "phantom_rows"),
    "position of another record": Damaged(position_of_another_record, "corrupt_rows"),
    "record that only the query reads": Damaged(record_that_only_the_query_reads, "decoded_differently"),
    "record of ids that only the query reads": Damaged(
        record_of_ids_that_only_the_query_reads, "decoded_differently"
    ),
    "late row joined": Damaged(late_row_joined, "late_rows_joined", late=True),
    "NULL row for a late row": Damaged(null_row_for_a_late_row, "late_rows_joined", OUTER, late=True),
    "delay promised shorter": Damaged(delay_promised_shorter, "wrong_watermarks"),
    "bound promised shorter": Damaged(bound_promised_shorter, "phantom_rows"),
    "bound promised longer": Damaged(bound_promised_longer, "premature_nulls", ("left_outer",)),
}
