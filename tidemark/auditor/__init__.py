"""An audit, top to bottom: a query that tidemark did not start, from checkpoint and topics to evidence and a verdict.

In it: the options (``audit_options``), the batches that can be judged (``audited_batches``), records read from topics
(``audited_topics``), offsets without a record (``offset_gaps``), the output (``audited_outputs``: a topic, or a table),
the state before a trimmed log (``state_before``), and the audit itself (``one_audit``). It may use Kafka's client, the
readers of Spark's files, the oracle and the formats; of the stack only what finds Java. It reads and never writes, but
for the run directory: no consumer group is joined, no offset committed, nothing made or changed in the cluster, and no
file of the checkpoint opened for writing.
"""

from __future__ import annotations

from tidemark.auditor.audit_options import AuditOptions
from tidemark.auditor.one_audit import AuditResult, run_audit

__all__ = ["AuditOptions", "AuditResult", "run_audit"]
