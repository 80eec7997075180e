"""Whether each batch ran with the watermark that its input gives.

Free of I/O. One cause, one finding: a pipeline whose watermark is off is off in most batches, so the first
batch is named and the others are counted in the sentence.
"""

from __future__ import annotations

from tidemark.oracle.compare.wording import moment
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import History
from tidemark.oracle.model.join_replay import Prediction


def check_watermarks(history: History, prediction: Prediction, finding_log: FindingLog) -> None:
    """Compare the watermarks in the checkpoint with the predicted ones."""
    wrong = [
        batch.plan
        for batch, expected_ms in zip(history.batches, prediction.watermarks_ms, strict=False)
        if batch.plan.watermark_ms != expected_ms
    ]
    if not wrong:
        return
    first = wrong[0]
    expected_ms = prediction.watermarks_ms[first.batch]
    contract = history.contract
    delays = " and ".join(
        f"{side.watermark_delay_ms} ms on {side.topic}" for side in (contract.left, contract.right)
    )
    message = (
        f"batch {first.batch} ran with the eviction watermark {moment(first.watermark_ms)}, but the input before it,"
        f" with delays of {delays} under the policy {contract.policy}, gives {moment(expected_ms)};"
        f" {len(wrong)} of {len(history.batches)} batches differ, and rows are judged by the watermarks that the"
        " input gives"
    )
    finding_log.add(Finding(property="wrong_watermarks", message=message, batch=first.batch))
