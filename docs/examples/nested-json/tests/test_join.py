"""The joins as they run in production, on a real Kafka and a real Spark: every row of their output is judged."""

from pathlib import Path

import pytest
from traffic import write_trace

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def traffic(tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("traffic") / "traffic.jsonl")


def test_every_order_has_its_payments(run_pipeline, traffic):
    run_pipeline(HERE / "paid_orders.py", trace=traffic).assert_valid()


def test_a_killed_driver_loses_and_doubles_nothing(run_pipeline, traffic):
    run_pipeline(HERE / "paid_orders.py", trace=traffic, faults="driver@planned").assert_valid()


def test_each_notice_of_a_payment_comes_once(run_pipeline, traffic):
    run_pipeline(HERE / "payment_notices.py", trace=traffic).assert_valid()
