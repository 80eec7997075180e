"""Before a run: what Spark's plan says of a join, where the contract says otherwise, and where the join is unsafe.

Free of I/O. ``read_plan`` reads the text that ``DataFrame.explain()`` prints of a streaming query; ``compare`` holds
it against the contract; ``advise`` warns where Spark accepts a join whose state is never removed or whose NULL row can
be wrong. What cannot be read is *not compared*, with the reason; it is never an alarm. ``changes_of_contract`` says
what becomes of a query that goes on, from its checkpoint, with another contract.
"""

from __future__ import annotations

from tidemark.preflight.chain_advice import advise_chain
from tidemark.preflight.chain_plan import compare_chain
from tidemark.preflight.contract_draft import ContractDraft, PlanSource, draft_contract
from tidemark.preflight.draft_text import draft_text
from tidemark.preflight.join_lints import Advice, advise
from tidemark.preflight.physical_plan import (
    JoinPlan,
    QueryPlan,
    SidePlan,
    UnreadablePlan,
    read_plan,
    read_steps,
)
from tidemark.preflight.plan_comparison import Mismatch, PlanComparison, compare
from tidemark.preflight.restart_changes import (
    Effect,
    RestartChange,
    changes_of_contract,
    changes_of_settings,
)

__all__ = [
    "Advice",
    "ContractDraft",
    "Effect",
    "JoinPlan",
    "Mismatch",
    "PlanComparison",
    "PlanSource",
    "QueryPlan",
    "RestartChange",
    "SidePlan",
    "UnreadablePlan",
    "advise",
    "advise_chain",
    "changes_of_contract",
    "changes_of_settings",
    "compare",
    "compare_chain",
    "draft_contract",
    "draft_text",
    "read_plan",
    "read_steps",
]
