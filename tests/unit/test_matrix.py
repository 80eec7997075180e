"""What a run of the matrix must show before its cell counts."""

from __future__ import annotations

import pytest

from tests.matrix.cells import Cell
from tests.matrix.running import become_of, refused
from tidemark.campaigns.state_stores import UNSUPPORTED
from tidemark.formats.contract import JoinKind
from tidemark.oracle import Verdict
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.findings import Finding

ROCKS = "RocksDBStateStoreProvider"
KNOWN = Finding(property="lost_rows", message="a row", defect="left-semi-loses-same-batch-rows")
UNKNOWN = Finding(property="lost_rows", message="another row")
OTHER_FORMAT = "the run asked for state format 3 and had 2"


def said(state, *, findings=(), inconclusive=(), **engine):
    given = {
        "format": 4,
        "provider": ROCKS,
        "changelog": False,
        "state_batches": [0, 3],
        "metric_batches": 4,
        **engine,
    }
    verdict = Verdict(
        verdict="INVALID" if findings else "UNKNOWN" if inconclusive else "VALID",
        findings=list(findings),
        inconclusive=list(inconclusive),
        delivery="at-least-once", pipeline="matrix", kind="inner", findings_total={}, unexplained_total={},
        defects_total={}, counts={}, goals={}, asked=[],
        known_defects={one.defect: "text" for one in findings if one.defect},
        spark_account=SparkAccount(**given),
    )  # fmt: skip
    return become_of(cell(state), verdict)


def cell(state):
    return Cell(JoinKind.INNER, "equal time", state, True)


def test_a_run_that_was_as_its_cell_says_and_was_compared_counts():
    assert said("RocksDB, 4") == ("VALID", "")
    assert said("RocksDB, 4, changelog", changelog=True) == ("VALID", "")
    assert said("HDFS, 2", format=2, provider="HDFSBackedStateStoreProvider", changelog=None) == ("VALID", "")
    assert said("RocksDB, 4", findings=[KNOWN]) == ("known defect", "left-semi-loses-same-batch-rows")


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({"format": 2}, "it ran with (2,"),
        ({"provider": "HDFSBackedStateStoreProvider"}, "it ran with (4, 'HDFS"),
        ({"changelog": True}, "it ran with (4,"),
        ({"state_batches": [3]}, "the state was compared after batches [3] only"),
        ({"metric_batches": 0}, "the metrics of no batch were compared"),
        ({"findings": [UNKNOWN]}, "another row"),
        ({"findings": [KNOWN, UNKNOWN]}, "another row"),
        ({"inconclusive": ["a coverage goal was not met"]}, "a coverage goal was not met"),
        ({"findings": [KNOWN], "inconclusive": ["a check raised"]}, "a check raised"),
    ],
)
def test_anything_else_has_failed(engine, why):
    become, reason = said("RocksDB, 4", **engine)

    assert become == "FAILED"
    assert why in reason


def test_only_what_is_known_to_be_unsupported_may_be():
    as_format_2 = {"format": 2, "provider": "HDFSBackedStateStoreProvider", "changelog": None}

    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT], **as_format_2) == ("unsupported", OTHER_FORMAT)
    assert said("HDFS, 3", **as_format_2)[0] == "FAILED"
    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT, "a check raised"], **as_format_2)[0] == "FAILED"
    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT], findings=[UNKNOWN], **as_format_2)[0] == "FAILED"
    assert said("RocksDB, 3", inconclusive=[OTHER_FORMAT], format=2)[0] == "FAILED"

    reason = f"{UNSUPPORTED['HDFS, 3']} The feature is not supported: column families"
    text = f"the query under test failed: {reason} SQLSTATE: 0A000\nand more"
    assert refused(cell("HDFS, 3"), text) == ("unsupported", reason)
    assert refused(cell("RocksDB, 3"), text)[0] == "FAILED"
    assert refused(cell("HDFS, 3"), "AnalysisException: there is no column k9")[0] == "FAILED"
