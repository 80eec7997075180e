"""The red runs that the campaign makes smaller, each with what it must become and what repairs it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipelines.pipeline_loader import load
from tests.mutants.in_pipelines import PIPELINE
from tests.mutants.mutants import PIPELINES, Mutant
from tests.support.bundled import case_of, make_trace
from tidemark import paths
from tidemark.campaigns.case import Case
from tidemark.campaigns.chain_inputs import inputs_of_chain
from tidemark.campaigns.random_cases import generate
from tidemark.campaigns.shrink.red_run import RedRun, read_red_run, red_run_of_case
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.errors import UsageError
from tidemark.formats.chain import Chain
from tidemark.formats.events import write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Record
from tidemark.oracle import Verdict
from tidemark.oracle.spark.known_defects import DEFECTS, DefectCase
from tidemark.runner import RunOptions, run_pipeline
from tidemark.stack import Stack

PADDING = 500
SEEDS = {
    38: "condition-bounds-the-state",
    112: "full-outer-joins-null-keys",
    170: "format-4-misses-rows",
    211: "left-semi-loses-same-batch-rows",
}
"""The first seed of the fuzz that shows each known defect, by Spark's rules."""
BUDGET_S = 150.0
"""Besides it, the last runs have to fit into three minutes."""
LARGE_IMPRESSIONS = 62_500
"""About 100,000 rows."""
LARGE_BUDGET_S = 420.0
"""Besides it, the first run and the last five have to fit into ten minutes."""
FAULTS = (
    "driver@written,driver@planned,executor@planned*4,executor:pause@planned*3,driver:pause@planned*2,"
    "worker@planned,broker:pause@planned"
)
"""The one that makes Spark's own sink write rows twice, and twelve others."""

CHAIN = {
    "time bound of a chain half as long": Mutant(
        {"clicked_per_window": "lost_rows"}, {"INTERVAL 20 SECONDS": "INTERVAL 10 SECONDS"}
    ),
}
"""Mutants of chains."""


@dataclass(frozen=True)
class ShrunkItem:
    """``make`` runs it below a folder, and reads it as a red run, which must become at most so many ``rows`` and
    ``faults`` in so many ``seconds``. ``repair`` changes the folder that came of it so that its test is green.
    """

    name: str
    make: Callable[[Stack, Path], RedRun]
    rows: int
    seconds: float
    budget_s: float = BUDGET_S
    faults: int = 0
    repair: Callable[[Path], None] | None = None


def items(spark: str) -> Iterator[ShrunkItem]:
    """All of them."""
    semi = ("--seed", "5", "--impressions", "750")
    yield ShrunkItem("left_semi, seed 5, 750 impressions", partial(_left_semi, semi), 4, 90)
    yield ShrunkItem(
        "spark's own sink under 13 faults", _under_faults, 10, 1_800, 900.0, 1, partial(_sink, "exactly-once")
    )
    large = ("--seed", "77", "--impressions", str(LARGE_IMPRESSIONS))
    yield ShrunkItem("left_semi, 100,000 rows", partial(_left_semi, large), 6, 600, LARGE_BUDGET_S)
    join, cut_short = "left_outer", PIPELINE["watermark delay cut short"]
    cut_short = replace(
        cut_short, pace="backlog", generator=("--seed", "78", "--impressions", str(LARGE_IMPRESSIONS))
    )
    yield ShrunkItem(
        f"mutant of {join}, 100,000 rows: watermark delay cut short",
        partial(_mutant, cut_short, join, cut_short.killed[join]), 8, 600, LARGE_BUDGET_S,
        repair=partial(_repaired, join),
    )  # fmt: skip
    for defect in DEFECTS:
        for one in defect.cases:
            file = paths.spark_bugs_dir() / one.pipeline
            if one.control or not defect.affects(spark) or isinstance(load(str(file)).CONTRACT, Chain):
                continue
            yield ShrunkItem(f"{one.name}, padded", partial(_padded, one, defect.name), 6, 180)
    affected = {defect.name for defect in DEFECTS if defect.affects(spark)}
    for seed, name in SEEDS.items():
        if name in affected:
            yield ShrunkItem(f"fuzz, seed {seed}: {name}", partial(_of_seed, seed, name), 6, 180)
    for name, mutant in {**PIPELINE, **CHAIN}.items():
        join, property_name = next(iter(mutant.killed.items()))
        yield ShrunkItem(
            f"mutant of {join}: {name}", partial(_mutant, mutant, join, property_name), 8, 180,
            repair=partial(_repaired, join),
        )  # fmt: skip


def _left_semi(generator: tuple[str, ...], stack: Stack, folder: Path) -> RedRun:
    trace = make_trace(folder / "trace.jsonl", generator, pace="backlog")
    return _red(stack, case_of("left_semi", trace), folder, DEFECTS[0].name)


def _padded(one: DefectCase, defect: str, stack: Stack, folder: Path) -> RedRun:
    file, trace = paths.spark_bugs_dir() / one.pipeline, paths.spark_bugs_dir() / one.trace
    return _red(stack, padded(case_of(file, trace, sink="spark", conf=one.conf)), folder, defect)


def _of_seed(seed: int, defect: str, stack: Stack, folder: Path) -> RedRun:
    return _red(stack, generate(seed), folder, defect)


def _mutant(mutant: Mutant, join: str, property_name: str, stack: Stack, folder: Path) -> RedRun:
    broken = folder / "mutant.py"
    broken.write_text(mutant.source(join), encoding="utf-8")
    trace = make_trace(folder / "trace.jsonl", mutant.generator, pace=mutant.pace)
    case = case_of(broken, trace, sink=mutant.sink, conf=mutant.conf)
    if isinstance(case.contract, Chain):
        case = replace(case, contract=inputs_of_chain(case.contract), states=0)
    return _red(stack, case, folder, None, property_name)


def _under_faults(stack: Stack, folder: Path) -> RedRun:
    """The inner join, which promises exactly-once, with a sink that does not."""
    run_dir = folder / "first"
    options = RunOptions(
        str(promised(folder)),
        seed=7,
        impressions=5_000,
        faults=FAULTS,
        sink="spark",
        run_dir=run_dir,
        diagnosis=False,
    )
    run_pipeline(options, stack=stack)
    return read_red_run(run_dir)


def promised(folder: Path) -> Path:
    """A pipeline file: the bundled inner join with a contract that promises exactly-once, whatever its sink."""
    text = (PIPELINES / "inner.py").read_text(encoding="utf-8")
    text = text.replace("import Bound, ", "import Bound, Delivery, ")
    text = text.replace('    name="inner",\n', '    name="inner",\n    delivery=Delivery.EXACTLY_ONCE,\n')
    pipeline = folder / "promised.py"
    pipeline.write_text(text, encoding="utf-8")
    return pipeline


def _red(
    stack: Stack, case: Case, folder: Path, defect: str | None, property_name: str | None = None
) -> RedRun:
    """The run of a case, and its first finding of a defect or a property. Raises ``TidemarkError`` if there is none."""
    first, logs = folder / "first", folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with WarmDriver(stack, stack.driver(), logs) as warm:
        verdict: Verdict = warm.run(warm.as_possible(case), first)
    for number, one in enumerate(verdict.findings, 1):
        if one.defect == defect and property_name in (None, one.property):
            return red_run_of_case(RunDirectory(first), case, number)
    wanted = f"{property_name or 'a finding'} of {defect or 'no known defect'}"
    raise UsageError(
        f"the run in {str(first)!r} is {verdict.verdict}, without {wanted}",
        detail=", ".join(sorted({one.property for one in verdict.findings})) or "it has no finding",
        hint="`tidemark report DIR` draws it",
    )


def _repaired(join: str, folder: Path) -> None:
    """The bundled pipeline in the place of the mutant, without its settings."""
    (folder / "pipeline.py").write_text((PIPELINES / f"{join}.py").read_text(encoding="utf-8"))
    _in_test(folder, lambda text: re.sub(r"\n +conf=.*", "", text))


def _sink(name: str, folder: Path) -> None:
    _in_test(folder, lambda text: re.sub('sink="[a-z-]*"', f'sink="{name}"', text))


def _in_test(folder: Path, change: Callable[[str], str]) -> None:
    [test] = folder.glob("test_*.py")
    test.write_text(change(test.read_text(encoding="utf-8")), encoding="utf-8")


def padded(case: Case, rows: int = PADDING) -> Case:
    """The case with rows of keys of their own, as many in each slice and topic, so that batches stay what they are."""
    contract, counts = case.contract, Counter((one.slice, one.topic) for one in case.records)
    each = -(-(rows + len(case.records)) // (2 * case.slices))
    records: list[Record] = []
    for number in range(case.slices):
        for side in (contract.left, contract.right):
            own = [one for one in case.records if (one.slice, one.topic) == (number, side.topic)]
            before = [one for one in case.records if one.topic == side.topic and one.slice <= number]
            times = [json.loads(one.value or "{}").get(side.time) for one in before]
            latest = max((one for one in times if one), default=write_time(1))
            for at in range(each - counts[number, side.topic]):
                name = f"pad-{number}-{at}"
                value = {side.id: name, **dict.fromkeys(side.keys, f"{side.topic}-{name}"), side.time: latest}
                value |= {name: 9 for one in contract.compared for name in one if name not in value}
                records.append(Record(topic=side.topic, value=json.dumps(value), arrival_ms=1, slice=number))
            records += own
    return replace(case, records=tuple(records))
