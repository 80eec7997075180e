"""The judgement of a query that tidemark did not start, in pieces; ``oracle.audit_judgement`` puts them together.

In it: which input rows are known to have been accepted (``audited_history``), which output rows are then certain,
possible or wrong (``certainty``), the output compared with them (``audited_output``), and restarts that explain a
watermark (``restart_inference``). It uses the SQL oracle and the words of ``compare``. It does no I/O, knows no Kafka
and no checkpoint, and never takes a row for wrong that could be right under what was trimmed or deleted.
"""
