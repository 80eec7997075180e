"""Records that retention or compaction removes, before an audit or during it: none is taken for one that never was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidemark
from tests.unit.auditor.listed_cluster import Message, event
from tests.unit.oracle.histories import contract
from tidemark.auditor import AuditOptions, audited_topics, one_audit, run_audit
from tidemark.errors import TestbedError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.manifest import StateInfo


def of_another_directory(asked: AuditOptions) -> AuditOptions:
    assert asked.run_dir is not None
    return replace(asked, run_dir=asked.run_dir.with_name("other"))


def retention_begins_before_reading(monkeypatch: Any, cluster: Any, topic: str, start: int) -> None:
    """Delete the first record of a topic once it is decided what to read: the state is read before the topics are."""
    state = one_audit._state

    def deletes(*given: Any) -> StateInfo:
        cluster.starts[topic] = start
        del cluster.records[topic][0]
        return state(*given)

    monkeypatch.setattr(one_audit, "_state", deletes)


def test_records_that_go_while_they_are_read_are_no_gaps(cluster, asked, monkeypatch):
    def deletes(*given: object, **named: str) -> Iterator[Message]:
        cluster.starts["clicks"] = 3
        return cluster.read_messages(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(audited_topics.kafka, "read_messages", deletes)
    with pytest.raises(TestbedError, match="records of clicks/0 were deleted during the audit"):
        run_audit(asked)


def test_records_that_go_before_they_are_read_are_no_gaps(cluster, asked, monkeypatch):
    retention_begins_before_reading(monkeypatch, cluster, "clicks", 1)
    with pytest.raises(TestbedError, match="records of clicks/0 were deleted during the audit") as caught:
        run_audit(asked)
    assert caught.value.detail == "offset 0 was asked for, and the topic begins at offset 1 now"
    assert caught.value.hint.startswith("audit again")
    assert asked.run_dir is not None
    assert list(asked.run_dir.parent.iterdir()) == []


def test_records_that_were_gone_before_the_audit_do_not_end_it(cluster, asked):
    cluster.starts |= {"clicks": 3, "out": 5}
    del cluster.records["clicks"][0], cluster.records["out"][0]

    manifest = RunDirectory(run_audit(asked).run_dir).manifest

    assert manifest.audit is not None
    assert manifest.audit.deleted == {"clicks": {"0": (0, 3)}}
    assert manifest.audit.output_deleted == {"0": (0, 5)}


def test_output_that_goes_before_it_is_read_is_no_lost_row(cluster, asked, monkeypatch):
    retention_begins_before_reading(monkeypatch, cluster, "out", 5)
    with pytest.raises(TestbedError, match="records of out/0 were deleted during the audit") as caught:
        run_audit(asked)
    assert caught.value.detail == "offset 0 was asked for, and the topic begins at offset 5 now"
    assert caught.value.hint.startswith("audit again")


def test_what_a_compacted_input_no_longer_has_may_have_been_read(cluster, asked):
    """The query joined i1 with c1, which compaction removed."""
    del cluster.records["clicks"][0]
    found = run_audit(of_another_directory(asked)).verdict.findings_total
    assert found == {"phantom_rows": 1, "wrong_watermarks": 1}
    cluster.policies["clicks"] = "compact,delete"

    result = run_audit(asked)

    assert (result.verdict.verdict, result.verdict.findings_total) == ("UNKNOWN", {})
    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    assert (manifest.audit.deleted, manifest.audit.compacted) == ({}, ["clicks"])
    assert manifest.audit.unheld == {"clicks": 3}
    assert result.verdict.counts["removed_records"] == 3
    [said] = manifest.notes
    assert said.startswith("offsets without a record: Kafka compacts the topic 'clicks'")
    assert "'compact,delete'" in said
    assert tidemark.check(result.run_dir) == result.verdict


def test_a_row_that_names_the_offset_of_a_compacted_record_is_undetermined(cluster, asked):
    described = contract("left_outer").to_json()
    Path(asked.contract).write_text(json.dumps(described))
    cluster.records["out"] = {
        0: '{"iid":"i1","ip":0,"io":0,"cid":"c1","cp":0,"co":0}',
        1: '{"iid":"i2","ip":0,"io":1,"cid":"c2","cp":0,"co":3}',
    }
    del cluster.records["clicks"][0]
    found = run_audit(of_another_directory(asked)).verdict.findings_total
    assert found == {"phantom_rows": 1, "wrong_watermarks": 1}
    cluster.policies["clicks"] = "compact"

    verdict = run_audit(asked).verdict

    assert (verdict.verdict, verdict.findings_total) == ("UNKNOWN", {})
    assert verdict.audit is not None
    assert verdict.audit.undetermined[0].why.startswith(
        "it names clicks/0/0, where there is no record any more"
    )


def test_what_a_compacted_input_still_has_is_judged(cluster, asked):
    cluster.policies["clicks"] = "compact"
    cluster.records["out"][0] = '{"iid":"i2","cid":"c1"}'

    assert "phantom_rows" in run_audit(asked).verdict.findings_total


def test_a_compacted_topic_with_all_its_records_is_judged_as_any_other(cluster, asked):
    cluster.policies = dict.fromkeys(cluster.records, "compact")
    cluster.records |= {
        "clicks": {0: event("cid", "c1", 11), 1: event("cid", "c2", 30), 2: event("cid", "c3", 30),
                   3: event("cid", "c4", 30)},
        "out": {0: '{"iid":"i2","cid":"c2"}'},
    }  # fmt: skip

    result = run_audit(asked)

    assert result.verdict.findings_total == {"lost_rows": 1}
    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    assert (manifest.audit.compacted, manifest.audit.output_removals, manifest.notes) == ([], [], [])


def test_what_retention_and_compaction_took_from_a_partition_is_told_apart(cluster, asked):
    cluster.policies["clicks"] = "compact,delete"
    cluster.starts["clicks"] = 1
    del cluster.records["clicks"][0]

    manifest = RunDirectory(run_audit(replace(asked, deleted_until="2026-01-01T00:00:11Z")).run_dir).manifest

    assert manifest.audit is not None
    assert (manifest.audit.deleted, manifest.audit.compacted) == ({"clicks": {"0": (0, 1)}}, ["clicks"])
    assert manifest.audit.deleted_until_ms == 1_767_225_611_000


def test_what_a_compacted_output_no_longer_has_is_not_lost(cluster, asked):
    del cluster.records["out"][0]
    assert run_audit(of_another_directory(asked)).verdict.findings_total == {"lost_rows": 1}
    cluster.policies["out"] = "compact"

    result = run_audit(asked)

    assert (result.verdict.verdict, result.verdict.findings_total) == ("UNKNOWN", {})
    assert "1 rows that are owed are not in the output" in " ".join(result.verdict.inconclusive)
    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    [said] = manifest.audit.output_removals
    assert said.startswith("Kafka compacts the topic 'out'")
    assert manifest.audit.deleted == {}


def test_what_is_wrong_is_undetermined_where_it_is_not_known_whether_a_topic_is_compacted(cluster, asked):
    cluster.policies |= {"clicks": "", "out": ""}
    del cluster.records["clicks"][0]

    result = run_audit(asked)

    assert (result.verdict.verdict, result.verdict.findings_total) == ("UNKNOWN", {})
    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    assert (len(manifest.notes), len(manifest.audit.output_removals)) == (1, 1)
    for said in (*manifest.notes, *manifest.audit.output_removals):
        assert "whether Kafka compacts the topic" in said
        assert "DESCRIBE_CONFIGS" in said
        assert "not allowed" in said


def test_nothing_is_undetermined_where_nothing_is_wrong_and_the_right_is_named(cluster, asked):
    """The marks of transactions are no records: i2 has no partner, and its NULL row is due."""
    verdict = run_audit(of_another_directory(asked)).verdict
    cluster.policies |= {"clicks": "", "out": ""}

    result = run_audit(asked)

    assert result.verdict.findings_total == verdict.findings_total == {}
    assert (result.verdict.verdict, result.verdict.inconclusive) == (verdict.verdict, verdict.inconclusive)
    manifest = RunDirectory(result.run_dir).manifest
    assert manifest.audit is not None
    assert (manifest.audit.compacted, manifest.audit.output_removals) == ([], [])
    assert len(manifest.notes) == 2
    for said in manifest.notes:
        assert "DESCRIBE_CONFIGS" in said
        assert "is taken for a mark of a transaction" in said


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_an_offset_without_a_record_is_no_row_where_rows_without_an_event_time_are_kept(
    cluster, asked, policy
):
    described = json.loads(Path(asked.contract).read_text())
    described["right"]["keeps_null_event_time"] = True
    described["kind"] = "full_outer"
    Path(asked.contract).write_text(json.dumps(described))
    cluster.policies["clicks"] = policy

    verdict = run_audit(asked).verdict

    assert verdict.findings_total == {}
    assert verdict.counts["unreadable"] == 0
    assert verdict.counts["clicks_in"] == 2
