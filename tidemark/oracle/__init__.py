"""The judge: evidence in, verdict out.

Pure: no Spark, no Kafka client, no file, no clock. ``judge`` takes anything that answers the questions of
:class:`Evidence` (a ``tidemark.formats.evidence.RunDirectory`` does) and returns a :class:`Verdict`.

    history      what was written and which batch read it
    sql          what had to come out, in closed form, and what is right
    model        what Spark's rules give, row by row
    expectation  what SQL says, as a prediction; ``oracle_comparison`` compares it with the model
    compare      what was observed, compared row by row: output, state, metrics
    causes       what the wrong rows have in common, in a sentence
    coverage     what a run must have exercised before "nothing wrong" means anything
    verdict      all of it, put together
    audit        the same for a query that somebody else started
    chain        the same for what is more than one join, or none (``tidemark.formats.chain``)
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.chain import is_chain
from tidemark.oracle.audit_judgement import judge_audit
from tidemark.oracle.chain_judgement import judge_chain
from tidemark.oracle.findings import PROPERTIES, Finding
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.judgement import judge as judge_join
from tidemark.oracle.large.duckdb_engine import duckdb_engine
from tidemark.oracle.large.engine import OpenEngine
from tidemark.oracle.verdict import Verdict

__all__ = ["PROPERTIES", "Evidence", "Finding", "Verdict", "judge"]


def judge(run: Evidence, accept: Sequence[str] = (), *, engine: OpenEngine = duckdb_engine) -> Verdict:
    """Judge a run of a join, or of a chain; ``accept`` names known defects, besides those that the contract accepts.

    ``engine`` reduces a large run of one join; all others are judged without it. Raises ``TidemarkError``: for evidence
    that cannot be read, for a name in ``accept`` that is no known defect, and for what the engine lacks.
    """
    manifest = run.manifest
    if manifest.audit is not None:
        return judge_audit(run, accept)
    if is_chain(manifest.contract):
        return judge_chain(run, accept)
    return judge_join(run, accept, engine=engine)
