"""Plans out of event logs: those of ``explain()``, and drafts are made of them as of those."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.unit.preflight.plans import RECORDED, text
from tidemark.errors import UsageError
from tidemark.preflight import PlanSource, draft_contract, read_plan
from tidemark.preflight.json_output import json_columns
from tidemark.runner.plan_draft import draft_of_file
from tidemark.sparkfiles.event_plans import chosen_query, logged_queries

QUERY = "d407179f-8f74-40f9-8a56-f0959035ec45"
OTHER = "44df5b3b-f4c2-401d-a753-859e854def9a"
START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
JOINED = sorted(
    path.stem for path in RECORDED.glob("*.txt") if path.stem != "two_joins" and "\n-" not in path.read_text()
)


def tree(name: str) -> dict[str, Any]:
    """A recorded plan as an event has it: nodes in nodes, and those for generated code between them."""
    body = text(name).partition("== Physical Plan ==\n")[2].strip("\n")
    path: list[dict[str, Any]] = []
    for line in body.splitlines():
        shown = line.lstrip(" :+-")
        depth = (len(line) - len(shown)) // 3
        shown = shown.partition(") ")[2] if shown.startswith("*(") else shown
        node = {"nodeName": shown.partition(" ")[0], "simpleString": shown, "children": []}
        wrapper = {
            "nodeName": "WholeStageCodegen (1)", "simpleString": "WholeStageCodegen (1)", "children": [node],
        }  # fmt: skip
        del path[depth:]
        if path:
            path[-1]["children"].append(wrapper)
        path.append(node)
    writer = "WriteToDataSourceV2 MicroBatchWrite[epoch: 0]"
    return {"nodeName": "WriteToDataSourceV2", "simpleString": writer, "children": [path[0]]}


def started(plan: dict[str, Any], query: str = QUERY, name: str = "orders", **more: Any) -> dict[str, Any]:
    description = f"{name}\nid = {query}\nrunId = {OTHER}\nbatch = 0"
    return {"Event": START, "executionId": 1, "description": description, "sparkPlanInfo": plan, **more}


def reported(*topics: str, query: str = QUERY) -> dict[str, Any]:
    sources = [{"description": f"KafkaV2[Subscribe[{topic}]]"} for topic in topics]
    return {"Event": PROGRESS, "progress": {"id": query, "batchId": 0, "sources": sources}}


def log(path: Path, *events: dict[str, Any], compressed: bool = False) -> Path:
    first = {"Event": "SparkListenerLogStart", "Spark Version": "4.2.0"}
    data = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in (first, *events)).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(data) if compressed else data)
    return path


@pytest.mark.parametrize("name", JOINED)
def test_the_draft_of_an_event_log_is_that_of_the_same_plan_printed(name, tmp_path):
    path = log(tmp_path / "app-1", started(tree(name)), reported("impressions", "clicks"))

    source = PlanSource(("impressions", "clicks"), are_sides=True)
    printed = draft_contract(read_plan(text(name)), "orders", source)
    assert draft_of_file(path) == printed


def test_a_draft_has_the_topics_and_the_policy_of_the_query(tmp_path):
    configs = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}
    events = started(tree("left_outer"), modifiedConfigs=configs), reported("shown", "clicked")
    draft = draft_of_file(log(tmp_path / "app-1", *events, compressed=True))

    assert (draft.contract.left.topic, draft.contract.right.topic) == ("shown", "clicked")
    assert draft.contract.policy == "max"
    assert draft.notes["policy"] == "the query ran with spark.sql.streaming.multipleWatermarkPolicy=max"


@pytest.mark.parametrize("topics", [(), ("shown", "shown"), ("a,b", "clicked"), ("a", "b", "c")])
def test_topics_that_are_not_two_are_called_left_and_right(topics, tmp_path):
    draft = draft_of_file(log(tmp_path / "app-1", started(tree("inner")), reported(*topics)))

    assert draft.contract.left.topic == "left"
    assert draft.contract.right.topic in ("right", "clicked")
    assert draft.questions["left.topic"] == ["the plan does not name the topic: which one is it?"]
    assert ("right.topic" in draft.questions) == (draft.contract.right.topic == "right")


def test_a_plan_of_a_batch_that_read_both_inputs_is_preferred(tmp_path):
    with_nothing = tree("inner")
    leaf = with_nothing
    while leaf["children"]:
        leaf = leaf["children"][0]
    leaf |= {"nodeName": "LocalTableScan", "simpleString": "LocalTableScan <empty>, [value#1]"}
    path = log(tmp_path / "app-1", started(with_nothing), started(tree("inner")), started(with_nothing))

    [query] = logged_queries(path)
    assert query.is_whole
    assert "LocalTableScan" not in query.plan


def test_a_rolled_log_is_read_and_one_of_its_queries_chosen(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    log(folder / "events_1_app-1", started(tree("inner")), reported("a", "b"))
    log(
        folder / "events_2_app-1", started(tree("strict"), OTHER, "payments"), reported("c", "d", query=OTHER)
    )
    (folder / "appstatus_app-1").touch()

    with pytest.raises(UsageError, match="has 2 queries with a join") as refused:
        draft_of_file(folder)
    assert f"orders ({QUERY}), payments ({OTHER})" in refused.value.detail
    assert draft_of_file(folder, OTHER) == draft_of_file(folder, "payments")
    assert draft_of_file(folder, "payments").contract.left.topic == "c"
    with pytest.raises(UsageError, match="has 0 queries 'refunds'"):
        draft_of_file(folder, "refunds")


def test_a_log_without_a_join_of_streams_is_refused(tmp_path):
    path = log(tmp_path / "app-1", reported("a", "b"))

    with pytest.raises(UsageError, match="no query with a join of two streams"):
        draft_of_file(path)


def test_a_query_of_what_is_no_log_is_refused(tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text(text("inner"))

    with pytest.raises(UsageError, match="is no event log of Spark, and --query 'orders'"):
        draft_of_file(path, "orders")


def test_queries_without_a_name_are_chosen_by_their_id(tmp_path):
    event = started(tree("inner"), name="")
    event["description"] = event["description"].lstrip("\n")

    query = chosen_query(logged_queries(log(tmp_path / "app-1", event)), QUERY)
    assert (query.id, query.name) == (QUERY, "")


@pytest.mark.parametrize(
    "written",
    [
        "to_json(struct(order_id, order_id#5, paid, cast(amount#7 as string)), Some(UTC))",
        "cast(to_json(struct(order_id, order_id#5, paid, cast(amount#7 as string)), Some(UTC)) as binary)",
        (
            "invoke(StructsToJsonEvaluator(Map(ignoreNullFields -> false),StructType(StructField(order_id,StringType,"
            "true),StructField(paid,StringType,true)),Some(UTC)).evaluate(struct(order_id, order_id#5, paid,"
            " cast(amount#7 as string))))"
        ),
    ],
)
def test_the_columns_of_records_of_json_are_those_of_the_struct(written):
    assert json_columns(written) == {"order_id": "order_id#5", "paid": "cast(amount#7 as string)"}


@pytest.mark.parametrize("written", ["value#3", "upper(name#2)", "to_json(map#3)", "struct(a, a#1)", ""])
def test_what_writes_no_object_has_no_columns(written):
    assert json_columns(written) == {}
