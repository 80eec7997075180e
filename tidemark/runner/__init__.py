"""A run: one join on a real stack, from its trace to its verdict.

``one_run.run`` is the entry point. It starts the client programs (pipeline, publisher), paces the trace, injects
faults, collects the evidence and calls the oracle. All of it runs in tidemark's own process, outside of Spark. It knows
the join only through the pipeline's contract. It may use the stack, Kafka, the checkpoint and the event log; it must
not import pipelines or PySpark, and it must not change the checkpoint.
"""

from tidemark.runner.one_run import RunResult, new_run_directory, run, run_pipeline
from tidemark.runner.pipeline_code import PipelineCode, describe
from tidemark.runner.plan_check import PlanCheck, check_pipeline_plan
from tidemark.runner.run_options import RunOptions

__all__ = [
    "PipelineCode",
    "PlanCheck",
    "RunOptions",
    "RunResult",
    "check_pipeline_plan",
    "describe",
    "new_run_directory",
    "run",
    "run_pipeline",
]
