"""A directory of evidence judged by ``tidemark check``, as two sets of expectations: facts, and texts.

``facts.json`` has what no wording can change: exit code, verdict, every finding without its sentence, counts, coverage
goals, and what Spark said of its state. ``texts.json`` has what was printed, and the ``verdict.json``.
"""

from __future__ import annotations

import io
import json
import shutil
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from tidemark.cli import main
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.compare.spark_account import SparkAccount

HERE = Path(__file__).parent
EVIDENCE = HERE / "evidence"
FACTS, TEXTS = HERE / "facts.json", HERE / "texts.json"
PLACE = "DIR"
"""What stands in texts for the directory's path."""

Expectations = dict[str, dict[str, Any]]
"""Name of the directory -> its facts, or its texts."""


@dataclass(frozen=True)
class Judged:
    """What came of a directory."""

    facts: dict[str, Any]
    texts: dict[str, Any]


def names() -> list[str]:
    """The directories of evidence, sorted."""
    return sorted(path.name for path in EVIDENCE.iterdir())


def judge_again(name: str, folder: Path) -> Judged:
    """Judge a copy in ``folder`` of the directory ``name``: what is printed, and ``verdict.json``."""
    directory = folder / name
    shutil.copytree(EVIDENCE / name, directory)
    code, out, err = run_command("check", str(directory), "--batches", "--no-diagnosis")
    texts: dict[str, Any] = {"printed": _lines(out, directory), "error": _lines(err, directory)}
    facts: dict[str, Any] = {"exit_code": code}
    if (written := directory / "verdict.json").is_file():
        texts["json"] = json.loads(written.read_bytes())
        facts |= _facts(msgspec.json.decode(written.read_bytes(), type=Verdict))
    # As they are read again: tuples are lists there.
    return Judged(*json.loads(json.dumps((facts, texts))))


def run_command(*arguments: str) -> tuple[int, str, str]:
    """``tidemark ARGUMENTS`` within this process: its exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch.object(sys, "argv", ["tidemark", *arguments]),
        ):
            main()
    except SystemExit as left:
        return int(left.code or 0), out.getvalue(), err.getvalue()
    finally:
        signal.signal(signal.SIGTERM, handler)


def _facts(verdict: Verdict) -> dict[str, Any]:
    """Keys are those of the file of facts, whatever the verdict calls them."""
    return {
        "verdict": verdict.verdict,
        "pipeline": verdict.pipeline,
        "kind": verdict.kind,
        "delivery": verdict.delivery,
        "oracles": verdict.oracles,
        "totals": verdict.findings_total,
        "findings": [_finding(finding) for finding in verdict.findings],
        "known_defects": sorted(verdict.known_defects),
        "counts": verdict.counts,
        "goals": verdict.goals,
        "goals_asked": verdict.asked,
        "inconclusive": len(verdict.inconclusive),
        "spark": None if verdict.spark_account is None else _spark(verdict.spark_account),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "property": finding.property,
        "row": finding.row,
        "written": finding.written,
        "read": finding.read,
        "batch": finding.batch,
        "defect": finding.defect,
    }


def _spark(spark_account: SparkAccount) -> dict[str, Any]:
    moves = spark_account.locality
    return {
        "state_format": spark_account.format,
        "provider": spark_account.provider,
        "changelog": spark_account.changelog,
        "state_batches": spark_account.state_batches,
        "metric_batches": spark_account.metric_batches,
        "rows": list(spark_account.rows.values()),
        "times_ms": [list(times) for times in spark_account.times_ms.values()],
        "partitions_stayed": None if moves is None else moves.stayed,
        "partitions_moved": None if moves is None else moves.moved,
        "notes": len(spark_account.notes),
    }


def _lines(text: str, directory: Path) -> list[str]:
    return text.replace(str(directory), PLACE).splitlines()


def read(path: Path) -> Expectations:
    """``facts.json`` or ``texts.json``; nothing if the file is not there yet."""
    found: Expectations = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def write(path: Path, expectations: Expectations) -> None:
    """Write a file of expectations: a line for each value, and for each item of a list, so that a diff can be read."""
    cases = (f"{_compact(name)}: {_object(case)}" for name, case in sorted(expectations.items()))
    path.write_text("{\n" + ",\n".join(cases) + "\n}\n", encoding="utf-8")


def _object(case: dict[str, Any], indent: str = " ") -> str:
    return "{\n" + ",\n".join(f"{indent}{_compact(key)}: {_value(case[key], indent)}" for key in case) + "}"


def _value(value: Any, indent: str) -> str:
    if isinstance(value, dict) and "findings" in value:
        return _object(value, indent + " ")
    if isinstance(value, list) and any(isinstance(item, dict | str) for item in value):
        inner = indent + " "
        return "[\n" + ",\n".join(inner + _compact(item) for item in value) + "]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
