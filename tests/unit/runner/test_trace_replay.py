"""A stepped replay beside a query that runs for long: which slices were split into batches."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.unit.runner.test_checkpoint import commit, plan
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.kafka import client as kafka
from tidemark.runner import trace_replay
from tidemark.runner.trace_replay import ReplayOptions, replay_stepped

KEPT = 100
"""So many batches Spark keeps of its log by default."""


class LongLived:
    """A query that has planned batches up to ``last``; it reads slice ``number`` in ``batches_of[number]`` batches.

    It is the publisher, too: a slice has two records.
    """

    def __init__(self, folder, last, batches_of):
        self.folder, self.last, self.batches_of = folder, last, batches_of
        self.end = 0
        folder.mkdir()
        for number in range(max(0, last - KEPT), last + 1):
            self._batch(number, 0)

    def _batch(self, number, end):
        plan(self.folder, number, 0, f'{{"t-lefts":{{"0":{end}}}}}')
        commit(self.folder, number, 0)
        for log in ("offsets", "commits"):
            (self.folder / log / str(number - KEPT)).unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def ask(self, command, _timeout_s):
        self.end += 2
        batches = self.batches_of[int(command.removeprefix("publish "))]
        for at in range(batches):
            self.last += 1
            self._batch(self.last, self.end if at == batches - 1 else self.end - 1)
        return {"records": 2}


@pytest.mark.parametrize("last", [2, 150])
def test_only_a_slice_that_more_than_one_batch_has_read_is_torn(tmp_path, monkeypatch, last):
    query = LongLived(tmp_path / "checkpoint", last, [1, 2, 1])
    monkeypatch.setattr(kafka, "end_offsets", lambda _broker, _topics: {"t-lefts": {0: query.end}})
    monkeypatch.setattr(trace_replay, "Program", lambda _arguments, _log: query)
    header = Header(tidemark_trace=2, pace="stepped", topics={"lefts": TopicSpec(partitions=1)}, slices=3)
    records = [Record(topic="lefts", arrival_ms=at, slice=at, value="{}") for at in range(3)]
    write_trace(tmp_path / "trace.jsonl", header, records)
    options = ReplayOptions(
        broker={"bootstrap.servers": "here"},
        topics={"lefts": "t-lefts"},
        checkpoint=query.folder,
        batch_s=20.0,
    )

    done = replay_stepped(tmp_path / "trace.jsonl", options)

    assert (done.records, done.batches, done.torn) == (6, 4, [1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pace", "backlog", "--checkpoint", "c"], "--checkpoint is given, and the pace is 'backlog'"),
        (["--pace", "backlog", "--speed", "2"], "--speed is given, and the pace is 'backlog'"),
    ],
)
def test_an_option_of_another_pace_is_refused(tmp_path, words, said):
    header = Header(tidemark_trace=2, pace="timed", topics={"lefts": TopicSpec()}, slices=1)
    write_trace(tmp_path / "t.jsonl", header, [Record(topic="lefts", value="{}", arrival_ms=0)])

    done = CliRunner().invoke(
        app, ["replay", str(tmp_path / "t.jsonl"), "--bootstrap", "127.0.0.1:1", *words]
    )

    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
    assert done.exception.hint
