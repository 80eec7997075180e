"""Which Spark ran a batch, where a query went on under another Spark (``AuditedQuery.sparks``): an upgrade.

Free of everything. The rules and the known defects of a Spark are those of its batches. A batch that one Spark began
and another ran again is of both: rows of either may be in the output, and what is committed is the second's.
"""

from __future__ import annotations

from tidemark.formats.manifest import Manifest
from tidemark.oracle.spark.known_defects import has_defect
from tidemark.oracle.spark.spark_versions import rules_of_spark

Batches = tuple[tuple[int, int], ...]
"""The first and the last batch of each range."""


def sparks_of(manifest: Manifest, batch: int | None) -> list[str]:
    """The Sparks that ran a batch, first to last; of no batch in particular: all. Empty text: it is not said."""
    spans = manifest.audit.sparks if manifest.audit is not None else []
    if not spans:
        return [manifest.versions.get("spark", "")]
    return [span.spark for span in spans if batch is None or span.first <= batch <= span.last]


def any_has_defect(manifest: Manifest, name: str, batch: int | None = None) -> bool:
    """Whether a Spark that ran a batch (``None``: any batch) has the known defect of that name."""
    return any(has_defect({"spark": spark}, name) for spark in sparks_of(manifest, batch))


def takes_right_first(manifest: Manifest) -> tuple[bool, Batches]:
    """Whether a left semi join takes the right rows of a batch first, and in which batches it takes the left ones."""
    spans = manifest.audit.sparks if manifest.audit is not None else []
    if not spans:
        return rules_of_spark(manifest.versions).semi_right_first, ()
    left_first = []
    for at, span in enumerate(spans):
        if not rules_of_spark({"spark": span.spark}).semi_right_first:
            after = min((other.first for other in spans[at + 1 :]), default=span.last + 1)
            left_first.append((span.first, min(span.last, after - 1)))
    return True, tuple(left_first)
