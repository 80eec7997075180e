"""Whether each batch ran with the watermark that its input gives.

Free of I/O. One cause, one finding: a pipeline whose watermark is off is off in most batches, so the first
batch is named and the others are counted in the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.chain import Source
from tidemark.formats.contract import Side, WatermarkPolicy
from tidemark.formats.evidence import Batch
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.findings import Finding, FindingLog


def check_watermarks(
    plans: Sequence[Batch],
    predicted_ms: Sequence[int],
    inputs: Sequence[Side | Source],
    policy: WatermarkPolicy,
    finding_log: FindingLog,
) -> None:
    """Compare the watermarks in the checkpoint with the predicted ones, both in milliseconds and by batch."""
    pairs = list(zip(plans, predicted_ms, strict=False))
    wrong = [(plan, expected_ms) for plan, expected_ms in pairs if plan.watermark_ms != expected_ms]
    if not wrong:
        return
    first, expected_ms = wrong[0]
    delays = " and ".join(
        f"{one.watermark_delay_ms} ms on {one.topic}" for one in inputs if one.watermark_delay_ms is not None
    )
    message = (
        f"batch {first.batch} ran with the eviction watermark {moment(first.watermark_ms)}, but the input before it,"
        f" with delays of {delays} under the policy {policy}, gives {moment(expected_ms)};"
        f" {len(wrong)} of {len(plans)} batches differ, and rows are judged by the watermarks that the input gives"
    )
    finding_log.add(Finding(property="wrong_watermarks", message=message, batch=first.batch))
