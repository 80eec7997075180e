"""A contract drafted from the plan of a pipeline that has none yet, or from a plan that was printed."""

from __future__ import annotations

import re
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.preflight import ContractDraft, UnreadablePlan, draft_contract, read_plan
from tidemark.runner.pipeline_code import PipelineCode, answer_on
from tidemark.stack import Stack

_PRINTED = "== Physical Plan =="
TOPICS = ("left", "right")
"""Topics of a plan, which does not name them."""


def draft_of_text(path: Path) -> ContractDraft:
    """The draft of a plan that ``DataFrame.explain()`` printed into a file; raises ``UsageError``."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the plan {str(path)!r} cannot be read", detail=str(error), hint="give a file with what explain() printed"
        ) from error  # fmt: skip
    if _PRINTED not in text:
        raise UsageError(
            f"{str(path)!r} has no plan", detail=f"there is no line {_PRINTED!r} in it",
            hint="write there what explain() prints of the streaming query's data frame",
        )  # fmt: skip
    return _drafted(text, _name_of(path.stem), TOPICS, ())


def draft_of_function(code: PipelineCode, stack: Stack) -> ContractDraft:
    """The draft of a function of a file or a module, of which a driver of the stack makes the plan."""
    answer = answer_on(stack, code, "--draft")
    name = re.sub(r"\.py(:|$)", r"\1", code.pipeline).removesuffix(":build").replace(":", "_")
    return _drafted(answer["plan"], _name_of(name), answer["topics"], answer["columns"])


def _name_of(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", Path(text).name).strip("_") or "pipeline"


def _drafted(
    text: str, name: str, topics: list[str] | tuple[str, ...], columns: list[str] | tuple[str, ...]
) -> ContractDraft:
    try:
        return draft_contract(read_plan(text), name, topics, columns)
    except UnreadablePlan as error:
        raise UsageError(
            "no contract can be drafted from the plan", detail=str(error),
            hint="write the contract by hand: docs/howto/test-my-join.md; more than one join: docs/howto/add-a-join.md",
        ) from error  # fmt: skip
