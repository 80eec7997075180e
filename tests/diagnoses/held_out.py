"""Mutants that the diagnosis was made without: other changes, joins and seeds, each with the expected diagnosis.

They are recorded and scored as the others are, and counted separately. What is found out with them is not used to
change the diagnosis; new ones take the place of those that were.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.diagnoses.expected import Expected
from tests.mutants.in_pipelines import LOWER, UPPER
from tests.mutants.in_sinks import STAMPED
from tests.mutants.mutants import (
    CLICKS,
    IMPRESSIONS,
    NO_NULL_KEYS,
    NULL_KEYS,
    ON_EDGES,
    SENT_TWICE,
    Mutant,
)

PLACE = "held out"


@dataclass(frozen=True)
class HeldOut:
    """A mutant of one join, the seed of its trace, and what should be said of it."""

    join: str
    mutant: Mutant
    seed: int
    expected: Expected

    @property
    def generator(self) -> tuple[str, ...]:
        """Options of the generator."""
        return (*self.mutant.generator, "--seed", str(self.seed))


def _contract(*answers: str) -> Expected:
    return Expected("contract", answers)


LATE: tuple[str, ...] = ()
"""Some rows are late, and some lie on edges."""
WITHOUT_BATCH = """
def to_sink(records):
    from tidemark.sink.provenance import with_provenance
    return with_provenance(records).where("NOT exists(headers, h -> h.key = 'batch' AND CAST(h.value AS STRING) = '3')")
"""

HELD_OUT = {
    "impressions wait longer": HeldOut(
        "left_semi", Mutant({}, {IMPRESSIONS: IMPRESSIONS.replace("10", "35")}, generator=LATE), 101,
        _contract("left.watermark_delay_ms=35000"),
    ),
    "clicks wait longer": HeldOut(
        "inner", Mutant({}, {CLICKS: CLICKS.replace("20", "25")}), 102, _contract("right.watermark_delay_ms=25000"),
    ),
    "bound a quarter shorter": HeldOut(
        "left_semi", Mutant({}, {"INTERVAL 20 SECONDS": "INTERVAL 15 SECONDS"}, generator=LATE), 103,
        _contract("lower_ms=-15000"),
    ),
    "bound half as long again": HeldOut(
        "inner", Mutant({}, {"INTERVAL 20 SECONDS": "INTERVAL 30 SECONDS"}), 104, _contract("lower_ms=-30000"),
    ),
    "last millisecond excluded": HeldOut(
        "inner", Mutant({}, {UPPER: UPPER.replace("<=", "<")}, generator=ON_EDGES), 105, _contract("lower_strict"),
    ),
    "no lower time bound": HeldOut(
        "left_outer", Mutant({}, {f"{LOWER} AND": ""}), 106, _contract("upper_ms=None"),
    ),
    "ads not compared": HeldOut(
        "inner", Mutant({}, {" AND i.ad_id = c.ad_id": ""}), 107, _contract("keys without ad_id"),
    ),
    "inner instead of right outer": HeldOut(
        "right_outer", Mutant({}, {'"rightOuter"': '"inner"'}, generator=LATE), 108, _contract("kind=inner"),
    ),
    "right outer instead of full outer": HeldOut(
        "full_outer", Mutant({}, {'"fullOuter"': '"rightOuter"'}, generator=NO_NULL_KEYS), 109,
        _contract("kind=right_outer"),
    ),
    "full outer instead of left outer": HeldOut(
        "left_outer", Mutant({}, {'"leftOuter"': '"fullOuter"'}, generator=NO_NULL_KEYS), 110,
        _contract("kind=full_outer"),
    ),
    "clicks deduplicated": HeldOut(
        "inner",
        Mutant({}, {CLICKS: f'{CLICKS}.dropDuplicatesWithinWatermark(["click_id"])'}, generator=SENT_TWICE), 111,
        _contract("right deduplicated"),
    ),
    "impressions in another time zone": HeldOut(
        "left_outer",
        Mutant({}, {
            IMPRESSIONS: '.withColumn("impression_time",'
            f""" expr("from_utc_timestamp(impression_time, 'America/Bogota')")){IMPRESSIONS}"""
        }), 112, _contract("left times -5:00:00*"),
    ),
    "times cut to minutes": HeldOut(
        "inner",
        Mutant({}, {CLICKS: f""".withColumn("click_time", expr("date_trunc('MINUTE', click_time)")){CLICKS}"""}), 113,
        _contract("right times cut to minutes"),
    ),
    "every row three times": HeldOut(
        "left_outer",
        Mutant(
            {}, added=STAMPED.format("records.selectExpr('key', 'value', 'explode(array(1, 2, 3)) AS n').drop('n')"),
            generator=LATE,
        ), 114, Expected("delivery", ("doubled: all rows",)),
    ),
    "one batch left out": HeldOut(
        "left_outer", Mutant({}, added=WITHOUT_BATCH), 115, Expected("delivery", ("missing: batch",)),
    ),
    "offsets of clicks one too high": HeldOut(
        "inner",
        Mutant({}, after='.selectExpr("* EXCEPT (click_offset)", "click_offset + 1 AS click_offset")'), 116,
        _contract("one further right"),
    ),
    "impressions dropped by a hash": HeldOut(
        "inner", Mutant({}, {IMPRESSIONS: f'.where("hash(impression_id) % 7 != 0"){IMPRESSIONS}'}), 117,
        Expected("nothing", why="rows are chosen by the hash of an id"),
    ),
    "rows dropped by a hash": HeldOut(
        "left_outer", Mutant({}, added=STAMPED.format("records.where('hash(key) % 3 != 0')"), generator=LATE), 118,
        Expected("nothing", why="rows are chosen by the hash of a key"),
    ),
    "inner, and clicks wait longer": HeldOut(
        "left_outer", Mutant({}, {'"leftOuter"': '"inner"', CLICKS: CLICKS.replace("20", "40")}), 119,
        _contract("kind=inner + right.watermark_delay_ms=40000"),
    ),
    "shorter bound, and ads not compared": HeldOut(
        "inner", Mutant({}, {"INTERVAL 20 SECONDS": "INTERVAL 10 SECONDS", " AND i.ad_id = c.ad_id": ""}), 120,
        _contract("keys without ad_id + lower_ms=-10000"),
    ),
    "watermark of the faster side": HeldOut(
        "inner", Mutant({}, generator=LATE, conf=("spark.sql.streaming.multipleWatermarkPolicy=max",)), 121,
        _contract("policy=max"),
    ),
    "NULL users joined": HeldOut(
        "left_semi", Mutant({}, {"i.user_id = c.user_id": "i.user_id <=> c.user_id"}, generator=NULL_KEYS), 122,
        _contract("NULL keys joined"),
    ),
}  # fmt: skip
