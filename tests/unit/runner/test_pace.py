"""Whether a slice became one batch, whatever ids the checkpoint begins with."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.unit.runner.test_checkpoint import commit, plan
from tidemark.runner.pace import IDLE_WORDS, Feed
from tidemark.sparkfiles.checkpoint import Checkpoint


class Topics:
    """A topic of one partition, its idle query, and the query's checkpoint, of which ``kept`` batches remain."""

    def __init__(self, folder, kept):
        self.folder, self.kept = folder, kept
        self.end = 0

    def batch(self, number, end):
        plan(self.folder, number, 0, f'{{"left":{{"0":{end}}}}}')
        commit(self.folder, number, 0)
        for log in ("offsets", "commits"):
            (self.folder / log / str(number - self.kept)).unlink(missing_ok=True)

    def ends(self):
        return {"left": {"0": self.end}}

    def publish(self, *batches):
        """Publish two records, which the query reads in these batches, of one record each but for the last."""
        self.end += 2
        for at, number in enumerate(batches, 1):
            self.batch(number, self.end if at == len(batches) else self.end - 1)

    def ask(self, _command, _timeout_s):
        return {"isTriggerActive": False, "message": IDLE_WORDS[0]}

    def suspended(self):
        return nullcontext(True)

    def began_after(self, _batch):
        return False


@pytest.mark.parametrize(("last", "kept"), [(1, 100), (40, 100), (40, 2), (40, 1)])
@pytest.mark.parametrize(("batches", "is_one"), [(1, True), (2, False)])
def test_a_slice_is_split_if_the_next_batch_has_not_read_all_of_it(tmp_path, last, kept, batches, is_one):
    topics = Topics(tmp_path, kept)
    for number in range(max(0, last - kept), last + 1):
        topics.batch(number, 0)
    feed = Feed(topics, Checkpoint(tmp_path), topics.ends, hung_after_s=20.0)

    said = feed.publish_one_batch(lambda: topics.publish(*range(last + 1, last + 1 + batches)))

    assert said is is_one


def test_a_slice_of_a_query_with_version_2_of_the_log_is_seen_as_read(tmp_path):
    topics = Topics(tmp_path, 100)
    topics.batch(0, 0)

    def publish():
        topics.end = 2
        (tmp_path / "offsets" / "1").write_text('v2\n{"batchWatermarkMs":0}\n0:{"left":{"0":2}}')
        commit(tmp_path, 1, 0)

    feed = Feed(topics, Checkpoint(tmp_path), topics.ends, hung_after_s=2.0)
    assert feed.publish_one_batch(publish)
