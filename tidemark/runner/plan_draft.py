"""A contract drafted from the plan of a pipeline that has none yet, or of a query that ran, or that was printed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.preflight import ContractDraft, PlanSource, UnreadablePlan, draft_contract, read_plan
from tidemark.runner.pipeline_code import PipelineCode, answer_on
from tidemark.sparkfiles.event_plans import PLAN_HEADING, chosen_query, logged_queries
from tidemark.sparkfiles.log_lines import is_event_log
from tidemark.stack import Stack

SIDES = ("left", "right")
"""The sides of a join, whose names their topics have until somebody says them."""


def draft_of_file(path: Path, query: str | None = None) -> ContractDraft:
    """The draft of a query in Spark's event log (``query``: its id or name), or of a plan that ``explain()`` printed.

    Raises ``UsageError``.
    """
    if is_event_log(path):
        return _draft_of_event_log(path, query)
    if query is not None:
        raise UsageError(
            f"{str(path)!r} is no event log of Spark, and --query {query!r} asks for a query of one",
            hint="leave it out, or name the file or the folder of an event log (spark.eventLog.dir)",
        )
    return _draft_of_text(path)


def _draft_of_event_log(path: Path, query: str | None) -> ContractDraft:
    found = chosen_query(logged_queries(path), query)
    known = found.topics if len({*found.topics}) == len(found.topics) == len(SIDES) else [None] * len(SIDES)
    topics = [topic or side for topic, side in zip(known, SIDES, strict=True)]
    source = PlanSource(topics, policy=found.policy, are_sides=True)
    draft = _drafted(found.plan, _name_of(found.name or "query"), source)
    return _asking_for_topics(
        draft, [side for topic, side in zip(known, SIDES, strict=True) if topic is None]
    )


def _draft_of_text(path: Path) -> ContractDraft:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the plan {str(path)!r} cannot be read", detail=str(error), hint="give a file with what explain() printed"
        ) from error  # fmt: skip
    if PLAN_HEADING not in text:
        raise UsageError(
            f"{str(path)!r} has no plan", detail=f"there is no line {PLAN_HEADING!r} in it",
            hint="write there what explain() prints of the streaming query's data frame",
        )  # fmt: skip
    return _asking_for_topics(_drafted(text, _name_of(path.stem), PlanSource(SIDES)), SIDES)


def _asking_for_topics(draft: ContractDraft, sides: Iterable[str]) -> ContractDraft:
    """A draft with a question for the topic of each of these sides, which nothing names."""
    for side in sides:
        draft.ask(f"{side}.topic", "the plan does not name the topic: which one is it?")
    return draft


def draft_of_function(code: PipelineCode, stack: Stack) -> ContractDraft:
    """The draft of a function of a file or a module, of which a driver of the stack makes the plan."""
    answer = answer_on(stack, code, "--draft")
    name = re.sub(r"\.py(:|$)", r"\1", code.pipeline).removesuffix(":build").replace(":", "_")
    return _drafted(answer["plan"], _name_of(name), PlanSource(answer["topics"], answer["columns"]))


def _name_of(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", Path(text).name).strip("_") or "pipeline"


def _drafted(text: str, name: str, source: PlanSource) -> ContractDraft:
    try:
        return draft_contract(read_plan(text), name, source)
    except UnreadablePlan as error:
        raise UsageError(
            "no contract can be drafted from the plan", detail=str(error),
            hint="write the contract by hand: docs/howto/test-my-join.md; more than one join: docs/howto/add-a-join.md",
        ) from error  # fmt: skip
