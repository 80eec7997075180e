"""The diagnosis that an ``INVALID`` run has by itself: within some seconds, and never in the way of the verdict.

Free of Spark and Kafka. It changes neither verdict nor exit code; one that fails is a warning.
"""

from __future__ import annotations

import sys
import time

import msgspec

from tidemark.diagnosis import diagnose
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.input_offsets import records_in
from tidemark.formats.run_diagnosis import Diagnosis
from tidemark.oracle.demand_check import OF_TIME
from tidemark.oracle.verdict import Verdict

BUDGET_S = 5.0
"""How long it may take."""
LARGEST_AT_END = 50_000
"""Of a run with more input records nothing is asked by itself. Calibration: to read so many again takes a second."""


def add_diagnosis(directory: RunDirectory, verdict: Verdict, *, is_wanted: bool = True) -> None:
    """Give an ``INVALID`` verdict its diagnosis, in place. Raises nothing but what ends a program."""
    verdict.diagnosis = msgspec.UNSET
    if not is_wanted or verdict.verdict != "INVALID" or verdict.audit is not msgspec.UNSET:
        return
    if verdict.findings_total.keys() <= set(OF_TIME):
        return  # no contract makes a query faster
    end = time.monotonic() + BUDGET_S
    try:
        records = records_in(directory.manifest.inputs)
        if records > LARGEST_AT_END:
            note = (
                f"a run of {records:,} input records (more than {LARGEST_AT_END:,}) is not diagnosed by itself:"
                f" `tidemark diagnose {directory.path}` does it"
            )
            verdict.diagnosis = Diagnosis(outcome="not asked", notes=[note])
        else:
            verdict.diagnosis = diagnose(directory, verdict, lambda: time.monotonic() > end)
    except Exception as error:  # noqa: BLE001 (a diagnosis that fails must not cost the verdict)
        print(
            f"warning: no diagnosis of {directory.path}: {type(error).__name__}: {error}; the verdict stands",
            file=sys.stderr,
        )
