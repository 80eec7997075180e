"""Evidence whose files contradict each other is refused, or the verdict is not VALID: the smallest of each class."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

import tidemark
from tidemark.cli import app
from tidemark.errors import EXIT_USAGE, TidemarkError
from tidemark.formats.trace import trace_sha256

GOLDEN = Path(__file__).parents[1] / "golden" / "evidence" / "typed_valid"
START_US = 1767225600000000


@pytest.fixture
def run(tmp_path):
    """A directory that a person typed: two impressions, a click, two sentinels; a pair and a NULL row."""
    path = tmp_path / "run"
    shutil.copytree(GOLDEN, path)
    assert tidemark.check(path).verdict == "VALID"
    return path


def lines(run, name):
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines() if line]


def write(run, name, records):
    (run / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def manifest(run, **fields):
    """Change fields of the manifest."""
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused(run):
    """Why the evidence is refused; the command line says the same and exits with 2."""
    with pytest.raises(TidemarkError) as raised:
        tidemark.check(run)
    assert raised.value.exit_code == EXIT_USAGE
    assert "Traceback" not in CliRunner().invoke(app, ["check", str(run)]).output
    return raised.value.detail


# Output


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([(0, 0), (0, -1)], "record 2: offset is -1"),
        ([(0, 0), (0, 0)], "record 2: the record at partition 0, offset 0 is there twice"),
        ([(0, 1), (0, 0)], "record 2: partition 0 has offset 0 after 1"),
        ([(0, 0), (0, 1 << 63)], f"record 2: offset is {1 << 63}"),
        ([(-1, 0), (0, 0)], "record 1: partition is -1"),
        ([(1 << 31, 0), (0, 0)], f"record 1: partition is {1 << 31}"),
    ],
)
def test_an_impossible_place_of_an_output_record_is_refused(run, places, said):
    records = lines(run, "output")
    for record, (partition, offset) in zip(records, places, strict=True):
        record |= {"partition": partition, "offset": offset}
    write(run, "output", records)

    assert refused(run) == said


def test_a_pair_of_a_row_and_a_sentinel_is_a_phantom(run):
    records = lines(run, "output")
    value = {"iid": "i2", "ip": 0, "io": 1, "cid": "s", "cp": 0, "co": 1}  # the second click is the sentinel
    records.append(records[1] | {"offset": 2, "value": json.dumps(value)})
    write(run, "output", records)

    verdict = tidemark.check(run)

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"phantom_rows": 1}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([["query", "q"], ["batch", "0"], ["batch", "2"]], "it has the header 'batch' 2 times"),
        ([["query", "q"], ["query", "q"], ["batch", "2"]], "it has the header 'query' 2 times"),
        ([["query", "q"], ["batch", "02"]], "its header 'batch' is '02'"),
        ([["query", "q"], ["batch", "٢"]], "its header 'batch' is '٢'"),
        ([["query", "q"], ["batch", "2" * 5000]], "(5,000 characters)"),
        ([["query", "q"], ["batch", "-2"]], "its header 'batch' is '-2'"),
    ],
    ids=["batch twice", "query twice", "zero in front", "other digits", "5,000 digits", "negative"],
)
def test_a_header_that_is_no_batch_id_corrupts_its_row_and_nothing_else(run, headers, said):
    records = lines(run, "output")
    records[1]["headers"] = headers
    write(run, "output", records)

    verdict = tidemark.check(run)

    assert verdict.findings_total == {"missing_nulls": 1, "corrupt_rows": 1}
    assert any(said in finding.message for finding in verdict.findings)
    assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason]


# Input


def test_published_records_that_the_trace_does_not_hold_are_refused(run):
    write(run, "trace", lines(run, "trace")[:-1])

    assert refused(run) == (
        "the manifest says that clicks/0 was written up to offset 2; trace and flush have its records up to 1 only"
    )


@pytest.mark.parametrize("name", ["trace", "flush"])
def test_a_digest_that_the_file_does_not_have_is_refused(run, name):
    digest = trace_sha256(run / f"{name}.jsonl")
    manifest(run, **{f"{name}_sha256": digest})
    assert tidemark.check(run).verdict == "VALID"

    manifest(run, **{f"{name}_sha256": "0" * 64})
    assert refused(run) == f"its SHA-256 is {digest[:12]}…; the manifest says '000000000000'…"


def test_trace_records_that_were_moved_into_the_flush_are_refused(run):
    manifest(run, records={"trace": 3, "flush": 2})
    trace, flush = lines(run, "trace"), lines(run, "flush")
    write(run, "trace", trace[:-1])
    write(run, "flush", [flush[0], trace[-1], *flush[1:]])

    assert refused(run) == "it has 2 records; the manifest says that it has 3"


def test_a_goal_of_the_trace_that_the_manifest_does_not_ask_for_is_refused(run):
    header, *records = lines(run, "trace")
    write(run, "trace", [header | {"goals": ["late_row_dropped"]}, *records])

    assert refused(run) == "it asks for the coverage goal 'late_row_dropped', which the manifest does not"


@pytest.mark.parametrize("partitions", [0, -1, 2_000_000_000])
def test_an_impossible_number_of_partitions_is_refused_at_once(run, partitions):
    header, *records = lines(run, "trace")
    write(
        run,
        "trace",
        [header | {"topics": {"impressions": {"partitions": partitions}, "clicks": {}}}, *records],
    )

    assert refused(run) == f"topic 'impressions' has {partitions} partitions: 1 to 100,000 may be"


@pytest.mark.parametrize("name", ["trace", "flush", "batches", "output"])
def test_a_compressed_file_without_content_is_refused(run, name):
    (run / f"{name}.jsonl").unlink()
    (run / f"{name}.jsonl.zst").write_bytes(b"")

    assert "ends within a zstd frame" in refused(run)


def test_an_empty_output_of_a_run_that_wrote_rows_is_refused(run):
    manifest(run, records={"output": 2})
    (run / "output.jsonl").unlink()
    (run / "output.jsonl.zst").write_bytes(zstandard.compress(b""))

    assert refused(run) == "it has 0 records; the manifest says that it has 2"


# Batches


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "runs is 0"),
        ({"runs": -1}, "runs is -1"),
        ({"runs": 2}, "batch 1 ran 2 times, and restarted is false"),
        ({"failed_tasks": -1}, "failed_tasks is -1"),
        ({"watermark_ms": -1}, "watermark_ms is -1"),
        ({"batch": 5}, "batch 2 comes after batch 5"),
        (
            {"end_offsets": {"impressions": {"0": 3}, "klicks": {"0": 2}}},
            "batch 1 read 'klicks', which is none of clicks and impressions",
        ),
        (
            {"end_offsets": {"impressions": {"0": 3}}},
            "batch 1 has no end offset of clicks/0, and a batch before has one",
        ),
        (
            {"end_offsets": {"impressions": {"0": 3}, "clicks": {"0": 2, "7": 0}}},
            "batch 1 read clicks/7, which the manifest does not have",
        ),
        (
            {"end_offsets": {"impressions": {"0": -3}, "clicks": {"0": 2}}},
            "end_offsets of impressions in batch 1: partition 0 is at -3",
        ),
        (
            {"end_offsets": {"impressions": {"00": 3}, "clicks": {"0": 2}}},
            "end_offsets of impressions in batch 1: '00' is no partition",
        ),
    ],
)
def test_an_impossible_batch_is_refused(run, changes, said):
    records = lines(run, "batches")
    records[1] |= changes
    write(run, "batches", records)

    assert said in refused(run)


STATE = {
    "batch": 0,
    "side": "left",
    "key": ["v"],
    "time_us": START_US + 5_000_000,
    "ref": [0, 1],
    "matched": False,
}
OF_OTHERS = {
    "state": STATE | {"batch": 9},
    "state_keys": {"batch": 9, "side": "left", "key": ["v"], "time_us": None, "count": 1},
    "faults": {
        "component": "driver",
        "action": "kill",
        "point": "written",
        "at_utc": "-",
        "injected": True,
        "batch": 9,
    },
    "progress": {"batchId": 9},
    "executors": {"batch": 9, "executors": {"0": "1"}},
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_what_is_of_a_batch_that_never_was_is_refused(run, name):
    write(run, name, [OF_OTHERS[name]])

    assert refused(run) == "record 1: batch 9 was never planned"


def test_a_count_below_0_is_refused(run):
    write(run, "state_keys", [OF_OTHERS["state_keys"] | {"batch": 0, "count": -1}])

    assert refused(run) == "record 1: count is -1"


@pytest.mark.parametrize("number", ["x", None, 1.5, True])
def test_a_report_without_a_batch_is_refused(run, number):
    write(run, "progress", [{"batchId": number}])

    assert refused(run) == f"record 1: batchId is {number!r}"


def report(batch, **ends):
    sources = [{"endOffset": json.dumps({topic: offsets})} for topic, offsets in ends.items()]
    return {"batchId": batch, "sources": sources}


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"i": {"0": 2}, "c": {"0": 1}}, ""),
        (
            {"i": {"0": 1}, "c": {"0": 1}},
            "Spark reports that batch 0 read i up to {'0': 1}; batches.jsonl says {'0': 2}",
        ),
        ({"i": {"0": 2}}, "Spark reports for batch 0 the end offsets of i only"),
    ],
)
def test_offsets_that_spark_reports_otherwise_are_unknown(run, ends, said):
    write(run, "progress", [report(0, **ends)])

    verdict = tidemark.check(run)

    assert verdict.inconclusive == ([said] if said else [])
    assert verdict.verdict == ("UNKNOWN" if said else "VALID")


def trigger(batch, **fields):
    """The report of a trigger that ran no batch, as a query writes it that starts and finds nothing new."""
    sources = [{"startOffset": ends, "endOffset": ends} for ends in ('{"i":{"0":1}}', '{"c":{"0":1}}')]
    return {
        "batchId": batch,
        "durationMs": {"latestOffset": 14},
        "stateOperators": [],
        "sources": sources,
    } | fields


@pytest.mark.parametrize("batch", [0, 9])
@pytest.mark.parametrize("operators", [[], [{"operatorName": "symmetricHashJoin", "numRowsRemoved": 5}]])
def test_a_trigger_that_ran_no_batch_says_nothing_of_the_batch_that_has_its_id(run, batch, operators):
    """In the middle of a run it has the operators of the batch before."""
    write(run, "progress", [trigger(batch, stateOperators=operators)])

    verdict = tidemark.check(run)

    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])


READ = [{"startOffset": '{"i":{"0":0}}', "endOffset": '{"i":{"0":1}}'}]


@pytest.mark.parametrize(
    "fields",
    [
        {"durationMs": {"addBatch": 5}},
        {"durationMs": {"walCommit": 5}},
        {"durationMs": None},
        {"sources": READ},
    ],
)
def test_a_trigger_that_did_something_ran_the_batch_that_it_names(run, fields):
    write(run, "progress", [trigger(9, **fields)])

    assert refused(run) == "record 1: batch 9 was never planned"


# State and reports


def kept(*rows):
    return [STATE | {"key": ["u"], "time_us": START_US, "ref": [0, 0], "matched": True}, STATE, *rows]


CLICK = {
    "batch": 0,
    "side": "right",
    "key": ["u"],
    "time_us": START_US + 9_000_000,
    "ref": [0, 0],
    "matched": True,
}


def test_a_state_that_was_read_and_is_not_there_is_refused(run):
    manifest(run, state={"format": 2, "batches": [0, 1]})

    assert refused(run) == "it is missing; the manifest says that the state was read after batches [0, 1]"


def test_a_state_that_could_not_be_read_is_a_reason_and_its_file_may_be_missing(run):
    manifest(run, state={"format": 2, "batches": [0], "problem": "disk full"})

    assert "the state was to be read, and could not be: disk full" in tidemark.check(run).inconclusive


def test_state_rows_without_their_fields_are_not_compared_and_so_unknown(run):
    manifest(run, state={"format": 2, "batches": [0]})
    write(run, "state", kept(CLICK))
    assert tidemark.check(run).verdict == "VALID"
    write(run, "state", [{"batch": 0, "side": row["side"]} for row in kept(CLICK)])
    verdict = tidemark.check(run)
    assert verdict.verdict == "UNKNOWN"
    assert [reason.split(":")[0] for reason in verdict.inconclusive] == [
        f"Spark's state of the {side} side after batch 0 could not be compared, only counted"
        for side in ("left", "right")
    ]


@pytest.mark.parametrize("without", [1, 2])
def test_state_rows_without_a_flag_are_unknown(run, without):
    manifest(run, state={"format": 2, "batches": [0]})
    rows = kept(CLICK)
    write(run, "state", [*(row | {"matched": None} for row in rows[:without]), *rows[without:]])
    assert tidemark.check(run).inconclusive == [
        f"Spark's state of the left side after batch 0 has no flag 'matched' for {without} of 2 rows"
    ]


def test_state_of_a_batch_after_which_it_was_not_read_is_refused(run):
    manifest(run, state={"format": 2, "batches": [1]})
    write(run, "state", kept(CLICK))

    assert refused(run) == "record 1: the manifest does not say that the state was read after batch 0"


# Manifest


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"delivery": "at-least-once", "sink": "exactly-once"},
            "delivery is at-least-once; the sink is exactly-once",
        ),
        ({"inputs": {}}, "its inputs are none; its contract reads clicks and impressions"),
        ({"state": {"batches": [1, 0]}}, "state.batches is [1, 0]"),
        ({"state": {"batches": [-1]}}, "state.batches is [-1]"),
        ({"records": {"output": -1}}, "records of output is -1"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(run, fields, said):
    manifest(run, **fields)

    assert refused(run).startswith(said)


def test_a_manifest_and_a_contract_that_promise_another_delivery_are_refused(run):
    contract = json.loads((run / "manifest.json").read_text())["contract"]
    manifest(run, contract=contract | {"delivery": "exactly-once"})

    assert refused(run) == "delivery is at-least-once; its contract promises exactly-once"


def test_a_contract_that_is_not_that_of_its_own_file_is_refused(run):
    contract = json.loads((run / "manifest.json").read_text())["contract"]
    (run / "contract.json").write_text(json.dumps(contract))
    assert tidemark.check(run).verdict == "VALID"

    contract["bound"]["lower_ms"] = -30000
    (run / "contract.json").write_text(json.dumps(contract))
    assert refused(run) == "its contract is not that of contract.json"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("left", "keys"), "user", "keys is 'user', which is no list of names"),
        (("left", "time"), True, "left.time is True"),
        (("left", "watermark_delay_ms"), "10", "left.watermark_delay_ms is '10'"),
        (("left", "watermark_delay_ms"), 1 << 70, "left.watermark_delay_ms is"),
        (("bound", "lower_ms"), 1.5, "bound.lower_ms is 1.5"),
        (("output", "left_ref"), [True, "io"], "output.left_ref[0] is True"),
        (("output", "left_ref"), ["ip"], "output.left_ref has 1 parts in place of 2"),
        (("name",), None, "name is None"),
    ],
)
def test_a_field_of_a_contract_of_another_type_is_refused_by_name(run, path, value, said):
    contract = json.loads((run / "manifest.json").read_text())["contract"]
    place = contract
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    manifest(run, contract=contract)

    with pytest.raises(TidemarkError) as raised:
        tidemark.check(run)
    assert raised.value.exit_code == EXIT_USAGE
    assert said in raised.value.message + raised.value.detail


# Depth and size


@pytest.mark.parametrize(
    "name", ["manifest.json", "trace.jsonl", "flush.jsonl", "batches.jsonl", "output.jsonl"]
)
def test_what_is_nested_too_deeply_is_refused(run, name):
    path, deep = run / name, "[" * 100_000 + "]" * 100_000
    if name == "manifest.json":
        path.write_text(
            json.dumps({"notes": 0} | json.loads(path.read_text())).replace('"notes": 0', f'"notes": {deep}')
        )
    else:
        path.write_text(path.read_text() + f'{{"batch": {deep}}}\n')

    with pytest.raises(TidemarkError) as raised:
        tidemark.check(run)
    assert raised.value.exit_code == EXIT_USAGE
    assert path.name in raised.value.message


def with_first_impression(run, value):
    records = lines(run, "trace")
    records[1]["value"] = value
    write(run, "trace", records)
    return tidemark.check(run)


def test_a_value_that_is_nested_too_deeply_is_a_record_that_is_no_event(run):
    deep = "[" * 100_000 + "]" * 100_000
    verdict = with_first_impression(
        run, f'{{"iid": "i1", "user": "u", "at": "2026-01-01T00:00:00Z", "x": {deep}}}'
    )

    assert verdict.counts["unreadable"] == 1
    assert verdict.findings_total == {"decoded_differently": 1}  # its pair came all the same
    assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason]


@pytest.mark.parametrize("seconds", [300_000_000_000, 9_000_000_000_000])
def test_a_time_past_the_year_9999_is_judged_as_any_other(run, seconds):
    value = {"iid": "i1", "user": "u", "at": seconds}
    verdict = with_first_impression(run, json.dumps(value))

    assert verdict.findings_total == {"phantom_rows": 1}  # its pair came all the same
    assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason]
