"""Where the two oracles of a join disagree."""

from __future__ import annotations

from tests.support.either_oracle import everything
from tidemark.oracle.findings import FindingLog
from tidemark.oracle.input.history import History
from tidemark.oracle.oracle_comparison import OracleComparison
from tidemark.oracle.sql.join_answer import SqlAnswer, ask


def disagreements(history: History, answer: SqlAnswer | None = None) -> list[str]:
    """What the model and SQL say differently of a run."""
    finding_log = FindingLog()
    OracleComparison(history, answer or ask(history), everything(history), finding_log).run()
    return [finding.message for finding in finding_log.findings()]
