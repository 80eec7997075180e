"""Which other contract, or which delivery, would make a red run right: the judge is asked again.

Free of Spark, Kafka and files. ``diagnose`` takes evidence, its verdict and a clock, and returns a :class:`Diagnosis`.

    setting           a query to ask about: a contract, the rules of a Spark, what is done to rows; a change of one
    contract_changes  what may be another in it, without a number from the evidence
    fitted_changes    bounds, delays and clocks that the evidence names
    deliveries        rows of a task, batch, partition, executor, key or time range, missing or doubled
    observed          what came out, as rows that can be compared
    asking            what a setting gives, and how that differs from what came
    search            one change, then two; what explains everything, and what explains it as well
    end_of_run        the diagnosis that a red run has by itself

The answer, as data and in sentences, is ``formats.run_diagnosis``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.diagnosis.search import diagnose_join, of_defects
from tidemark.formats.chain import is_chain
from tidemark.formats.run_diagnosis import Diagnosis, Explanation
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.verdict import Verdict

__all__ = ["LARGEST", "Diagnosis", "Explanation", "diagnose"]

LARGEST = 300_000
"""Of more input records nothing is asked: reading them again takes longer than any answer may."""

_OF_AUDIT = (
    "an audit is not diagnosed: rows of it may be undetermined, and under another contract others are, so that no"
    " answer would be exact"
)
_OF_CHAIN = (
    "a chain is not diagnosed but for known defects: a change of one step changes the input of the next, and only"
    " single joins are asked about"
)


def diagnose(run: Evidence, verdict: Verdict, is_over: Callable[[], bool] = lambda: False) -> Diagnosis:
    """Say what explains the findings of a run. ``is_over`` tells whether the time for it is over.

    Raises ``TidemarkError`` for evidence that cannot be read.
    """
    manifest = run.manifest
    if not verdict.findings_total:
        return Diagnosis(outcome="nothing wrong")
    if verdict.defects_total and not verdict.unexplained_total:
        return of_defects(verdict, manifest.versions.get("spark"))
    if manifest.audit is not None:
        return Diagnosis(outcome="not asked", notes=[_OF_AUDIT])
    if is_chain(manifest.contract):
        return Diagnosis(outcome="not asked", notes=[_OF_CHAIN])
    return diagnose_join(run, verdict, is_over)
