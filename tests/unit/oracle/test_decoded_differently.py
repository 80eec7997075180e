"""Records that the judge cannot read and the query did: what shows it, and what does not."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.golden.judging import EVIDENCE
from tests.unit.oracle import test_large
from tests.unit.oracle.audits import AuditOf, as_exactly_once
from tests.unit.oracle.histories import LEFT_TOPIC, Run
from tests.unit.oracle.naive import Row
from tidemark.formats.contract import Bound
from tidemark.formats.evidence import InputRecord, OutputRecord, RunDirectory, StateRow
from tidemark.formats.manifest import StateInfo
from tidemark.formats.seal import seal
from tidemark.formats.trace import TraceReader, write_trace
from tidemark.oracle.findings import Finding

NAME = "decoded_differently"
IDS = {"left_ref": None, "right_ref": None}
NO_TIME, BROKEN = "-", "?"
"""In the place of the seconds of a row: JSON without an event time, and JSON that ends in the middle."""


class OddRun(Run):
    """A run with records that the judge cannot read, although they have ids."""

    def value(self, topic: str, row: str) -> bytes:
        if not row.endswith(f" {BROKEN}"):
            return super().value(topic, row)
        name, key, _ = row.split()
        return f'{{"{self.contract.side(topic).id}": "{name}", "user": "{key}", "time"'.encode()

    def row(self, side: str, topic: str, number: int) -> Row | None:
        is_odd = self.rows[topic][number].split()[-1] in (NO_TIME, BROKEN)
        return None if is_odd else super().row(side, topic, number)

    def bare(self) -> OddRun:
        """The same, whose output has ids only."""
        self.contract = replace(self.contract, output=replace(self.contract.output, **IDS))
        return self


def found(run: Run) -> list[Finding]:
    """The findings of the property, and no row is said to be invented."""
    verdict = run.verdict()
    assert verdict.verdict == "INVALID"
    assert verdict.inconclusive == []
    assert "phantom_rows" not in verdict.findings_total
    return [one for one in verdict.findings if one.property == NAME]


def odd(kind: str, left: str, right: str, out: str, **changes: Any) -> OddRun:
    """A batch, what it wrote, and a flush; besides there is a row that has no partner and is right."""
    run = OddRun(kind, **changes).batch(f"i0 z 10, {left}", right, out=out)
    run.flush(out="i0 -" if "outer" in kind else "")
    return run


@pytest.mark.parametrize("seconds", [NO_TIME, BROKEN])
@pytest.mark.parametrize("kind", ["inner", "left_outer"])
@pytest.mark.parametrize("has_refs", [True, False])
def test_a_pair_of_an_unreadable_record_shows_that_the_query_read_it(kind, seconds, has_refs):
    run = odd(kind, f"i1 a {seconds}", "c1 a 12", "i1 c1")
    run = run if has_refs else run.bare()

    [finding] = found(run)

    assert finding.message.startswith(
        "the query read impressions/0/1, which is in output 0/0 of batch 0 (iid i1, cid c1), and the judge cannot: "
    )
    why = "it has no field 'time': " if seconds == NO_TIME else "it is not JSON: "
    assert why in finding.message
    assert finding.message.endswith("'")
    assert finding.row == {"iid": "i1", "cid": "c1"}
    assert (finding.written, finding.read, finding.batch) == (["impressions/0/1"], "0/0", 0)


def test_the_record_may_be_that_of_the_right_side():
    [finding] = found(odd("inner", "i1 a 10", f"c0 y 10, c1 a {BROKEN}", "i1 c1"))

    assert finding.written == ["clicks/0/1"]


def test_a_semi_row_takes_an_event_time_as_a_pair_does():
    [finding] = found(odd("left_semi", f"i1 a {NO_TIME}", "c1 a 12", "i1"))

    assert finding.row == {"iid": "i1"}


@pytest.mark.parametrize("has_refs", [True, False])
def test_a_null_row_with_an_id_of_what_is_no_json_shows_it(has_refs):
    run = odd("left_outer", f"i1 a {BROKEN}", "", "i1 -")
    [finding] = found(run if has_refs else run.bare())

    assert "(iid i1, cid NULL)" in finding.message


@pytest.mark.parametrize("has_refs", [True, False])
def test_a_null_row_of_a_record_without_a_time_may_be_of_a_query_that_does_not_filter(has_refs):
    run = odd("left_outer", f"i1 a {NO_TIME}", "", "i1 -")

    assert (run if has_refs else run.bare()).findings() == {"phantom_rows": 1}


@pytest.mark.parametrize("has_refs", [True, False])
def test_without_a_time_bound_a_pair_takes_no_time(has_refs):
    run = odd("inner", f"i1 a {NO_TIME}", "c1 a 12", "i1 c1", bound=Bound(None, None))

    assert (run if has_refs else run.bare()).findings() == {"phantom_rows": 1}


def test_another_id_than_the_judge_reads_shows_it():
    run = odd("left_outer", f"i1 a {NO_TIME}", "", "")
    run.records.insert(0, run.record(0, "i1", "-", iid="changed"))

    assert NAME in run.findings()


def test_an_id_that_two_unreadable_records_have_shows_neither():
    run = odd("inner", f"i1 a {BROKEN}, i1 b {BROKEN}", "c1 a 12", "i1 c1").bare()

    assert run.findings() == {"phantom_rows": 1}


def test_an_id_that_an_event_has_too_is_taken_for_that_of_the_event():
    run = odd("inner", f"i1 a 11, i1 a {BROKEN}", "c1 a 12", "i1 c1").bare()

    assert run.findings() == {}


def test_an_id_of_no_record_at_all_is_invented():
    run = odd("inner", f"i1 a {BROKEN}", "c1 a 12", "").bare()
    run.records.insert(0, run.record(0, "i9", "c1"))

    assert run.findings() == {"phantom_rows": 1}


def test_a_record_whose_function_raised_is_named_with_its_reason():
    class Decoded(OddRun):
        def inputs(self):
            why = 'decode raised ValueError: no magic byte; its value is b\'{"iid": "i1"\''
            for one in super().inputs():
                yield one._replace(value=why) if one.value is not None and b"?" in one.value else one

        def value(self, topic, row):
            return b"?" if row.endswith(BROKEN) else super().value(topic, row)

    run = Decoded("inner").batch(f"i0 z 10, i1 a {BROKEN}", "c1 a 12", out="i1 c1").flush()
    run.contract = replace(run.contract, left=replace(run.contract.left, decode="decode", encode="encode"))

    [finding] = found(run)

    assert "the judge cannot: decode raised ValueError: no magic byte; its value is b'{" in finding.message


def test_the_state_shows_a_record_with_an_event_time_and_not_one_without():
    run = OddRun("left_outer").batch(f"i0 z 10, i1 a {NO_TIME}, i2 a {NO_TIME}").flush(out="i0 -")
    keys = {"key": ("a",), "matched": False}
    run.kept = [
        StateRow(batch=0, side="left", key=("z",), time_us=10_000_000, ref=(0, 0), matched=False),
        StateRow(batch=0, side="left", time_us=11_000_000, ref=(0, 1), **keys),
        StateRow(batch=0, side="left", time_us=None, ref=(0, 2), **keys),
    ]
    run.info = StateInfo(format=2, batches=[0])

    verdict = run.verdict()

    assert verdict.findings_total == {NAME: 1, "leaked_state": 1}
    [finding] = [one for one in verdict.findings if one.property == NAME]
    assert finding.message.startswith(
        "the query read impressions/0/1, which Spark's state after batch 0 has with the event time"
        " 1970-01-01T00:00:11.000Z, and the judge cannot: it has no field 'time': "
    )


@pytest.mark.parametrize("level", ["ids", "rows", "batches"])
def test_an_audit_says_the_same_at_every_level(level):
    run = odd("left_outer", f"i1 a {BROKEN}", "c1 a 12", "i1 c1")

    audit = AuditOf(as_exactly_once(run), level)

    assert audit.findings() == {NAME: 1}
    [finding] = [one for one in audit.verdict().findings if one.property == NAME]
    assert finding.batch == (0 if level == "batches" else None)


def test_an_audit_with_deleted_records_takes_an_unknown_id_for_one_of_these():
    run = odd("left_outer", f"i1 a {BROKEN}", "c1 a 12", "i1 c1")

    assert NAME not in AuditOf(run, "ids", deleted={LEFT_TOPIC: 1}).findings()


def test_an_offset_that_holds_no_record_any_more_may_have_been_read():
    class Compacted(OddRun):
        def inputs(self):
            for one in super().inputs():
                is_gone = (one.topic, one.offset) == (LEFT_TOPIC, 1)
                yield InputRecord(*one[:3], None, one.is_sentinel) if is_gone else one

    run = Compacted("left_outer").batch(f"i0 z 10, i1 a {BROKEN}", "c1 a 12", out="i1 c1").flush(out="i0 -")

    assert NAME not in AuditOf(as_exactly_once(run), "rows").findings()


@pytest.mark.not_smoke
@pytest.mark.parametrize("has_refs", [True, False])
@pytest.mark.parametrize("value", ["cut", "no time"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_reduced_run_says_the_same(has_refs, value, parts, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(test_large.reduction, "SAMPLE_ROWS", test_large.FEW_ROWS)
    test_large.in_parts(monkeypatch, parts)
    run = unread(tmp_path, value, has_refs=has_refs)

    whole, part, was_reduced = test_large.both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["findings_total"][NAME] == 1


def unread(path: Path, value: str, *, has_refs: bool) -> RunDirectory:
    """A large run, of which the left record of a pair was changed afterwards, so that the judge cannot read it."""
    test_large.make_large_run(path, 4_000, 5)
    run = RunDirectory(path)
    manifest, output = run.manifest, list(run.output())
    rows = [json.loads(record.value or "") for record in output]
    row = random.Random(7).choice([one for one in rows if one["click_id"] is not None])
    with TraceReader(run.file("trace")) as reader:
        header, records = reader.header, list(reader)
    for at, record in enumerate(records):
        if record.topic == "impressions" and f'"{row["impression_id"]}"' in (record.value or ""):
            text = record.value or ""
            fields = json.loads(text)
            changed = text[:-3] if value == "cut" else json.dumps(fields | {"impression_time": None})
            records[at] = msgspec.structs.replace(record, value=changed)
    if not has_refs:
        manifest.contract["output"] |= IDS
    for name in ("trace", "output"):
        run.file(name).unlink()
    manifest.trace_sha256 = write_trace(path / "trace.jsonl", header, records)
    run.write_lines("output", output)
    manifest.records, manifest.parquet_sha256 = run.count_records(), {}
    run.write_json("contract", manifest.contract)
    run.write_json("manifest", manifest)
    seal(path)
    return run


def test_a_reduced_run_says_the_same_of_its_state(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(test_large.reduction, "SAMPLE_ROWS", test_large.FEW_ROWS)
    run = RunDirectory(shutil.copytree(EVIDENCE / "left_outer", tmp_path / "run"))
    manifest, state = run.manifest, list(run.state() or ())
    row = next(one for one in state if one.side == "right" and one.ref is not None)
    with TraceReader(run.file("trace")) as reader:
        header, records = reader.header, list(reader)
    of_partition = [
        at for at, one in enumerate(records) if (one.topic, one.partition) == ("clicks", row.ref[0])
    ]
    start = manifest.inputs["clicks"].start_offsets.get(str(row.ref[0]), 0)
    at = of_partition[row.ref[1] - start]
    records[at] = msgspec.structs.replace(records[at], value=(records[at].value or "")[:-1])
    run.file("trace").unlink()
    manifest.trace_sha256 = write_trace(run.path / "trace.jsonl", header, records)
    run.write_json("manifest", manifest)
    seal(run.path)

    whole, part, was_reduced = test_large.both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["findings_total"][NAME] >= 1
    said = [json.loads(one) for one in whole["findings"]] if isinstance(whole["findings"], list) else []
    assert any(one["property"] == NAME and "Spark's state after batch" in one["message"] for one in said)


def test_records_of_output_are_read_once_for_all_findings():
    """However many rows are wrong, the input is read once for them."""
    reads = []

    class Counted(OddRun):
        def inputs(self):
            reads.append(1)
            return super().inputs()

    rows = ", ".join(f"i{n} a {BROKEN}" for n in range(1, 40))
    run = Counted("inner").batch(f"i0 z 10, {rows}", "c1 a 12").flush()
    run.records = [
        msgspec.structs.replace(run.record(0, f"i{n}", "c1"), offset=n, partition=0) for n in range(1, 40)
    ]
    before = len(reads)

    verdict = run.verdict()

    assert verdict.findings_total == {NAME: 39}
    assert len([one for one in verdict.findings if one.property == NAME]) == 20
    assert len(reads) - before <= 3  # the history, these records, and those of which causes are looked for
    assert isinstance(run.records[0], OutputRecord)
