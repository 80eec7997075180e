"""Records that tidemark did not invent, as they are: nested JSON, times that are numbers, decimals, and binary ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.repository import tree
from tests.support.bundled import case_of
from tests.support.document_blocks import blocks
from tidemark.errors import UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.runner import describe

pytestmark = [pytest.mark.e2e]

DOCUMENT = tree.ROOT / "docs" / "howto" / "read-my-records.md"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of the document."""
    for block in blocks(DOCUMENT.read_text(encoding="utf-8")):
        if block.mark == "file":
            (tmp_path / block.told).write_text(block.code)
    return tmp_path


def changed(path: Path, old: str, new: str) -> Path:
    """The file with another text in one place."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return path


def test_nested_records_are_judged_as_they_are(files, run_pipeline):
    result = run_pipeline(
        files / "nested_orders.py", trace=files / "nested_orders.jsonl", run_dir=files / "run"
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert RunDirectory(files / "run").manifest.plan_differs == []
    assert result.verdict.counts["late"] == result.verdict.counts["unreadable"] == 1


@pytest.mark.long
def test_the_contract_of_nested_records_alone_is_a_pipeline(files, run_pipeline):
    contract = describe(str(files / "nested_orders.py"))
    (files / "alone.json").write_text(json.dumps(contract.to_json()))

    result = run_pipeline(files / "alone.json", trace=files / "nested_orders.jsonl")

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total >= paid AND", ""),
        pytest.param(
            'timestamp_millis("o.meta.created_at")',
            'timestamp_millis(expr("o.meta.created_at div 1000"))',
            id="seconds",
            marks=pytest.mark.long,
        ),
        pytest.param("AND total >= 0.50", "AND total >= 5.01", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_query_that_reads_them_otherwise_is_invalid(old, new, files, warm):
    pipeline = changed(files / "nested_orders.py", old, new)

    verdict = warm.run(case_of(pipeline, files / "nested_orders.jsonl"), files / "run")

    assert verdict.verdict == "INVALID", (verdict.findings, verdict.inconclusive)
    assert verdict.findings_total


def test_records_that_functions_decode_are_judged_and_flushed_and_judged_again_without_them(
    files, run_pipeline
):
    result = run_pipeline(
        files / "binary_orders.py", trace=files / "binary_orders.jsonl", run_dir=files / "run"
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert result.verdict.counts["unreadable"] == 1
    (files / "binary_orders.py").unlink()
    (files / "run" / "pipeline.py").unlink()
    assert judge(RunDirectory(files / "run")).verdict == "VALID"


def test_records_in_avro_are_judged_and_flushed(files, stack, run_pipeline):
    if stack.spec.backend != "local":
        pytest.skip("the Python of executors in containers has no fastavro")

    result = run_pipeline(files / "avro_orders.py", trace=files / "avro_orders.jsonl")

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert result.verdict.counts["unreadable"] == 1


def test_functions_that_are_no_pair_are_refused_before_the_run(files, run_pipeline):
    pipeline = changed(
        files / "binary_orders.py", 'ORDER.pack(b"\\x01", at_ms,', 'ORDER.pack(b"\\x01", at_ms + 1,'
    )

    with pytest.raises(UsageError, match="encode_order is not the inverse of decode_order") as caught:
        run_pipeline(pipeline, trace=files / "binary_orders.jsonl")

    assert "the sentinel Event(" in caught.value.detail


CLICKS = '''"""The number of clicks per user and 10 seconds; a click is text: user and time."""

from pyspark.sql.functions import count, expr, window

from tidemark import Aggregate, Chain, Field, Source, Value, Window

SOURCE = Source(
    "clicks", "at", (Field("user"),), watermark_delay_ms=10_000, required=("user",), decode="decode", encode="encode"
)
CONTRACT = Chain(
    name="text_clicks",
    last=Aggregate(Window(SOURCE, "until", 10_000), ("user",), (Value("clicks", "count"),)),
    output=("user", "until", "clicks"),
)


def decode(record):
    user, at = record.value.decode().split("|")
    return {"user": user, "at": at}


def encode(event, like):
    return "|".join((event["user"], event["at"]))


def build(clicks):
    parts = "split(CAST(value AS STRING), '[|]')"
    read = clicks.selectExpr(f"get({parts}, 0) AS user", f"try_cast(get({parts}, 1) AS TIMESTAMP) AS at")
    counted = read.where("at IS NOT NULL").withWatermark("at", "10 seconds").groupBy("user", window("at", "10 seconds"))
    return counted.agg(count("*").alias("clicks")).select("user", expr("window.end").alias("until"), "clicks")
'''


@pytest.mark.long
def test_records_of_a_chain_are_decoded_by_functions(tmp_path, run_pipeline):
    (tmp_path / "clicks.py").write_text(CLICKS)
    lines = [{"tidemark_trace": 2, "pace": "stepped", "slices": 3, "topics": {"clicks": {"partitions": 1}}}]
    clicks = (
        (0, "ann|12:00:01"),
        (0, "ann|12:00:03"),
        (0, "no click"),
        (0, "bob|12:00:12"),
        (1, "ann|12:01:00"),
    )
    for number, (part, text) in enumerate((*clicks, (2, "bob|12:00:14"), (2, "ann|12:01:09"))):
        value = text.replace("|", "|2026-01-01T") + ("Z" if "|" in text else "")
        lines.append(
            {"topic": "clicks", "arrival_ms": 1_767_268_800_000 + number, "slice": part, "value": value}
        )
    (tmp_path / "clicks.jsonl").write_text("\n".join(map(json.dumps, lines)))

    verdict = run_pipeline(tmp_path / "clicks.py", trace=tmp_path / "clicks.jsonl").verdict

    assert verdict.verdict == "VALID", (verdict.findings, verdict.inconclusive)
    assert verdict.counts["unreadable"] == verdict.counts["late"] == 1
    assert verdict.counts["joined_rows"] == 3


VALUES = {
    "double": ("NaN", "-0.0", "0.0", "0", "1.5", '"Infinity"', "1e400", "null", '"x"', "-1e-5"),
    "decimal(12,2)": (
        "0.50",
        '"0.50"',
        "0.5",
        "0.495",
        "0.4949",
        "-0.0",
        "7",
        "null",
        '"x"',
        "12345678901",
        "1e1",
    ),
    "string": ('"a"', '"é"', '"😀"', '"\\uffee"', "1.50", '{"a": [1.0]}', "true", "null", '""'),
    "date": ('"2026-01-01"', '"2026-1-1"', '"2026"', '"12345-01-01"', '"2026-02-30"', "null", "5", '"5"'),
    "boolean": ("true", "false", "null", '"true"', "1"),
    "bigint": ("1", "9223372036854775807", "9223372036854775808", "1.0", "null", '"1"', "-1"),
}
COMPARED = {
    "double": 0.0, "decimal(12,2)": "0.50", "string": "b", "date": "2026-01-01", "boolean": False, "bigint": 1,
}  # fmt: skip


DAILY = {("key", "decimal(12,2)")}
ROLES = [
    (role, kind) for kind in VALUES for role in ("key", "condition") if (role, kind) != ("key", "double")
]


@pytest.mark.parametrize(
    ("role", "kind"),
    [pytest.param(*one, marks=() if one in DAILY else pytest.mark.long) for one in ROLES],
)
def test_values_of_every_type_are_joined_and_compared_as_spark_does(kind, role, tmp_path, run_pipeline):
    """Each value meets each: an inner join by it, or a left outer join that compares it."""
    side = {
        "id": "m.id", "time": "m.t", "time_format": "epoch-ms", "watermark_delay_ms": 2_000,
        "keys": ["v"] if role == "key" else ["k"], "fields": [{"name": "v", "column": "m.v[0]", "type": kind}],
    }  # fmt: skip
    condition = [{"op": "<=", "left": "v", "right": "v"}, {"op": "!=", "right": "v", "value": COMPARED[kind]}]
    contract = {
        "name": "values", "kind": "inner" if role == "key" else "left_outer",
        "left": {"topic": "lefts", **side}, "right": {"topic": "rights", **side},
        "bound": {"lower_ms": -1_000_000, "upper_ms": 1_000_000}, "output": {"left_id": "l", "right_id": "r"},
        "condition": [] if role == "key" else condition,
    }  # fmt: skip
    (tmp_path / "values.json").write_text(json.dumps(contract))
    lines = [{"tidemark_trace": 2, "pace": "stepped", "slices": 1, "topics": {"lefts": {}, "rights": {}}}]
    for at, value in enumerate((*VALUES[kind], VALUES[kind][0])):
        for topic in ("lefts", "rights"):
            meta = f'"id": "{topic[0]}{at}", "t": {1_767_225_600_000 + at}, "v": [{value}]'
            lines.append({"topic": topic, "arrival_ms": 1 + at, "value": f'{{"k": 1, "m": {{{meta}}}}}'})
    (tmp_path / "values.jsonl").write_text("\n".join(map(json.dumps, lines)))

    verdict = run_pipeline(tmp_path / "values.json", trace=tmp_path / "values.jsonl").verdict

    assert verdict.findings == []
    assert verdict.goals["flushed"]
    assert verdict.counts["joined_rows"] > 2
