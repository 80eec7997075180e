"""Which NULL keys Spark joins with each other, stream with stream; in a batch it joins none of them."""

from __future__ import annotations

import json
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e]

A_PAIR, NULL_KEYS = ("L1", "R1"), ("L2", "R2")


@pytest.mark.parametrize(
    ("key", "joined"),
    [
        ("double", [A_PAIR, NULL_KEYS]),
        pytest.param("float", [A_PAIR, NULL_KEYS], marks=pytest.mark.long),
        pytest.param("decimal(9, 2)", [A_PAIR], marks=pytest.mark.long),
        pytest.param("bigint", [A_PAIR], marks=pytest.mark.long),
    ],
)
def test_an_inner_join_of_streams_joins_null_keys_that_are_floating_point_numbers(
    session: Any, stack: Any, key: str, joined: list[tuple[str, str]]
) -> None:
    folder = Path(tempfile.mkdtemp(dir=stack.work_dir("null-keys")))
    for side, name in (("l", "L"), ("r", "R")):
        (folder / side).mkdir()
        rows = [{side: f"{name}1", "k": 1}, {side: f"{name}2", "k": None}]
        (folder / side / "rows.json").write_text("\n".join(map(json.dumps, rows)))

    def read(reader: Any, side: str) -> Any:
        return reader.schema(f"{side} string, k {key}").json(str(folder / side)).alias(side)

    def pairs(joined: Any) -> list[tuple[str, str]]:
        return sorted((row.l, row.r) for row in joined.collect())

    def join(reader: Any) -> Any:
        left, right = read(reader, "l"), read(reader, "r")
        return left.join(right, left.k == right.k).select("l", "r")

    name = f"joined_{uuid.uuid4().hex}"
    query = (
        join(session.readStream).writeStream.format("memory").queryName(name)
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(120)

    assert pairs(session.table(name)) == joined
    assert pairs(join(session.read)) == [A_PAIR]
