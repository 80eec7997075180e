"""Pipelines broken on purpose: each must be caught, on a real stack, by the property named here.

A saboteur is a bundled pipeline with one thing changed, so that what is wrong with it can be read off.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.sabotage]

IMPRESSIONS = 'shown.withWatermark("impression_time", "10 seconds")'
CLICKS = 'clicked.withWatermark("click_time", "20 seconds")'


class Saboteur(NamedTuple):
    pipeline: str
    changes: dict[str, str]
    caught_as: str
    added: str = ""
    generator: tuple[str, ...] = ()
    drivers_killed: int = 0


SABOTEURS = {
    "watermark delay cut short": Saboteur(
        "left_outer", {IMPRESSIONS: IMPRESSIONS.replace("10", "1")}, "wrong_watermarks"
    ),
    "watermarks left out of inner": Saboteur("inner", {IMPRESSIONS: "shown", CLICKS: "clicked"}, "late_rows_joined"),
    "time bound half as long": Saboteur(
        "left_outer", {"INTERVAL 20 SECONDS": "INTERVAL 10 SECONDS"}, "nulls_for_matched_rows"
    ),
    "no upper time bound": Saboteur(
        "inner", {"AND\n                c.click_time <= i.impression_time + INTERVAL 20 SECONDS": ""}, "phantom_rows"
    ),
    "inner instead of outer": Saboteur("left_outer", {'"leftOuter"': '"inner"'}, "missing_nulls"),
    "inner instead of semi": Saboteur("left_semi", {'"leftSemi"': '"inner"'}, "repeated_semi_rows"),
    "deduplicated before the join": Saboteur(
        "inner", {IMPRESSIONS: f'{IMPRESSIONS}.dropDuplicatesWithinWatermark(["impression_id"])'}, "lost_rows"
    ),
    "NULL keys joined": Saboteur(
        "inner", {"i.user_id = c.user_id": "i.user_id <=> c.user_id"}, "phantom_rows",
        generator=("--null-keys", "0.3"),
    ),
    "time of arrival instead of event time": Saboteur(
        "left_outer",
        {
            '"impression_time")\n    clicked': (
                '"impression_time").selectExpr("* EXCEPT (impression_time)", '
                '"current_timestamp() AS impression_time")\n    clicked'
            )
        },
        "wrong_watermarks",
    ),
    "sink that drops": Saboteur(
        "inner", {}, "lost_rows", "def to_sink(records):\n"
        "    from tidemark.sink.provenance import with_provenance\n"
        "    return with_provenance(records.where('hash(value) % 10 != 0'))\n",
    ),
    "sink that doubles": Saboteur(
        "left_outer", {}, "duplicate_rows", "def to_sink(records):\n"
        "    from tidemark.sink.provenance import with_provenance\n"
        "    return with_provenance(records.selectExpr('key', 'value', 'explode(array(1, 2)) AS n').drop('n'))\n",
    ),
    "sink that takes its ledger for a batch older": Saboteur(
        "left_outer", {}, "duplicate_rows", "import dataclasses, tidemark.sink.transaction as transaction\n"
        "look_up = transaction.look_up\n"
        "def misread(*args, **how):\n"
        "    entry = look_up(*args, **how)\n"
        "    return entry and dataclasses.replace(entry, next_batch=entry.next_batch - 1)\n"
        "transaction.look_up = misread\n",
        drivers_killed=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SABOTEURS)
def test_a_saboteur_is_caught_by_name(name, run_pipeline, tmp_path):
    saboteur = SABOTEURS[name]
    source = (ROOT / "pipelines" / f"{saboteur.pipeline}.py").read_text()
    for old, new in saboteur.changes.items():
        assert source.count(old) == 1, (
            f"{saboteur.pipeline}.py no longer has {old!r} once: mend this saboteur"
        )
        source = source.replace(old, new)
    broken = tmp_path / "saboteur.py"
    broken.write_text(f"{source}\n\n{saboteur.added}")

    options = {"generator": saboteur.generator, "kill_drivers": saboteur.drivers_killed}
    verdict = run_pipeline(broken, impressions=400, seed=11, **options).verdict

    assert verdict.verdict == "INVALID", verdict
    assert saboteur.caught_as in verdict.findings_total, verdict.findings_total
