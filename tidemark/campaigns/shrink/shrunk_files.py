"""What is left of a run that was made smaller: one folder that shows the bug to somebody who has never seen it.

``trace.jsonl``, ``contract.json`` (and ``pipeline.py``)   the smallest case; ``tidemark run`` takes it.
``test_NAME.py``   a test for the pytest plugin: red now, green once the bug is gone.
``repro.py``       plain PySpark, nothing of this project; where neither Kafka nor a program is needed for the bug.
``ticket.md``      a text for a ticket.
``smallest/``      evidence and page of the smallest run.
``shrunk.json``    sizes before and after, trials, rates.
``trials.jsonl``   every trial, for ``--resume``.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidemark.campaigns.case import Case
from tidemark.campaigns.shrink.bug_signature import query_of, signature_of
from tidemark.campaigns.shrink.case_files import AS_A_RUN, pipeline_of, write_best
from tidemark.campaigns.shrink.fault_passes import schedule_of
from tidemark.campaigns.shrink.plain_spark import is_seen_in_rows, plain_program, why_not_plain
from tidemark.campaigns.shrink.shrink_campaign import ShrunkRun
from tidemark.oracle import Verdict
from tidemark.oracle.findings import Finding
from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS
from tidemark.reports.html_report import report_beside
from tidemark.reports.kept_verdict import kept_verdict


def write_shrunk(found: ShrunkRun, folder: Path, *, xfail: bool = False) -> list[str]:
    """Write everything; returns notes: what was not written, and why."""
    case, notes = found.shrunk.best.case, list[str]()
    write_best(found.shrunk.best, folder)
    verdict = kept_verdict(found.smallest.path)
    if verdict is not None:
        report_beside(found.smallest, verdict)
    finding = _finding(found, verdict)
    if case.mode in AS_A_RUN:
        (folder / f"test_{_name(case)}.py").write_text(_test(found, xfail=xfail), encoding="utf-8")
    else:
        notes.append(
            f"no test: the bug needs restarts of the query ({case.mode}), which a test has by faults only"
        )
    why_not = _why_not_plain(found)
    if why_not:
        notes.append(f"no repro.py: {why_not}")
    else:
        program = plain_program(case.contract, case.conf, found.smallest, _title(found))
        (folder / "repro.py").write_text(program, encoding="utf-8")
    (folder / "ticket.md").write_text(_ticket(found, finding, is_plain=not why_not), encoding="utf-8")
    (folder / "shrunk.json").write_text(json.dumps(as_json(found), indent=2) + "\n", encoding="utf-8")
    return notes


def _why_not_plain(found: ShrunkRun) -> str:
    best = found.shrunk.best
    if best.faults:
        return f"the bug needs the fault {schedule_of(best.faults)}, which a program with files for its input has not"
    why_not = why_not_plain(best.case.contract, best.case.pipeline)
    if why_not or is_seen_in_rows(best.case.contract, found.smallest):
        return why_not
    return f"the rows that come are right, and a program that compares rows does not show {found.signature.property}"


def as_json(found: ShrunkRun) -> dict[str, Any]:
    """Sizes, trials and rates, as plain values."""
    return {
        "signature": asdict(found.signature),
        "before": found.before._asdict(),
        "after": found.after._asdict(),
        "is_minimal": found.shrunk.is_minimal,
        "first": asdict(found.shrunk.first),
        "final": asdict(found.shrunk.final),
        "mode": found.shrunk.best.case.mode,
        "faults": list(found.shrunk.best.faults),
        "trials": found.trials,
        "told_by_rules": found.told,
        "undone": found.shrunk.undone,
        "seconds": found.seconds,
        "any_value": [name for name, matters in found.matters.items() if not matters],
    }


def _finding(found: ShrunkRun, verdict: Verdict | None) -> Finding | None:
    """The finding of the smallest run that shows the bug."""
    case = found.shrunk.best.case
    findings = [] if verdict is None else verdict.findings
    return next(
        (one for one in findings if signature_of(one, case.contract, case.records) == found.signature), None
    )


def _name(case: Case) -> str:
    return re.sub(r"\W+", "_", case.name).strip("_").lower() or "join"


def _title(found: ShrunkRun) -> str:
    signature = found.signature
    query = query_of(signature).replace(" join", " stream-stream join")
    return f"{signature.property.replace('_', ' ')}: {signature.about} in a {query}"


def _test(found: ShrunkRun, *, xfail: bool) -> str:
    best, case = found.shrunk.best, found.shrunk.best.case
    pipeline = pipeline_of(case)
    where = json.dumps(pipeline) if pipeline == case.pipeline else f"HERE / {json.dumps(pipeline)}"
    options = ['trace=HERE / "trace.jsonl"', f"sink={json.dumps(case.sink)}"]
    options += [f"faults={json.dumps(schedule_of(best.faults))}", f"seed={best.seed}"] if best.faults else []
    options += [f"conf={[f'{name}={value}' for name, value in case.conf.items()]!r}"] if case.conf else []
    mark = f"@pytest.mark.xfail(strict=True, reason={_title(found)!r})\n" if xfail else ""
    imports = "from pathlib import Path\n" + ("\nimport pytest\n" if xfail else "")
    return (
        f'"""{_title(found)}. Red as long as the bug is there."""\n\n{imports}\nHERE = Path(__file__).parent\n\n\n'
        f"{mark}def test_{_name(case)}(run_pipeline):\n"
        f"    result = run_pipeline(\n        {where},\n        {f',{chr(10)}        '.join(options)},\n    )\n"
        "    result.assert_valid()\n"
    )


def _ticket(found: ShrunkRun, finding: Finding | None, *, is_plain: bool) -> str:
    case, versions = found.shrunk.best.case, found.smallest.manifest.versions
    rows = "\n".join(f"{one.slice:>5}  {one.topic:<12} {one.value}" for one in case.records)
    defect = KNOWN_DEFECTS.get(found.signature.defect or "", "")
    free = [name for name, matters in found.matters.items() if not matters]
    faults = f" --faults {schedule_of(found.shrunk.best.faults)} --seed {found.shrunk.best.seed}"
    command = f"tidemark run {pipeline_of(case)} --trace trace.jsonl --sink {case.sink}"
    command += faults if found.shrunk.best.faults else ""
    command += "".join(f" --conf {name}={value}" for name, value in case.conf.items())
    lines = [
        f"# {_title(found)}",
        "",
        "**Versions**: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"**How often**: {found.shrunk.final} of the case below",
        f"**Settings**: {', '.join(f'`{name}={value}`' for name, value in case.conf.items()) or 'Spark’s defaults'}",
        f"**Faults**: {schedule_of(found.shrunk.best.faults) or 'none'}",
        "",
        "## Input",
        "",
        f"{len(case.records)} rows, in {case.slices} parts ({case.mode}); the first column is the part:",
        "",
        "```text",
        rows,
        "```",
        "",
        "## What is wrong",
        "",
        finding.message if finding is not None else str(found.signature),
        "",
        *([defect, ""] if defect else []),
        "## How to see it",
        "",
        *(
            ["[`repro.py`](repro.py), plain PySpark, prints what should come and what came.", ""]
            if is_plain
            else []
        ),
        f"`{command}`",
    ]
    if free:
        lines += [
            "",
            "## What does not matter",
            "",
            "Other values were tried of each, and the bug came all the same:",
        ]
        lines += ["", ", ".join(free)]
    return "\n".join(lines) + "\n"
