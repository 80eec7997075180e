"""A small query and its topics: what most tests of a whole audit begin with."""

from __future__ import annotations

import json

import pytest

from tests.unit.auditor.listed_cluster import Cluster, event
from tests.unit.oracle.histories import contract
from tidemark.auditor import AuditOptions, audited_topics


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    """Batch 0 reads i1 and c1, which match; offsets 1 and 2 of clicks are marks of transactions."""
    cluster = Cluster(
        {
            "impressions": {0: event("iid", "i1", 10), 1: event("iid", "i2", 30)},
            "clicks": {0: event("cid", "c1", 11), 3: event("cid", "c2", 30)},
            "out": {0: '{"iid":"i1","cid":"c1"}', 5: '{"iid":"i2","cid":"c2"}'},
        }
    )
    for name in ("start_offsets", "end_offsets", "stable_offsets", "partitions", "read_messages"):
        monkeypatch.setattr(audited_topics.kafka, name, getattr(cluster, name))
    monkeypatch.setattr(audited_topics, "cleanup_policies", cluster.cleanup_policies)
    return cluster


@pytest.fixture
def asked(tmp_path) -> AuditOptions:
    """An audit of a query with two batches, the second planned only."""
    checkpoint = tmp_path / "in" / "checkpoint"
    ends = [{"impressions": {"0": 1}, "clicks": {"0": 2}}, {"impressions": {"0": 2}, "clicks": {"0": 4}}]
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"the-query"}')
    for source, topic in enumerate(("impressions", "clicks")):
        (checkpoint / "sources" / str(source)).mkdir(parents=True)
        (checkpoint / "sources" / str(source) / "0").write_text(f'\0v1\n{{"{topic}":{{"0":0}}}}')
    start_ms = 1_767_225_610_000
    for batch, sources in enumerate(ends):
        metadata = json.dumps({"batchWatermarkMs": batch * start_ms, "conf": {}})
        lines = [json.dumps({topic: offsets}) for topic, offsets in sources.items()]
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", metadata, *lines]))
    (checkpoint / "commits" / "0").write_text(f'v1\n{{"nextBatchWatermarkMs":{start_ms}}}')
    described = contract("left_outer").to_json()
    described["output"] |= {"left_ref": None, "right_ref": None}
    (tmp_path / "in" / "contract.json").write_text(json.dumps(described))
    (tmp_path / "out").mkdir()
    return AuditOptions(
        checkpoint=str(checkpoint), contract=str(tmp_path / "in" / "contract.json"), bootstrap="127.0.0.1:9",
        output="out", run_dir=tmp_path / "out" / "audit",
    )  # fmt: skip
