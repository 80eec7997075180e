"""What runs on executors reads records as the judgement of small runs does, and needs nothing of tidemark there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.support.elsewhere import printed_elsewhere
from tidemark.formats.contract import Side
from tidemark.sparksql.executor_readers import (
    PICKLED_BY_VALUE,
    EventFields,
    claim_reader,
    event_reader,
    in_order,
)

LEFT = Side("a", "id", ("k", "m"), "at", 10_000)
RIGHT = Side("b", "id", ("k", "m"), "at", None, keeps_null_event_time=True)
FIELDS = EventFields((LEFT, RIGHT), (("x",), ("y",)), {"x": "x_", "y": "y_"})
HEADERS = [("query", "q"), ("batch", "3"), ("partition", "0"), ("attempt", "0")]


def events(*values: bytes | str | None, topic: str = "a", is_absent: bool = False) -> list[dict[str, object]]:
    raw = [one if isinstance(one, bytes) else None for one in values]
    batch = pa.RecordBatch.from_pydict(
        {
            "n": list(range(1, len(values) + 1)),
            "topic": [topic] * len(values),
            "part": [0] * len(values),
            "value": pa.array([one if isinstance(one, str) else None for one in values], pa.string()),
            "value_bytes": pa.array(raw, pa.binary()),
            "is_sentinel": [False] * len(values),
            "is_absent": [is_absent] * len(values),
        }
    )
    return [row for found in event_reader(FIELDS)(iter([batch])) for row in found.to_pylist()]


def test_a_record_is_read_with_its_key_time_and_numbers() -> None:
    [row] = events('{"id": "i", "k": "u", "m": 7, "at": "1970-01-01T00:00:01Z", "x": 5}')

    assert row == {
        "n": 1, "part": 0, "is_sentinel": False, "side": 0, "id": "i", "time_us": 1_000_000, "readable": True,
        "k0": "u", "k1": "7", "x_": 5, "y_": None,
    }  # fmt: skip


@pytest.mark.parametrize("value", [None, "", "[]", "{", '{"id": "i", "at": null}', b"\xff"])
def test_what_is_no_event_is_not_readable_and_has_no_id(value: bytes | str | None) -> None:
    [row] = events(value)

    assert (row["readable"], row["id"], row["time_us"]) == (False, None, None)


def test_a_record_without_a_time_is_readable_where_its_side_keeps_it() -> None:
    [row] = events('{"id": "i", "at": null}', topic="b")

    assert (row["readable"], row["id"], row["side"]) == (True, "i", 1)


def test_a_number_that_is_no_long_is_null() -> None:
    [row] = events('{"id": "i", "at": "1970-01-01T00:00:01Z", "x": 1000000000000000000000}')

    assert row["x_"] is None


def claims(value: str | None, headers: list[tuple[str, object]] | None = None) -> dict[str, object]:
    names = ("lid", "rid", "lp", "lo", "rp", "ro")
    of_headers = [
        {
            "name": name,
            "value": None if isinstance(one, bytes) else one,
            "value_bytes": one if isinstance(one, bytes) else None,
        }
        for name, one in headers or HEADERS
    ]
    batch = pa.RecordBatch.from_pydict(
        {
            "o": [1],
            "partition": [2],
            "value": pa.array([value], pa.string()),
            "headers": pa.array(
                [of_headers],
                pa.list_(
                    pa.struct([("name", pa.string()), ("value", pa.string()), ("value_bytes", pa.binary())])
                ),
            ),
        }
    )
    [found] = claim_reader("q", names, has_refs=True)(iter([batch]))
    [row] = found.to_pylist()
    return row


def test_a_plain_record_names_both_of_its_rows() -> None:
    row = claims(json.dumps({"lid": "i", "lp": 0, "lo": 4, "rid": "c", "rp": 1, "ro": 5}))

    assert row == {
        "o": 1, "part": 2, "batch": 3, "is_plain": True, "l_id": "i", "r_id": "c", "l_part": 0, "l_position": 4,
        "r_part": 1, "r_position": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("place", "named"),
    [("4.0", 4), ("true", 1), ('"4"', None), ("4.5", None), ("1e300", None), ("[4]", None)],
)
def test_a_place_that_is_no_whole_number_is_not_plain_and_may_be_equal_to_one(
    place: str, named: int | None
) -> None:
    row = claims(f'{{"lid": "i", "lp": 0, "lo": {place}}}')

    assert (row["is_plain"], row["l_position"]) == (False, named)


@pytest.mark.parametrize(
    "headers",
    [
        [("query", "other"), ("batch", "3")],
        [("batch", "3")],
        [("query", "q"), ("batch", "03")],
        [("query", "q"), ("batch", "3"), ("batch", "3")],
        [("query", "q"), ("query", "q"), ("batch", "3")],
        [("query", "q"), ("batch", b"\xff")],
        [("query", "q"), ("batch", None)],
    ],
)
def test_a_record_with_other_headers_is_not_plain(headers: list[tuple[str, object]]) -> None:
    row = claims('{"lid": "i", "lp": 0, "lo": 4}', headers)

    assert (row["is_plain"], row["batch"], row["l_position"]) == (False, None, 4)


@pytest.mark.parametrize("value", [None, "", "garbage", "[1]"])
def test_a_value_that_is_no_object_names_nothing(value: str | None) -> None:
    row = claims(value)

    assert (row["is_plain"], row["l_id"], row["l_part"]) == (False, None, None)


def test_the_readers_run_where_tidemark_is_not(tmp_path: Path) -> None:
    modules = [sys.modules[name] for name in PICKLED_BY_VALUE]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        readers = (
            event_reader(FIELDS),
            in_order(claim_reader("q", ("l", "r"), has_refs=False), ["o", "batch"]),
        )
        (tmp_path / "readers").write_bytes(cloudpickle.dumps(readers))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    program = (
        "import pyarrow as pa\n"
        "of_events, of_claims = loaded\n"
        'text = \'{"id": "i", "at": "1970-01-01T00:00:01Z"}\'\n'
        "columns = {'n': [1], 'topic': ['a'], 'part': [0], 'value': [text], 'is_sentinel': [False]}\n"
        "columns['is_absent'] = [False]\n"
        "columns['value_bytes'] = pa.array([None], pa.binary())\n"
        "[events] = of_events(iter([pa.RecordBatch.from_pydict(columns)]))\n"
        "header = [{'name': 'query', 'value': 'q'}, {'name': 'batch', 'value': '2'}]\n"
        "columns = {'o': [1], 'partition': [0], 'value': ['{}'], 'headers': [header]}\n"
        "output = pa.RecordBatch.from_pydict(columns)\n"
        "[claims] = of_claims(iter([output]))\n"
        "print(events.column('time_us')[0], claims.to_pydict())\n"
    )

    printed, errors = printed_elsewhere(tmp_path / "readers", program)

    assert printed == "1000000 {'o': [1], 'batch': [2]}\n", errors
