"""A run: one join on a real stack, from its trace to its verdict.

``run`` is the whole story, top to bottom. It starts the programs, paces the trace, injects the faults, collects the
evidence and has it judged; everything it knows of the join it has from the pipeline's contract.
"""

from tidemark.runner.one_run import RunResult, describe, new_run_directory, run, run_pipeline
from tidemark.runner.plan_check import PlanCheck, check_pipeline_plan
from tidemark.runner.run_options import RunOptions

__all__ = [
    "PlanCheck",
    "RunOptions",
    "RunResult",
    "check_pipeline_plan",
    "describe",
    "new_run_directory",
    "run",
    "run_pipeline",
]
