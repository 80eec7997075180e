"""A query that goes on with another contract or other settings: what each change does to its rows, and what is said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.golden.judging import EVIDENCE
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.contract import (
    Bound,
    Contract,
    Delivery,
    Filter,
    JoinKind,
    Output,
    Side,
    Term,
    WatermarkPolicy,
)
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.record_fields import Field
from tidemark.preflight import Effect, changes_of_contract, changes_of_settings
from tidemark.sparkfiles.checkpoint import STATE_PROVIDER

OLD = Contract(
    name="orders_payments",
    kind=JoinKind.LEFT_OUTER,
    left=Side("orders", "order_id", ("customer",), "ordered_at", 10_000),
    right=Side("payments", "payment_id", ("customer",), "paid_at", 20_000),
    bound=Bound(lower_ms=-60_000, upper_ms=0),
    output=Output("order_id", "payment_id"),
)
REFS = Output("order_id", "payment_id", ("o_partition", "o_offset"), ("p_partition", "p_offset"))


def left(**fields):
    return replace(OLD, left=replace(OLD.left, **fields))


def with_keys(**fields):
    """Both sides have to have as many keys."""
    return replace(OLD, left=replace(OLD.left, **fields), right=replace(OLD.right, **fields))


def bound(**fields):
    return replace(OLD, bound=replace(OLD.bound, **fields))


def as_type(**fields):
    return (Field("customer", **fields),)


BOTH = (Term("<", "price", "cents"),)
CHANGED = {
    "kind": (replace(OLD, kind=JoinKind.INNER), Effect.WRONG, "the kind of the join", "NULL rows"),
    "to semi": (
        replace(OLD, kind=JoinKind.LEFT_SEMI, output=Output("order_id")),
        Effect.REFUSED, "the columns of the right side", "VALUE_SCHEMA_NOT_COMPATIBLE",
    ),
    "topic": (left(topic="orders-2"), Effect.REFUSED, "the topic of the left side", "failOnDataLoss"),
    "longer delay": (left(watermark_delay_ms=40_000), Effect.SINCE, "the watermark delay of the left", "stands until"),
    "shorter delay": (left(watermark_delay_ms=1_500), Effect.SINCE, "the watermark delay", "goes ahead"),
    "no watermark": (left(watermark_delay_ms=None), Effect.WRONG, "the watermark delay", "by the old watermark"),
    "other keys": (with_keys(keys=("account",)), Effect.WRONG, "the keys of the left", "under their old keys"),
    "keys of another path": (
        with_keys(fields=as_type(column="meta.customer")), Effect.WRONG, "the keys", "under their old keys",
    ),
    "more keys": (with_keys(keys=("customer", "shop")), Effect.REFUSED, "the keys", "KEY_SCHEMA_NOT_COMPATIBLE"),
    "type of a key": (
        with_keys(fields=as_type(type="bigint")), Effect.REFUSED, "the keys", "KEY_SCHEMA_NOT_COMPATIBLE",
    ),
    "cast of a key": (
        with_keys(fields=as_type(cast="bigint")), Effect.REFUSED, "the keys", "KEY_SCHEMA_NOT_COMPATIBLE",
    ),
    "event time": (left(time="created_at"), Effect.WRONG, "the event time of the left", "old event time"),
    "path of the time": (
        left(fields=(Field("ordered_at", column="meta.at"),)), Effect.WRONG, "the event time", "old event time",
    ),
    "form of the time": (left(time_format="epoch-ms"), Effect.WRONG, "the event time", "old event time"),
    "id": (left(id="number"), Effect.WRONG, "the id of the left", "old id"),
    "type of the id": (
        left(fields=(Field("order_id", type="bigint"),)), Effect.REFUSED, "the columns of the left", "VALUE_SCHEMA",
    ),
    "filter": (left(filters=(Filter("price", "<", 5),)), Effect.WRONG, "the filters of the left", "not filtered again"),
    "filter of a key": (
        left(filters=(Filter("customer", "<", 5),)), Effect.WRONG, "the filters of the left", "not filtered again",
    ),
    "NULL times": (left(keeps_null_event_time=True), Effect.WRONG, "the filters of the left", "not filtered again"),
    "functions": (left(decode="read", encode="write"), Effect.WRONG, "the function decode of the left", "the old one"),
    "wider": (bound(lower_ms=-90_000), Effect.WRONG, "the bound", "pairs with them are lost"),
    "open": (bound(upper_ms=None), Effect.WRONG, "the bound", "pairs with them are lost"),
    "narrower": (bound(lower_ms=-5_000), Effect.WRONG, "the bound", "too far apart"),
    "strict": (bound(lower_strict=True), Effect.WRONG, "the bound", "that are none now"),
    "equal times": (bound(equal=True), Effect.REFUSED, "the bound", "a key of the state"),
    "condition": (
        replace(OLD, condition=(Term("<", None, "cents", 8),)), Effect.WRONG, "the condition", "had a partner",
    ),
    "condition on the preserved side": (
        replace(OLD, condition=(Term("<", "price", value=8),)),
        Effect.REFUSED, "the columns of the left side", "VALUE_SCHEMA_NOT_COMPATIBLE",
    ),
    "condition on a column that comes out": (
        replace(OLD, condition=(Term("<", "order_id", value=8),), left=replace(OLD.left, fields=(Field("order_id"),))),
        Effect.WRONG, "the condition", "had a partner",
    ),
    "condition on both": (replace(OLD, condition=BOTH), Effect.REFUSED, "the columns of the left", "VALUE_SCHEMA"),
    "where": (
        replace(OLD, where=(Term("<", None, "cents", 8),)), Effect.WRONG, "the filter of joined", "before the join",
    ),
    "places": (replace(OLD, output=REFS), Effect.REFUSED, "the columns of the left", "VALUE_SCHEMA_NOT_COMPATIBLE"),
    "places of one side": (
        replace(OLD, output=replace(REFS, right_ref=None)), Effect.REFUSED, "the columns of the left", "VALUE_SCHEMA",
    ),
    "names": (replace(OLD, output=Output("o", "p")), Effect.SINCE, "the fields of the output", "old names"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_has_an_effect_and_a_reason(name):
    new, effect, what, reason = CHANGED[name]

    found = changes_of_contract(OLD, new)

    assert {one.effect for one in found} == {effect}
    assert found[0].what.startswith(what)
    assert reason in found[0].reason
    assert found[0].before != found[0].after
    assert found[0].remedy


def test_a_bound_that_is_moved_loses_rows_at_one_end_and_has_had_too_many_at_the_other():
    [change] = changes_of_contract(OLD, bound(lower_ms=-30_000, upper_ms=10_000))

    assert "pairs with them are lost" in change.reason
    assert "too far apart" in change.reason
    assert (change.before, change.after) == (
        "-60.000 s <= left - right <= 0.000 s",
        "-30.000 s <= left - right <= 10.000 s",
    )


WINDOWS = replace(OLD, bound=Bound(equal=True, window_ms=5_000))
FILTERED = left(filters=(Filter("price", "<", 5), Filter("price", ">", 1)), decode="read", encode="write")
SAME = {
    "the same": (OLD, OLD),
    "names": (OLD, replace(OLD, name="other", accept=("condition-range",), delivery=Delivery.EXACTLY_ONCE)),
    "order of filters": (
        FILTERED,
        replace(FILTERED, left=replace(FILTERED.left, filters=FILTERED.left.filters[::-1])),
    ),
    "inverse function": (FILTERED, replace(FILTERED, left=replace(FILTERED.left, encode="other"))),
    "ends of equal times": (bound(equal=True), replace(OLD, bound=Bound(equal=True))),
    "strictness of an open end": (bound(upper_ms=None), bound(upper_ms=None, upper_strict=True)),
}


@pytest.mark.parametrize("name", SAME)
def test_what_does_not_matter_for_rows_is_no_change(name):
    assert changes_of_contract(*SAME[name]) == ()


def test_windows_that_have_to_be_equal_are_other_keys_than_the_times():
    [change] = changes_of_contract(bound(equal=True), WINDOWS)

    assert change.effect == Effect.REFUSED
    assert change.after == "left = right in windows of 5 s"


def test_what_is_refused_is_said_alone():
    found = changes_of_contract(OLD, replace(with_keys(keys=("customer", "shop")), kind=JoinKind.INNER))

    assert {one.effect for one in found} == {Effect.REFUSED}


def test_a_setting_that_the_log_keeps_is_not_in_effect_and_others_are_not_spoken_of():
    kept = {STATE_PROVIDER: "HDFS", "spark.sql.shuffle.partitions": "2"}

    [change] = changes_of_settings(
        kept,
        {STATE_PROVIDER: "RocksDB", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"},
    )

    assert (change.effect, change.what, change.before, change.after) == (
        Effect.KEPT, STATE_PROVIDER, "HDFS", "RocksDB",
    )  # fmt: skip


@pytest.fixture
def ask(tmp_path):
    """A function that calls the command for two contracts; what it answers."""

    def ask(new, *more, old=OLD):
        for name, contract in (("old", old), ("new", new)):
            (tmp_path / f"{name}.json").write_text(json.dumps(contract.to_json()))
        words = [
            "contract",
            str(tmp_path / "new.json"),
            "--since",
            str(tmp_path / "old.json"),
            *map(str, more),
        ]
        return CliRunner().invoke(app, words)

    return ask


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint whose log keeps two settings."""
    folder = tmp_path / "checkpoint"
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"7a5c0d33-9d6f-4d0e-8f3f-6a1e9a0d3b11"}')
    kept = {STATE_PROVIDER: "HDFS", "spark.sql.shuffle.partitions": "2"}
    said = {"batchWatermarkMs": 0, "batchTimestampMs": 1_767_225_600_000, "conf": kept}
    offsets = ['{"orders":{"0":1}}', '{"payments":{"0":1}}']
    (folder / "offsets" / "0").write_text("\n".join(["v1", json.dumps(said), *offsets]))
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_the_command_says_each_change_and_ends_with_one(ask):
    done = ask(CHANGED["wider"][0])

    assert done.exit_code == 1
    assert done.output.splitlines()[0] == "wrong rows: the bound"
    assert "start the new query on a new checkpoint" in done.output
    assert done.output.splitlines()[-1].startswith("1 change that matters; the code was not looked at")


@pytest.mark.parametrize(("new", "changes"), [(OLD, 0), (CHANGED["longer delay"][0], 1)])
def test_the_command_ends_with_zero_where_no_row_is_wrong(ask, new, changes):
    done = ask(new, "--json")

    assert done.exit_code == 0
    assert len(json.loads(done.output)["changes"]) == changes


def test_the_policy_is_that_of_the_log_if_there_is_a_checkpoint(ask, checkpoint):
    new = replace(OLD, policy=WatermarkPolicy.MAX)

    assert "not in effect: spark.sql.streaming.multipleWatermarkPolicy" in ask(new).output
    [offsets] = (checkpoint / "offsets").iterdir()
    offsets.write_text(
        offsets.read_text().replace(STATE_PROVIDER, "spark.sql.streaming.multipleWatermarkPolicy", 1)
    )
    done = ask(OLD, "--checkpoint", checkpoint)
    assert done.output.splitlines()[1:3] == ["  from:     HDFS", "  to:       min"]


def test_the_old_contract_may_be_that_of_a_run(tmp_path):
    (tmp_path / "new.json").write_text(json.dumps(RunDirectory(EVIDENCE / "full_outer").contract.to_json()))

    done = CliRunner().invoke(
        app, ["contract", str(tmp_path / "new.json"), "--since", str(EVIDENCE / "full_outer")]
    )

    assert done.exit_code == 0
    assert done.output.startswith("0 changes that matter; the code was not looked at")


def test_the_command_says_which_settings_the_checkpoint_keeps(ask, checkpoint):
    done = ask(
        OLD,
        "--checkpoint",
        checkpoint,
        "--conf",
        f"{STATE_PROVIDER}=RocksDB",
        "--conf",
        "spark.sql.shuffle.partitions=2",
    )

    assert done.exit_code == 1
    assert f"not in effect: {STATE_PROVIDER}" in done.output
    assert "shuffle" not in done.output


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--conf", "a=b"], "--conf is given without --checkpoint"),
        (["--checkpoint", "nowhere"], "nowhere"),
        (["--draft"], "--draft and --since are given"),
        (["--packages", "a:b:1"], "--since and --jars or --packages are given"),
    ],
)
def test_what_cannot_be_compared_is_said(ask, more, says):
    done = ask(OLD, *more)

    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)
    assert done.exception.hint


def test_a_checkpoint_without_an_old_contract_is_refused(checkpoint):
    done = CliRunner().invoke(app, ["contract", "left_outer", "--checkpoint", str(checkpoint)])

    assert isinstance(done.exception, UsageError)
    assert "--checkpoint is given without --since" in str(done.exception)


def test_chains_are_not_compared():
    done = CliRunner().invoke(app, ["contract", "left_outer", "--since", "shown_again"])

    assert isinstance(done.exception, UsageError)
    assert "one of these is a chain" in str(done.exception)
