"""Preflight: compares the contract with the query's plan before a run, and warns of unsafe joins.

A difference does not stop a run: a pipeline that does not do what its contract says is judged by its contract. It is a
finding of the run (``plan_differs``), also where no row of the trace shows it.
"""

from __future__ import annotations

import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidemark.formats.chain import Chain, topics_of
from tidemark.formats.connect_url import with_parameters
from tidemark.formats.contract import Contract
from tidemark.formats.run_notes import NOT_COMPARED
from tidemark.preflight import (
    Advice,
    PlanComparison,
    UnreadablePlan,
    advise,
    advise_chain,
    compare,
    compare_chain,
    read_plan,
    read_steps,
)
from tidemark.runner.own_driver import must_take_jars, own_driver
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.runner.programs import Program
from tidemark.runner.run_options import Say
from tidemark.stack import Stack

PLAN_S = 120.0
"""Calibration: a program starts in 2 s, its plan takes another 0.3 s; a cold driver on a busy machine takes 20 s."""


@dataclass(frozen=True)
class PlanCheck:
    """The result of the preflight; ``plan`` is the text of the physical plan."""

    plan: str
    comparison: PlanComparison
    advice: tuple[Advice, ...]

    def notes(self) -> list[str]:
        """What is no difference, as notes for the manifest, one sentence each."""
        return [
            *(f"{NOT_COMPARED}{sentence}" for sentence in self.comparison.not_compared),
            *(f"unsafe join: {advice}" for advice in self.advice),
        ]

    def tell(self, say: Say) -> None:
        """Print a warning for each difference and each unsafe join."""
        for mismatch in self.comparison.mismatches:
            say(
                f"warning: the plan does not fit the contract: {mismatch.part}\n  contract: {mismatch.contract}\n"
                f"  plan:     {mismatch.plan}\n  hint:     {mismatch.hint}"
            )
        for advice in self.advice:
            say(f"warning: {advice.name}\n  why:      {advice.reason}\n  hint:     {advice.remedy}")


def check_plan(contract: Contract | Chain, plan: str, policy: str | None, spark_version: str) -> PlanCheck:
    """Compare a contract with the text of a plan; a plan that cannot be parsed is noted, and is no mismatch."""
    if isinstance(contract, Chain):
        return PlanCheck(
            plan, _compared_chain(contract, plan, policy), tuple(advise_chain(contract, spark_version))
        )
    try:
        read = read_plan(plan)
    except UnreadablePlan as error:
        return PlanCheck(
            plan, PlanComparison((), (f"anything: {error}",)), tuple(advise(contract, None, spark_version))
        )
    comparison = compare(contract, read, policy)
    return PlanCheck(plan, comparison, tuple(advise(contract, read, spark_version)))


def _compared_chain(chain: Chain, plan: str, policy: str | None) -> PlanComparison:
    try:
        return compare_chain(chain, read_steps(plan), read_plan(plan).columns, policy)
    except UnreadablePlan as error:
        return PlanComparison((), (f"anything: {error}",))


def check_pipeline_plan(
    pipeline: str | PipelineCode, contract: Contract | Chain, stack: Stack, *, conf: tuple[str, ...] = ()
) -> PlanCheck:
    """Get a pipeline's plan on a driver of a stack and check it; needs no topics and starts no query.

    Raises ``TidemarkError``: the pipeline cannot be built.
    """
    code = PipelineCode(pipeline) if isinstance(pipeline, str) else pipeline
    must_take_jars(stack, code)
    with ExitStack() as opened:
        if code.jars or code.packages:
            driver = opened.enter_context(own_driver(stack, f"plan-{uuid.uuid4().hex[:8]}", code))
        else:
            driver = stack.driver()
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        session_id = str(uuid.uuid4())
        opened.enter_context(stack.register_session(session_id, driver.name))
        arguments = [
            *code.arguments(),
            f"--remote={with_parameters(driver.remote, session_id=session_id)}",
            f"--bootstrap={stack.bootstrap_inside}",
            *(f"--input={topic}={topic}" for topic in topics_of(contract)),
            "--output=none", f"--checkpoint={folder}", "--wait", *(f"--conf={pair}" for pair in conf),
        ]  # fmt: skip
        program = opened.enter_context(Program(arguments, folder / "pipeline.log", python=code.python))
        answer = program.ask("plan", PLAN_S)
    return check_plan(contract, answer["plan"], answer["policy"], stack.versions.get("spark", ""))
