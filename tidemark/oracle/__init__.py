"""The judge: evidence in, verdict out.

Pure: no Spark, no Kafka client, no file, no clock. ``judge`` takes anything that answers the questions of
:class:`Evidence` (a ``tidemark.formats.evidence.RunDirectory`` does) and returns a :class:`Verdict`.

    history      what was written and which batch read it
    model        what Spark's rules give
    sql          what SQL gives
    compare      what was observed, compared row by row: output, state, metrics
    coverage     what a run must have exercised before "nothing wrong" means anything
    verdict      all of it, put together
    chain        the same for what is more than one join, or none (``tidemark.formats.chain``)
"""

from __future__ import annotations

from tidemark.formats.chain import is_chain
from tidemark.oracle.chain_judgement import judge_chain
from tidemark.oracle.findings import PROPERTIES, Finding
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.judgement import Verdict
from tidemark.oracle.judgement import judge as judge_join

__all__ = ["PROPERTIES", "Evidence", "Finding", "Verdict", "judge"]


def judge(run: Evidence) -> Verdict:
    """Judge a run of a join, or of a chain. Raises ``TidemarkError``, and only for evidence that cannot be read."""
    return judge_chain(run) if is_chain(run.manifest.contract) else judge_join(run)
