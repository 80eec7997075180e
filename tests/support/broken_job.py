"""The example ``docs/examples/avro-job``: its jars, and its mistakes (``broken_examples``).

A plan says kind, delays and bound; what records in Avro are it does not say, so other mistakes are told by the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.delta import delta_jars
from tests.support.example_repository import Break, Example
from tidemark.stack.install.packages import resolve_packages
from tidemark.stack.install.toolchain import find_java, find_spark

AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
JOB = (
    "tests/charged_trips.py --registry --trace runs/traffic.jsonl --app 'python -m fleet.job --brokers {bootstrap}"
    " --trips {topic:trips} --charges {topic:charges} --table {table} --checkpoint {checkpoint}'"
)
JOIN, RECORDS = "fleet/charged_trips.py", "fleet/records.py"


def jars() -> dict[str, str]:
    """The variable that the job reads."""
    java, spark = find_java(), find_spark(Path(sys.executable))
    found = [
        *delta_jars(),
        *resolve_packages(java, spark, [AVRO]),
    ]
    return {"FLEET_JARS": ",".join(map(str, found))}


AVRO_JOB = Example(
    "avro-job",
    ("tests/traffic.py", "runs/traffic.jsonl"),
    {
        "a bound a second shorter": Break(
            JOIN,
            (("INTERVAL 10 MINUTES", "INTERVAL 599 SECONDS"),),
            JOB,
            ("differ in bound", "contract says -600000 ms <=", "plan says -599000 ms <="),
        ),
        "a strict end of the bound": Break(
            JOIN,
            (("charged_at <= ended_at", "charged_at < ended_at"),),
            JOB,
            ("differ in bound", "contract says -600000 ms <=", "plan says -600000 ms <"),
        ),
        "a shorter delay": Break(
            RECORDS,
            (('CHARGES_LATE = "3 minutes"', 'CHARGES_LATE = "30 seconds"'),),
            JOB,
            ("differ in watermark of charges", "contract says 180000 ms", "plan says 30000 ms (30 seconds)"),
        ),
        "an inner join": Break(
            JOIN,
            (('"leftOuter"', '"inner"'),),
            JOB,
            ("differ in kind", "contract says left_outer", "plan says Inner"),
        ),
        "a filter before the join left out": Break(
            JOIN,
            ((".where(\"kind <> 'TEST'\")", ""),),
            JOB,
            ("in all", "trips.kind = 'TEST'"),
        ),
        "a filter of the other side left out": Break(
            JOIN,
            ((".where(\"state = 'CAPTURED'\")", ""),),
            JOB,
            ("in all", "charges.state = 'FAILED'"),
        ),
        "a filter after the join left out": Break(
            JOIN,
            ((".where(\"city <> 'demo'\")", ""),),
            JOB,
            ("in all", "trips.rider.city = 'demo'"),
        ),
        "rows that are made twice": Break(
            JOIN,
            (
                (
                    'joined.select("trip_id",',
                    'joined.select(explode(expr("array(trip_id, trip_id)")).alias("trip_id"),',
                ),
                ("import expr", "import explode, expr"),
            ),
            JOB,
            ("rows came once more", "in all", "its batch, which ran once, wrote it more than once"),
        ),
        "a similar field as key": Break(
            JOIN,
            (("passenger = rider", "passenger = card_holder"),),
            JOB,
            ("in all", "card_holder"),
        ),
        "seconds for milliseconds": Break(
            RECORDS,
            (
                ('timestamp_millis("ended_at")', 'timestamp_seconds("ended_at")'),
                ("expr, timestamp_millis", "expr, timestamp_seconds"),
            ),
            JOB,
            ("watermark is that of charges alone", "trips does not hold it back", "or reads later times"),
        ),
        "sides swapped in the bound": Break(
            JOIN,
            (
                ("charged_at >= ended_at", "ended_at >= charged_at"),
                ("charged_at <= ended_at +", "ended_at <= charged_at +"),
            ),
            JOB,
            ("differ in bound", "contract says -600000 ms <=", "plan says 0 ms <=", "<= 600000 ms"),
        ),
        "a function that throws": Break(
            "fleet/cities.py",
            (("city.strip()", 'city["name"].strip()'),),
            JOB,
            ("error: the job ended:", "TypeError: string indices must be integers"),
            fails=True,
        ),
    },
    registry=True,
    variables=jars,
)  # fmt: skip
