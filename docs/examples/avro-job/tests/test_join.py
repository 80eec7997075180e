"""The job as it runs in production, on a real Kafka, Spark and schema registry: every row of its table is judged."""

from pathlib import Path

import pytest
from traffic import write_trace

CONTRACT = str(Path(__file__).parent / "charged_trips.py")
JOB = (
    "python -m fleet.job --brokers {bootstrap} --trips {topic:trips} --charges {topic:charges}"
    " --table {table} --checkpoint {checkpoint}"
)


@pytest.fixture(scope="session")
def traffic(stack, tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("traffic") / "traffic.jsonl", stack.start_registry())


def test_every_trip_has_its_charges(run_pipeline, traffic):
    run_pipeline(CONTRACT, app=JOB, trace=traffic, registry=True).assert_valid()


def test_a_killed_driver_loses_and_doubles_nothing(run_pipeline, traffic):
    run_pipeline(CONTRACT, app=JOB, trace=traffic, registry=True, faults="driver@planned").assert_valid()
