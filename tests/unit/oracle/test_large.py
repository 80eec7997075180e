"""A large run has the verdict of a small one, whatever is wrong with it, and however few rows are handed on."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from bench._large_evidence import make_large_run
from tests.golden.judging import EVIDENCE, FACTS, names, read
from tests.support.counted_keys import add_keys, keys_of
from tests.support.tiers import every_day
from tests.unit.oracle.test_any_contract import Drawn
from tidemark.campaigns.random_cases import generate
from tidemark.errors import TestbedError, TidemarkError, UsageError
from tidemark.formats import trace
from tidemark.formats.chain import is_chain
from tidemark.formats.contract import Contract, Delivery, JoinKind
from tidemark.formats.evidence import OutputRecord, RunDirectory, StateRow
from tidemark.formats.manifest import InputTopic
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_run
from tidemark.formats.trace import Header, TopicSpec, TraceReader, write_trace
from tidemark.oracle import Verdict, judge
from tidemark.oracle import judgement as judging
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import first_of, read_history, right_of
from tidemark.oracle.large import duckdb_engine, reduction
from tidemark.oracle.sql.join_answer import ask

pytestmark = [pytest.mark.not_smoke]

SEEDS = 10
STATE_RUNS = ("left_outer", "full_outer", "right_outer", "inner")
FEW_ROWS = 4
"""So few rows are a sample here, so that most are left out."""
PARTS = 3


@pytest.fixture(autouse=True)
def sample_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "SAMPLE_ROWS", FEW_ROWS)


@pytest.fixture(autouse=True)
def tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of about every other test are in parts; a drawn run has its own."""
    in_parts(monkeypatch, PARTS if zlib.crc32(request.node.name.encode()) % 2 else 1)


def in_parts(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(duckdb_engine, "parts_of", lambda *_: parts)


def both(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """What is said of a run as a small one and as a large one; and whether it was reduced."""
    monkeypatch.setattr(judging, "reduced", lambda _run, **_engine: None)
    whole = facts(judge(run))
    was: list[bool] = []

    def reduced(run: Any, **_engine: Any) -> Any:
        part = reduction.reduced(run, large=-1)
        was.append(part is not None)
        return part

    monkeypatch.setattr(judging, "reduced", reduced)
    return whole, facts(judge(run)), was[0]


def facts(verdict: Verdict) -> dict[str, Any]:
    """All of a verdict but how much the model judged, and with which right rows wrong ones were compared.

    Findings are in an order of their own, if all were kept.
    """
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    findings = [json.dumps(one, sort_keys=True) for one in found.pop("findings")]
    kept_all = len(findings) == sum(verdict.findings_total.values())
    found.pop("modelled")
    found["causes"] = [one["property"] for one in found["causes"]]
    return {**found, "findings": sorted(findings) if kept_all else len(findings)}


def drawn(seed: int, rng: random.Random | None = None) -> Drawn:
    """A drawn run, restarted now and then if there is a generator; every third one on Spark 4.1."""
    case = generate(seed)
    restarts = {number for number in range(1, case.slices + 2) if rng is not None and rng.random() < 0.2}
    return Drawn(case, restarts, spark="4.1.4" if seed % 3 == 0 else "4.2.0")


def write(run_drawn: Drawn, path: Path, rng: random.Random) -> RunDirectory:
    """The evidence of a drawn run, sealed; something is wrong with its output."""
    run, records = RunDirectory(path), run_drawn.records
    end = len(records) - run_drawn.sentinels
    header = Header(
        tidemark_trace=trace.FORMAT,
        pace=rng.choice(("stepped", "backlog")),
        topics={name: TopicSpec(1) for name in run_drawn.manifest.inputs},
        slices=max(one.slice for one in records) + 1,
    )
    write_trace(path / "trace.jsonl", header, records[:end])
    write_trace(path / "flush.jsonl", header, records[end:])
    many = Counter(one.topic for one in records)
    manifest = msgspec.structs.replace(
        run_drawn.manifest,
        inputs={name: InputTopic(name, {"0": 0}, {"0": many[name]}) for name in run_drawn.manifest.inputs},
        delivery=rng.choice(list(Delivery)),
        query_id="q-1",
        seed=rng.randrange(100),
        pace=header.pace,
    )
    contract = Contract.from_json(manifest.contract)
    if rng.random() < 0.3:
        output = replace(contract.output, left_ref=None, right_ref=None)
        manifest.contract = replace(contract, output=output).to_json()
    run.write_json("manifest", manifest)
    batches = [
        msgspec.structs.replace(one, runs=rng.choice((1, 1, 2))) if one.restarted else one
        for one in run_drawn.batches()
    ]
    run.write_lines("batches", batches)
    run.write_lines("output", [])
    history = read_history(run)
    run.write_lines("output", numbered(damaged(rows(history), rng), rng))
    write_trace(path / "trace.jsonl", header, some_unread(records[:end], manifest.seed or 0))
    seal(path)
    if rng.random() < 0.3:
        store_run(path, "parquet")
    return run


def some_unread(records: list[Any], seed: int) -> Iterator[Any]:
    """The records; of every third run some are cut off or lose a field, so that the judge cannot read them."""
    rng = random.Random(f"unread {seed} {len(records)}")
    share = rng.choice((0.0, 0.0, 0.1))
    for record in records:
        text = record.value or ""
        if rng.random() < share and text.startswith("{"):
            fields = dict(list(json.loads(text).items())[:-1])
            text = rng.choice((text[:-2], json.dumps(fields), json.dumps(dict.fromkeys(fields))))
        yield msgspec.structs.replace(record, value=text or record.value)


def rows(history: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The right output: batch and fields of each record, batch after batch."""
    output = history.contract.output
    columns = (output.left_id, output.left_ref), (output.right_id, output.right_ref)
    due = prediction_of(history, ask(history)).batch_of
    for identity, batch in sorted(due.items(), key=lambda one: one[1]):
        fields: dict[str, Any] = {}
        for row in (first_of(identity), right_of(identity)):
            if row is not None:
                name, ref = columns[history.rows.side[row]]
                fields[name] = history.rows.id[row]
                if ref is not None:
                    fields |= dict(zip(ref, history.position(row), strict=True))
        if history.contract.kind is not JoinKind.LEFT_SEMI:
            every = [one for name, ref in columns for one in (name, *(ref or ()))]
            fields = dict.fromkeys(every) | fields
        yield batch, fields


def damaged(sound: Iterator[tuple[int, dict[str, Any]]], rng: random.Random) -> Iterator[tuple[str, str]]:
    """The same, some records changed: header of the batch, and value."""
    share = rng.choice((0.0, 0.05, 0.3))
    found = list(sound)
    for _ in range(rng.choice((0, 0, 0, 1, len(found)))):
        found.insert(rng.randrange(len(found)), found.pop(rng.randrange(len(found)))) if found else None
    for batch, fields in found:
        text = json.dumps(fields)
        how = rng.choice(DAMAGES) if rng.random() < share else "none"
        if how == "lost":
            continue
        if how == "misplaced":
            batch = max(0, batch + rng.choice((-1, 1, 50)))
        elif how in ("id", "ref", "null"):
            name = rng.choice([one for one in fields if ("offset" in one) == (how == "ref")] or list(fields))
            other = {"id": "other", "ref": rng.randrange(9), "null": None}[how]
            text = json.dumps(fields | {name: other})
        elif how == "value":
            text = rng.choice(("", "garbage", "[]", text[:-1], text.replace("{", '{"left_id": "twice", ')))
        named = rng.choice(("x", "-1", "007", "12345678901")) if how == "batch" else str(batch)
        yield named, text
        if how == "twice":
            yield named, text


DAMAGES = ("lost", "twice", "misplaced", "id", "ref", "null", "value", "batch")


def numbered(records: Iterator[tuple[str, str]], rng: random.Random) -> Iterator[OutputRecord]:
    partitions, ends = rng.choice((1, 1, 3)), Counter[int]()
    for batch, value in records:
        headers: list[Any] = [("query", "q-1"), ("batch", batch), ("partition", "0"), ("attempt", "0")]
        if rng.random() < 0.02:
            headers.reverse()
        at = rng.randrange(partitions)
        ends[at] += rng.choice((1, 1, 2))  # an offset without a record is that of a marker
        yield OutputRecord(partition=at, offset=ends[at], value=value, headers=headers)


def outcome_of(seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verdict of a drawn run, which is the same if it is reduced; or why there is none."""
    rng = random.Random(f"large {seed}")
    run = write(drawn(seed, rng), path, rng)
    in_parts(monkeypatch, rng.randint(1, PARTS))
    try:
        whole, part, was_reduced = both(run, monkeypatch)
    except TidemarkError:
        return "refused"
    assert whole == part, seed
    return str(whole["verdict"]) if was_reduced else "not reduced"


@pytest.mark.parametrize("first", every_day(range(0, 4_000, 1_000), range(1_000)))
def test_a_reduced_run_has_the_same_verdict(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + SEEDS):
        (tmp_path / str(seed)).mkdir()
        outcomes.update([outcome_of(seed, tmp_path / str(seed), monkeypatch)])
    assert min(outcomes["VALID"] + outcomes["UNKNOWN"], outcomes["INVALID"]) > 1, outcomes


def test_the_witness_of_a_null_row_came_in_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first NULL row of this run is lost, and of a dirty key; others came."""
    assert outcome_of(3490, tmp_path, monkeypatch) == "INVALID"


def test_a_row_of_a_record_that_was_not_published_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace may have more records than were published; an output record names one of these."""
    make_large_run(tmp_path, 4_000, 5)
    run = RunDirectory(tmp_path)
    manifest = run.manifest
    with TraceReader(run.file("trace")) as reader:
        header, records = reader.header, list(reader)
    more = msgspec.structs.replace(records[-1], value=(records[-1].value or "").replace('"c-', '"never-'))
    assert more.topic == "clicks"
    assert more.partition != 0  # where the sentinels are
    end = manifest.inputs["clicks"].end_offsets[str(more.partition)]
    output = list(run.output())
    row = json.loads(output[0].value or "") | {
        "click_id": json.loads(more.value or "")["click_id"],
        "click_partition": more.partition,
        "click_offset": end,
    }
    output.append(msgspec.structs.replace(output[-1], offset=len(output), value=json.dumps(row)))
    for name in ("trace", "output"):
        run.file(name).unlink()
    manifest.trace_sha256 = write_trace(tmp_path / "trace.jsonl", header, [*records, more, more])
    run.write_lines("output", output)
    manifest.records, manifest.parquet_sha256 = run.count_records(), {}
    run.write_json("manifest", manifest)
    seal(tmp_path)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["findings_total"] == {"phantom_rows": 1}


def joins() -> list[Any]:
    """The recorded runs of one join that can be judged; every third of them every day. No audit is reduced."""
    readable = [name for name, facts in read(FACTS).items() if facts["exit_code"] != 2]
    manifests = {name: RunDirectory(EVIDENCE / name).manifest for name in names() if name in readable}
    found = [name for name, of in manifests.items() if of.audit is None and not is_chain(of.contract)]
    return [
        pytest.param(name, marks=() if at % 3 == 0 else pytest.mark.long) for at, name in enumerate(found)
    ]


@pytest.mark.parametrize("name", joins())
def test_a_recorded_run_has_the_same_verdict_if_it_is_reduced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(shutil.copytree(EVIDENCE / name, tmp_path / name))
    seal(run.path)

    whole, part, _ = both(run, monkeypatch)

    assert whole == part


STATE_DAMAGES = ("lost", "twice", "flag", "time", "key", "place", "side", "no flag", "no place", "no key")


@pytest.mark.parametrize("damage", every_day(STATE_DAMAGES, ("lost", "time", "no key")))
def test_a_reduced_run_with_a_wrong_state_has_the_same_verdict(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of recorded joins whose state has the place of each row in the input."""
    reduced, verdicts = 0, Counter[str]()
    for name in STATE_RUNS:
        run = RunDirectory(shutil.copytree(EVIDENCE / name, tmp_path / name))
        with_damaged_state(run, damage)

        whole, part, was_reduced = both(run, monkeypatch)

        assert whole == part, name
        reduced += was_reduced
        verdicts[whole["verdict"]] += 1
    if damage.startswith("no "):  # what some rows lack, the judge of small runs compares
        assert reduced == 0
    else:
        assert reduced == len(STATE_RUNS)
        assert verdicts["VALID"] == (damage == "flag")  # that of an inner join is not compared


@pytest.mark.parametrize("name", ["left_outer", "inner"])
@pytest.mark.parametrize(("damage", "wrong"), [("none", 0), ("high", 3), ("without", 3), ("gone", 1)])
def test_wrong_counts_of_a_reduced_run_are_found_whatever_keys_were_chosen(
    name: str, damage: str, wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(shutil.copytree(EVIDENCE / name, tmp_path / name))
    keys, rng = keys_of(run.state() or ()), random.Random(f"{name} {damage}")
    if damage == "gone":
        keys.append(msgspec.structs.replace(keys[0], key=("of nobody",)))
    elif wrong:
        for at in sorted(rng.sample(range(len(keys)), wrong), reverse=True):
            count = keys[at].count + 1
            keys[at : at + 1] = [msgspec.structs.replace(keys[at], count=count)] if damage == "high" else []
    add_keys(run, keys)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole["findings_total"].get("wrong_counts", 0) == wrong
    assert part["findings_total"] == whole["findings_total"]
    assert part["spark_account"] == whole["spark_account"]
    assert whole["spark_account"]["count_batches"] == whole["spark_account"]["state_batches"] != []


def with_damaged_state(run: RunDirectory, damage: str) -> None:
    """Change the state of a run, and seal the run."""
    rows = list(run.state() or ())
    damage_state(rows, damage, random.Random(f"{run.path.name} {damage}"))
    for path in run.path.glob("state.jsonl*"):
        path.unlink()
    run.write_lines("state", rows)
    manifest = run.manifest
    manifest.records["state"] = len(rows)
    run.write_json("manifest", manifest)
    seal(run.path)


def damage_state(rows: list[StateRow], damage: str, rng: random.Random) -> None:
    """Change some rows of the state, or all of it."""
    for at in sorted(rng.sample(range(len(rows)), 3), reverse=True):
        row = rows[at]
        if damage == "lost":
            del rows[at]
        elif damage == "twice":
            rows.append(row)
        else:
            partition, offset = row.ref or (0, 0)
            other: dict[str, Any] = {
                "flag": {"matched": None if row.matched is None else not row.matched},
                "time": {"time_us": (row.time_us or 0) + 1},
                "key": {"key": ("other", *(row.key or ())[1:])},
                "place": {"ref": (partition, offset + 100_000)},
                "side": {"side": "left" if row.side == "right" else "right"},
                "no flag": {"matched": None},
                "no place": {"ref": None},
                "no key": {"key": None},
            }[damage]
            rows[at] = msgspec.structs.replace(row, **other)


def test_a_run_for_which_there_is_no_memory_is_an_error_that_says_so_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "temporary").mkdir()
    run = write(drawn(3), tmp_path / "run", random.Random(1))
    monkeypatch.setattr(duckdb_engine, "memory_limit", lambda _records: "1MB")
    monkeypatch.setattr(duckdb_engine.tempfile, "tempdir", str(tmp_path / "temporary"))

    with pytest.raises(TestbedError, match="more memory than 1MB") as caught:
        reduction.reduced(run, large=-1)

    assert "--memory" in caught.value.hint
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_memory_is_what_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(drawn(3), tmp_path, random.Random(1))
    asked: list[Any] = []
    connect = duckdb_engine.duckdb.connect
    monkeypatch.setattr(
        duckdb_engine.duckdb, "connect", lambda *args, **more: asked.append(more) or connect(*args, **more)
    )

    reduction.reduced(run, large=-1, opened=duckdb_engine.engine_with("300MB"))

    assert asked[0]["config"]["memory_limit"] == "300MB"
    with pytest.raises(UsageError, match="'lots' is no amount of memory"):
        duckdb_engine.engine_with("lots")


def test_a_run_made_set_by_set_has_the_same_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_large_run(tmp_path, 4_000, 5)
    seal(tmp_path)

    whole, part, was_reduced = both(RunDirectory(tmp_path), monkeypatch)

    assert was_reduced
    assert whole == part


def test_a_row_behind_a_row_that_is_not_handed_on_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_large_run(tmp_path, 4_000, 5)
    records = list(run.output())
    behind = next(at for at, one in enumerate(records) if one.header("batch") == "1")
    records.insert(behind, records.pop(0))  # the first of batch 0, now behind the first of batch 1
    run.file("output").unlink()
    placed = [msgspec.structs.replace(one, offset=offset) for offset, one in enumerate(records)]
    run.write_lines("output", placed)
    seal(tmp_path)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["findings_total"] == {"misordered_rows": 1}


def test_a_run_whose_output_has_the_places_of_one_side_is_read_by_its_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_large_run(tmp_path, 4_000, 5)
    manifest = run.manifest
    output: Any = manifest.contract["output"]
    output["right_ref"] = None
    run.write_json("manifest", manifest)
    seal(tmp_path)
    in_parts(monkeypatch, PARTS)

    whole, part, was_reduced = both(RunDirectory(tmp_path), monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["verdict"] == "VALID"


def test_compressed_evidence_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(drawn(3), tmp_path, random.Random(2))
    for path in list(tmp_path.glob("*.jsonl")):
        path.with_suffix(".jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        path.unlink()
    seal(tmp_path)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part


def test_evidence_without_a_seal_is_judged_whole(tmp_path: Path) -> None:
    run = write(drawn(3), tmp_path, random.Random(2))
    assert reduction.reduced(run, large=-1) is not None

    (tmp_path / "seal.json").unlink()

    assert reduction.reduced(run, large=-1) is None
