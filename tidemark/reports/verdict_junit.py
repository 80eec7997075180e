"""Verdicts as JUnit XML, which CI systems read: a ``testsuite`` for each run, a ``testcase`` for each property.

Free of judgement and of I/O. A property of which nothing was found has passed. It has failed if there is a finding
that is not accepted, with the text of its examples; findings of known defects that are accepted are said in its
``system-out``. It is skipped where the run does not show it: Spark's state was not read, say.

The case ``conclusive`` has an ``error`` with the reasons if a run is inconclusive: an ``UNKNOWN`` run never counts as
passed. So has the case ``evidence`` of a run whose evidence is refused.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence

from tidemark.oracle import Verdict
from tidemark.oracle.causes.cause_lines import first_read
from tidemark.oracle.findings import PROPERTIES, Finding
from tidemark.reports import summary_lines
from tidemark.reports.property_notes import property_notes
from tidemark.reports.reported_runs import ReportedRun
from tidemark.reports.run_index import took_s
from tidemark.reports.shown_text import xml_text

OF_STATE = ("lost_state", "leaked_state", "wrong_flags", "wrong_counts")
OF_NULL_ROWS = ("missing_nulls", "premature_nulls", "nulls_for_matched_rows")
CONCLUSIVE, EVIDENCE = "conclusive", "evidence"
_COUNTED = ("failure", "error", "skipped")


def junit_of(runs: Sequence[ReportedRun], *, is_folder: bool = False) -> bytes:
    """The document in UTF-8. Cases of one run are of the class of its pipeline, those of a folder also of their run."""
    root = ET.Element("testsuites", name="tidemark")
    for one in runs:
        root.append(_suite(one, is_folder=is_folder))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(one: ReportedRun, *, is_folder: bool) -> ET.Element:
    suite = ET.Element("testsuite", name=xml_text(one.name))
    if one.verdict is None:
        suite.append(_case(EVIDENCE, one.name, error=_problem("refused", one.refused, one.refused)))
    else:
        _fill(
            suite,
            one,
            one.verdict,
            f"{one.verdict.pipeline}.{one.name}" if is_folder else one.verdict.pipeline,
        )
    cases = suite.findall("testcase")
    counts = Counter(child.tag for case in cases for child in case)
    suite.set("tests", str(len(cases)))
    for tag, name in zip(_COUNTED, ("failures", "errors", "skipped"), strict=True):
        suite.set(name, str(counts[tag]))
    return suite


def _fill(suite: ET.Element, one: ReportedRun, verdict: Verdict, class_name: str) -> None:
    """The cases of a run that was judged, and what is said of all of them."""
    manifest, faults = one.run.manifest, one.run.faults()
    if manifest.started_utc:
        suite.set("timestamp", xml_text(manifest.started_utc[:19]))
    suite.set("time", f"{took_s(one.run) or 0:.3f}")
    facts = {
        "verdict": verdict.verdict, "pipeline": verdict.pipeline, "delivery": verdict.delivery,
        "sink": manifest.sink or "", "seed": "" if manifest.seed is None else str(manifest.seed),
        "faults": ", ".join(fault.label for fault in faults if fault.injected),
        "spark": manifest.versions.get("spark", ""), "kafka": manifest.versions.get("kafka", ""),
        "reproduce": manifest.command or "",
    }  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=xml_text(value))
    suite.extend(_property_case(name, verdict, class_name) for name in PROPERTIES)
    reasons = verdict.inconclusive
    unknown = _problem("inconclusive", reasons[0], "\n".join(reasons)) if reasons else None
    suite.append(_case(CONCLUSIVE, class_name, error=unknown))
    lines = [f"{name:<15}{value}" for name, value in summary_lines(verdict, faults)]
    _said(suite, [*lines, f"{'evidence':<15}{one.path}", f"{verdict.verdict}  {verdict.pipeline}"])


def _property_case(name: str, verdict: Verdict, class_name: str) -> ET.Element:
    found = [finding for finding in verdict.findings if finding.property == name]
    open_ones = [one for one in found if one.defect not in verdict.accepted_total]
    if open_ones or verdict.unexplained_total.get(name):
        return _case(name, class_name, failure=_failure(name, verdict, open_ones))
    skipped = "" if found else _not_shown(name, verdict)
    if skipped:
        return _case(name, class_name, skipped=ET.Element("skipped", message=skipped))
    case = _case(name, class_name)
    if found:
        _said(case, _accepted(verdict, found))
    return case


def _failure(name: str, verdict: Verdict, findings: Sequence[Finding]) -> ET.Element:
    """The cause, or the number; then the examples, and the next command."""
    total = verdict.findings_total.get(name, 0)
    causes = [cause.message for cause in first_read(verdict.causes) if cause.property == name]
    defects = list(dict.fromkeys(one.defect for one in findings if one.defect))
    known = [f"known defect {one}: {verdict.known_defects.get(one, '')}" for one in defects]
    counted = f"{total:,} finding{'' if total == 1 else 's'} of {name}"
    first = causes[0] if causes else ", ".join([counted, *(f"of the known defect {one}" for one in defects)])
    note = property_notes().get(name)
    lines = [counted, *causes, *(f"- {one.message}" for one in findings), *known]
    lines += [f"next: {note.next.replace('``', '`')}"] if note is not None and note.next else []
    return _problem(name if verdict.unexplained_total.get(name) else "known defect", first, "\n".join(lines))


def _accepted(verdict: Verdict, findings: Sequence[Finding]) -> Iterator[str]:
    for name in dict.fromkeys(one.defect for one in findings if one.defect):
        count = verdict.accepted_total.get(name, 0)
        yield f"accepted: {count:,} findings of the known defect {name}: {verdict.known_defects.get(name, '')}"


def _not_shown(name: str, verdict: Verdict) -> str:
    """Why a run cannot show this property; empty if it can."""
    account = verdict.spark_account
    if name in OF_STATE and (account is None or not account.state_batches):
        return "Spark's state was not compared"
    if name == "wrong_counts" and (account is None or not account.count_batches):
        return "Spark's counts of keys were not compared"
    if name == "wrong_metrics" and (account is None or not account.metric_batches):
        return "Spark's metrics were not compared"
    if name == "oracles_disagree" and len(verdict.oracles) < 2:
        return "one oracle judged it"
    if name in OF_NULL_ROWS and verdict.kind in ("inner", "left_semi"):
        return "the join has no NULL rows"
    if name == "repeated_semi_rows" and verdict.kind not in ("left_semi", "chain"):
        return "the join has no semi rows"
    return ""


def _case(name: str, class_name: str, **outcome: ET.Element | None) -> ET.Element:
    case = ET.Element("testcase", classname=xml_text(class_name), name=xml_text(name), time="0")
    case.extend(one for one in outcome.values() if one is not None)
    return case


def _problem(kind: str, message: str, text: str) -> ET.Element:
    """A ``failure`` or an ``error``; its tag is what the caller calls it."""
    element = ET.Element("error" if kind in ("inconclusive", "refused") else "failure")
    element.set("type", xml_text(kind))
    element.set("message", xml_text(message))
    element.text = xml_text(text)
    return element


def _said(element: ET.Element, lines: Sequence[str] | Iterator[str]) -> None:
    ET.SubElement(element, "system-out").text = xml_text("\n".join(lines))
