"""The generator gives the traces of before, byte by byte, also where it sorts and keeps them on disk."""

from __future__ import annotations

import json

import msgspec
import pytest

from producers import spool
from producers.generate import write
from producers.settings import Settings
from tests.unit.producers.trace_settings import DIGESTS, plain_pools

RECORDED = [json.loads(line) for line in DIGESTS.read_text().splitlines()]
PARTS = 8


@pytest.mark.not_smoke
@pytest.mark.parametrize("run_items", [spool.RUN_ITEMS, 97], ids=["in memory", "on disk"])
@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_settings_give_the_bytes_that_they_gave_before(run_items, part, monkeypatch, tmp_path):
    monkeypatch.setattr(spool, "RUN_ITEMS", run_items)
    monkeypatch.setattr(spool, "BLOCK_ITEMS", min(run_items, spool.BLOCK_ITEMS) // 7 + 1)
    with plain_pools():
        for recorded in RECORDED[part::PARTS]:
            settings = msgspec.convert(recorded["settings"], Settings)
            assert write(settings, tmp_path / "trace.jsonl")[0] == recorded["sha256"], settings
