"""Checkpoints of other queries, as each version of Spark writes them, and folders that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemark.errors import UsageError
from tidemark.sparkfiles.query_log import committed_batches, read_query_log

CONF = {"spark.sql.streaming.multipleWatermarkPolicy": "min"}

STATE_IDS = {"stateUniqueIds": {"0": [["a", "b"], ["c", "d"]]}}
SINK = {
    "sinkName": "paid",
    "commitOffset": "-",
    "providerName": "K$KafkaTable",
    "apiVersion": "DSv2",
    "isActive": True,
}
MORE_OF_A_COMMIT = {"v1": {}, "v2": STATE_IDS, "v3": {**STATE_IDS, "sinkMetadataMap": {"paid": SINK}}}
"""What a commit has besides the watermark, as Spark 4.3.0 writes it."""


def write(
    folder: Path,
    batches: range,
    *,
    version: str = "v1",
    commit_version: str = "v1",
    commits: range | None = None,
) -> Path:
    """A checkpoint of a query of two topics; each batch reads 10 records of either."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id":"the-query"}')
    (folder / "sources" / "0" / "0").write_text('\0v1\n{"orders":{"0":3}}')
    for batch in batches:
        metadata = {"batchWatermarkMs": batch * 1000, "batchTimestampMs": 1, "conf": CONF}
        lines = [json.dumps({topic: {"0": 10 * (batch + 1)}}) for topic in ("orders", "payments")]
        if version == "v2":
            lines = [f"{source}:{line}" for source, line in enumerate(lines)]
        (folder / "offsets" / str(batch)).write_text("\n".join([version, json.dumps(metadata), *lines]))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"\0crc")
    for batch in batches if commits is None else commits:
        body = {"nextBatchWatermarkMs": (batch + 1) * 1000, **MORE_OF_A_COMMIT[commit_version]}
        (folder / "commits" / str(batch)).write_text(f"{commit_version}\n{json.dumps(body)}")
    return folder


@pytest.mark.parametrize("commit_version", ["v1", "v2", "v3"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_all_versions_of_the_logs_say_the_same(tmp_path, version, commit_version):
    log = read_query_log(write(tmp_path, range(3), version=version, commit_version=commit_version))

    assert log.query_id == "the-query"
    assert [(batch.batch, batch.watermark_ms) for batch in log.planned] == [(0, 0), (1, 1000), (2, 2000)]
    assert log.planned[1].end_offsets == {"orders": {"0": 20}, "payments": {"0": 20}}
    assert log.committed == {0, 1, 2}
    assert log.next_watermarks_ms[2] == 3000
    assert log.started == {"orders": {"0": 3}}
    assert log.conf == CONF


def test_a_source_without_an_offset_and_one_of_another_kind_are_passed_over(tmp_path):
    write(tmp_path, range(1))
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1})
    (tmp_path / "offsets" / "0").write_text(
        f'v1\n{metadata}\n-\n{{"logOffset":7}}\n42\n{{"orders":{{"0":5}}}}'
    )

    log = read_query_log(tmp_path)

    assert log.topics == {"orders"}
    assert log.conf == {}


def test_a_commit_that_was_trimmed_before_its_plan_is_known_all_the_same(tmp_path):
    log = read_query_log(write(tmp_path, range(7, 12), commits=range(9, 11)))

    assert log.committed == {7, 8, 9, 10}
    assert committed_batches(tmp_path) == [9, 10]


def test_a_commit_that_is_missing_between_others_is_missing(tmp_path):
    write(tmp_path, range(5))
    (tmp_path / "commits" / "3").unlink()

    assert read_query_log(tmp_path).committed == {0, 1, 2, 4}


def test_the_folder_is_left_as_it_is(tmp_path):
    write(tmp_path, range(3))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    read_query_log(tmp_path)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def refusal(folder: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_query_log(folder)
    assert caught.value.hint
    return caught.value


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert "there is no checkpoint" in refusal(tmp_path / "nowhere").message


def test_a_folder_that_is_no_checkpoint_is_refused_with_what_it_lacks(tmp_path):
    (tmp_path / "metadata").write_text("{}")
    (tmp_path / "state").mkdir()

    error = refusal(tmp_path)
    assert "is no checkpoint" in error.message
    assert error.detail == "it lacks offsets, commits; it has metadata, state"


def test_a_checkpoint_without_a_planned_batch_is_refused(tmp_path):
    assert "has no planned batch" in refusal(write(tmp_path, range(0))).message


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("offsets/1", "v7\n{}", "its first line is 'v7'; the versions known are v1, v2"),
        ("offsets/1", "", "its first line is ''"),
        ("offsets/1", "v1\n{not json", "Expecting property name"),
        ("offsets/1", "v1\n{}", "KeyError"),
        ("commits/1", "v4\n{}", "its first line is 'v4'"),
        ("metadata", "[]", "TypeError"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text, said):
    write(tmp_path, range(3))
    (tmp_path / name).write_text(text)

    error = refusal(tmp_path)
    assert repr(str(tmp_path / name)) in error.message
    assert said in error.detail


def test_two_sources_that_read_one_topic_up_to_different_offsets_are_refused(tmp_path):
    write(tmp_path, range(1))
    metadata = json.dumps({"batchWatermarkMs": 0})
    (tmp_path / "offsets" / "0").write_text(f'v1\n{metadata}\n{{"orders":{{"0":5}}}}\n{{"orders":{{"0":6}}}}')

    assert "two sources read the topic 'orders'" in refusal(tmp_path).detail
