"""Redaction: evidence that can be shown to somebody else, with pseudonyms for ids and keys, and no other values.

``redacted_run`` makes a redacted run directory of another one, record by record. What becomes of the records of a join
is in ``join_redaction``, of those of a chain in ``chain_redaction``; ``value_codes`` has what stands for a value that a
contract compares, ``pseudonyms`` the hash, ``kept_facts`` what stays of manifest, headers, faults and reports of Spark.
``clear_evidence`` keeps the clear evidence of a command out of sight until it is redacted.

It may use the formats, and of the oracle how a contract compares values. It decides nothing about a run.
"""

from tidemark.redaction.clear_evidence import clear_evidence, judged_alike
from tidemark.redaction.pseudonyms import must_be_used
from tidemark.redaction.redacted_run import Redactor

__all__ = ["Redactor", "clear_evidence", "judged_alike", "must_be_used"]
