"""Drawn runs of any contract have the same verdict when they are redacted, and so have records of other forms."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from pipelines.left_outer import CONTRACT
from tests.golden.judging import EVIDENCE
from tests.support.shown_values import content_of, found_in, values_of
from tests.support.tiers import every_day
from tests.unit.oracle.test_described_values import FORMS, KINDS, rewritten
from tests.unit.oracle.test_large import FEW_ROWS, both, drawn, facts, write
from tidemark.errors import TidemarkError, UsageError
from tidemark.formats.contract import Contract, Filter, Term
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.record_fields import Field
from tidemark.formats.trace import Record, TraceReader, write_trace
from tidemark.oracle import judge
from tidemark.oracle.large import reduction
from tidemark.redaction import Redactor
from tidemark.redaction.join_redaction import JoinRedaction
from tidemark.redaction.pseudonyms import Pseudonyms

RECORDED = EVIDENCE.parents[1] / "evidence" / "runs"
SEEDS = 18


def outcome(run):
    """What of a verdict names no value."""
    found = facts(judge(run))
    kept = ("verdict", "findings_total", "unexplained_total", "defects_total", "counts", "goals", "asked")
    return {name: found[name] for name in kept} | {"inconclusive": len(found["inconclusive"])}


def same_when_redacted(run, folder):
    """The outcome of a run, which is that of the redacted one; and whether the contract compares values."""
    wanted = outcome(run)
    made = Redactor().redact(run.path, folder)
    assert outcome(made) == wanted
    return wanted["verdict"], any(Contract.from_json(run.manifest.contract).compared)


@pytest.mark.not_smoke
@pytest.mark.parametrize("kind", ["plain", *every_day(KINDS, ("decimal", "text"))])
def test_a_drawn_run_is_judged_alike(kind, tmp_path):
    verdicts, compared, refused = Counter(), 0, 0
    for seed in range(SEEDS):
        rng = random.Random(f"redacted {kind} {seed}")
        (tmp_path / "drawn").mkdir()
        try:
            run = write(drawn(seed, rng), tmp_path / "drawn", rng)
            if kind != "plain":
                run = rewritten(run, tmp_path / "nested", kind, rng.choice(list(FORMS)))
            judge(run)
        except TidemarkError:
            run = None  # no such contract, or nothing to judge
        if run is not None:
            try:
                verdict, compares = same_when_redacted(run, tmp_path / "redacted")
                verdicts[verdict] += 1
                compared += compares
            except UsageError as error:
                refused += "Spark takes for one of the event time" in str(error) or SEEDS
        for name in ("drawn", "nested", "redacted"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
    assert min(verdicts["VALID"] + verdicts["UNKNOWN"], verdicts["INVALID"], compared) > 1, verdicts
    assert refused < SEEDS / 3


@pytest.mark.not_smoke
def test_a_large_run_is_reduced_and_judged_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(reduction, "SAMPLE_ROWS", FEW_ROWS)
    was_reduced = 0
    for seed in range(6):
        rng = random.Random(f"redacted and large {seed}")
        (tmp_path / "drawn").mkdir()
        run = write(drawn(seed, rng), tmp_path / "drawn", rng)
        whole, part, reduces = both(Redactor().redact(run.path, tmp_path / "redacted"), monkeypatch)
        assert whole == part
        was_reduced += reduces
        for name in ("drawn", "redacted"):
            shutil.rmtree(tmp_path / name)
    assert was_reduced > 1


def test_records_that_functions_decode_are_redacted_as_they_were_decoded(tmp_path):
    source = shutil.copytree(RECORDED / "left_outer", tmp_path / "clear")
    (source / "seal.json").unlink()
    run = RunDirectory(source)
    for name in ("trace", "flush"):
        with TraceReader(run.file(name)) as reader:
            header, records = reader.header, list(reader)
        run.file(name).unlink()
        write_trace(source / f"decoded_{name}.jsonl", header, records)
        write_trace(source / f"{name}.jsonl", header, map(opaque, records))
    manifest = run.manifest
    side = {"decode": "decode_it", "encode": "encode_it"}
    manifest.contract = {**manifest.contract, "left": {**manifest.contract["left"], **side}}
    manifest.contract["right"] = {**manifest.contract["right"], **side}
    manifest.trace_sha256 = manifest.flush_sha256 = None
    run.write_json("contract", manifest.contract)
    run.write_json("manifest", manifest)

    same_when_redacted(run, tmp_path / "redacted")

    made = RunDirectory(tmp_path / "redacted")
    assert not made.contract.is_decoded
    assert not list(made.path.glob("decoded*"))
    assert found_in(values_of(RECORDED / "left_outer"), content_of(made.path)) == []


def opaque(record):
    value = record.value_bytes()
    encoded = None if value is None else base64.b64encode(b"\xff" + value).decode()
    return msgspec.structs.replace(record, value=None, value_base64=encoded, key="a-secret-key")


def redaction(**changes):
    return JoinRedaction(replace(CONTRACT, **changes), Pseudonyms(b"0123456789abcdef"))


TIME = '"impression_time": "2026-01-01T00:00:01Z"'


def test_of_a_record_the_id_the_keys_the_time_and_nothing_else_is_left():
    value = f'{{"impression_id": "i1", "user_id": "u7", "ad_id": null, "page": "secret", {TIME}}} and more'
    one = redaction()

    found = json.loads(one.input("impressions", value))

    hashed = Pseudonyms(b"0123456789abcdef").of
    assert found == {
        "impression_id": hashed("i1"), "user_id": hashed("u7"), "ad_id": None,
        "impression_time": "2026-01-01T00:00:01.000Z",
    }  # fmt: skip
    assert json.loads(one.output('{"impression_id": "i1", "page": 1, "impression_offset": "x"}', "w")) == {
        "impression_id": hashed("i1"), "impression_partition": None, "impression_offset": "redacted",
        "click_id": None, "click_partition": None, "click_offset": None, "record": "w",
    }  # fmt: skip
    assert one.state_key("left", ("u7", None)) == (hashed("u7"), None)


@pytest.mark.parametrize("value", ["no JSON, secret", b"\xff\xfe", "[1, 2]", "7", '"secret"'])
def test_a_record_that_is_no_object_stays_one_that_cannot_be_read(value):
    assert redaction().input("impressions", value) == "redacted"
    assert redaction().output("secret", "whole") == "redacted whole"


def test_an_empty_record_and_none_stay_what_they_are():
    one = redaction()

    assert one.input("impressions", None) is None
    assert one.input("impressions", "") == ""
    assert one.output(None, "whole") is None


def test_the_id_of_a_record_that_is_cut_off_is_still_seen():
    found = redaction().input("impressions", '{"impression_id": "i1", "page": "sec')

    assert found == f'redacted "impression_id": "{Pseudonyms(b"0123456789abcdef").of("i1")}"'


def test_a_filter_has_another_number_and_lets_the_same_records_pass():
    side = replace(CONTRACT.left, filters=(Filter("price", ">=", 500), Filter("price", "<", 900)))
    one = redaction(left=side)

    made = Contract.from_json(one.contract())
    assert [what.value for what in made.left.filters] == [1, 3]
    prices = [
        json.loads(one.input("impressions", f'{{"price": {price}}}'))["price"]
        for price in (7, 500, 600, 900, 901)
    ]
    assert prices == [0, 1, 2, 3, 4]
    assert json.loads(one.input("impressions", '{"price": "500"}'))["price"] is None


def test_a_filter_on_the_event_time_does_not_take_its_place():
    side = replace(
        CONTRACT.left, time_format="epoch-ms", filters=(Filter("impression_time", ">", 5_000),),
        fields=(Field("impression_time", type="bigint"),),
    )  # fmt: skip
    one = redaction(left=side)

    found = json.loads(one.input("impressions", '{"impression_time": 7000}'))

    assert found["impression_time"] == 2
    made = Contract.from_json(one.contract()).left
    assert found[made.time] == 7_000_000
    assert (made.time_format, made.filters[0].value) == ("epoch-us", 1)


def test_a_filter_on_a_key_ranks_the_keys():
    side = replace(CONTRACT.right, filters=(Filter("user_id", ">", 50),))
    one = redaction(right=side)
    values = [f'{{"user_id": {user}}}' for user in (40, 60, 50)]
    for value in values:
        one.collect("impressions", value)

    assert [json.loads(one.input("impressions", value))["user_id"] for value in values] == [1, 5, 3]
    assert Contract.from_json(one.contract()).right.filters == (Filter("user_id", ">", 3),)
    assert one.state_key("left", ("60", "x"))[0] == "5"


def test_the_number_that_spark_takes_for_a_time_stays_and_values_do_not():
    one = redaction(condition=(Term(">", left="price", value=500),))

    assert Contract.from_json(one.contract()).condition == (Term(">", left="price", value=500),)
    prices = [
        json.loads(one.input("impressions", f'{{"price": {price}}}'))["price"] for price in (7, 500, 777)
    ]
    assert prices == [499, 500, 501]


def test_a_contract_whose_verdict_hangs_on_values_is_refused():
    condition = (Term(">", left="user_id", value=5),)
    side = replace(CONTRACT.left, fields=(Field("user_id", type="bigint"),))
    other = replace(CONTRACT.right, fields=(Field("user_id", type="bigint"),))

    with pytest.raises(UsageError, match="cannot be redacted") as refused:
        redaction(left=side, right=other, condition=condition)
    assert "'user_id' of impressions" in refused.value.detail
    assert refused.value.hint


def test_kafka_keys_and_headers_of_input_records_are_left_out(tmp_path):
    source = shutil.copytree(RECORDED / "inner", tmp_path / "clear")
    (source / "seal.json").unlink()
    run = RunDirectory(source)
    with TraceReader(run.file("trace")) as reader:
        header = reader.header
        records = [
            msgspec.structs.replace(one, key="secret-key", headers=[("secret-name", "secret-value")])
            for one in reader
        ]
    write_trace(run.file("trace"), msgspec.structs.replace(header, generator="secret-generator"), records)
    manifest = run.manifest
    manifest.trace_sha256 = None
    manifest.notes = ["secret-note", "slice 3 was split into two batches"]
    manifest.command = "tidemark run secret-command"
    run.write_json("manifest", manifest)
    assert isinstance(records[0], Record)

    made = Redactor().redact(source, tmp_path / "redacted")

    assert "secret" not in content_of(made.path)
    assert made.manifest.notes == ["slice 3 was split into two batches"]
