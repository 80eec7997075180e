"""Columns say what ``read_event`` says, whatever a record holds."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemark.formats.contract import Side
from tidemark.formats.events import read_event
from tidemark.oracle.input.columns import ColumnReader

SIDE = Side("clicks", "id", ("user", "ad"), "time", 0)
JSON = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=3) | st.just(["x"])
TIMES = st.sampled_from(
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456", "2026-01-01 00:00:01+02:00", "soon", "", None, 12]
)
RECORDS = st.fixed_dictionaries(
    {}, optional={"id": JSON, "user": JSON, "ad": JSON, "time": TIMES, "more": JSON}
)
VALUES = st.one_of(
    RECORDS.map(json.dumps),
    RECORDS.map(lambda record: json.dumps(record).encode()),
    st.sampled_from([None, "", b"", "{", b"\xff", "[1]", "null", "7", b'{"id": "\xff"}']),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.lists(VALUES, max_size=12))
def test_columns_are_the_events_one_by_one(values: list[str | bytes | None]) -> None:
    columns = ColumnReader(SIDE).read(values)
    assert [len(column) for column in columns[:3]] == [len(values)] * 3
    for value, (time_us, name, key) in zip(values, zip(*columns[:3], strict=True), strict=True):
        event = read_event(value, SIDE)
        assert (event is None) == (time_us is None)
        if event is not None:
            assert event == (name, key, time_us)


def test_a_number_that_is_no_bigint_is_null_as_in_spark() -> None:
    values = [
        json.dumps({"price": price}) for price in (2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 1.0, "7", None)
    ]

    found = ColumnReader(SIDE, ("price",)).read(values).numbers["price"]

    assert found == [None, 2**63 - 1, -(2**63), None, None, None, None]
