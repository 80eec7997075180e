"""What a pipeline with ``start`` may hand to Spark."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

from pipelines.own_query import start_own
from tests.support.elsewhere import printed_elsewhere
from tidemark.errors import UsageError
from tidemark.formats.contract import WatermarkPolicy

ARGUMENTS = Namespace(
    bootstrap="broker:9092", input=[("orders", "t-orders")], output="t-out", checkpoint="/none", trigger_ms=100,
    max_offsets=[("orders", "7")], conf=[], table="/table", kafka_conf="", kafka_setting=[],
)  # fmt: skip


def test_a_function_for_spark_may_use_io_where_tidemark_is_not_installed(tmp_path):
    def start(_session, io):
        def write(_batch, number):
            return number, io.bootstrap, io.source("orders")["subscribe"], io.trigger, io.table

        (tmp_path / "function").write_bytes(cloudpickle.dumps(write))

    contract = SimpleNamespace(name="pairs", policy=WatermarkPolicy.MIN)
    session = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))
    with pytest.raises(UsageError, match="returned NoneType"):
        start_own(session, SimpleNamespace(CONTRACT=contract, start=start), ARGUMENTS)

    printed, errors = printed_elsewhere(tmp_path / "function", "print(loaded(None, 3))")

    assert printed.strip() == (
        "(3, 'broker:9092', 't-orders', {'processingTime': '100 milliseconds'}, '/table')"
    ), errors
