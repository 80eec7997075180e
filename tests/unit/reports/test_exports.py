"""A verdict in Markdown and as JUnit XML: what they say, and that no value of anybody's data is markup in them."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import tidemark
from tests.unit.reports.small_run import small_run, small_verdict
from tidemark.cli import app
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.oracle.findings import PROPERTIES
from tidemark.reports.reported_runs import ReportedRun
from tidemark.reports.shown_text import one_line, xml_text
from tidemark.reports.verdict_junit import junit_of
from tidemark.reports.verdict_markdown import LONGEST, code, markdown_of

HOSTILE = (
    "` ``` | \\| \\` a|b \\",
    "<img src=x onerror=alert(1)></details><script>",
    "@team #12 GH-7 org/repo#3 https://x.example www.x.example me@x.example :smile: $x$ [^1]",
    "[a](javascript:alert(1)) ![b](http://x/y.png) [x]: http://x **b** _i_ ~~s~~ &lt;",
    "\n\n# title\n\n| a |\n|---|\n- [ ] item\n```\nfence\r\n===\n",
    "]]>\0\x1b[31m\u202e\u2028\ufeff\ufffe\U000e0041",
)
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=30)).map("a{}".format)

# What Jenkins' and pytest's own documents have: attributes that are required, those that may be, and what is inside.
COUNTED = {"tests", "failures", "errors"}
STRUCTURE = {
    "testsuites": (COUNTED | {"name", "time"}, set(), {"testsuite"}),
    "testsuite": (COUNTED | {"name", "skipped"}, {"time", "timestamp"}, {"properties", "testcase", "system-out"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name", "classname", "time"}, set(), {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
    "skipped": ({"message"}, set(), set()),
    "system-out": (set(), set(), set()),
}  # fmt: skip


def reported(path: Path, verdict=None, name: str = "night/1") -> ReportedRun:
    return ReportedRun(name, path, verdict or judge(RunDirectory(path)))


def command(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def parsed(text: str) -> tuple[list[str], str]:
    """The elements that a reader of GitHub's Markdown makes, and what stands outside of code."""
    elements, outside = [], ""
    for token in READER.parse(text):
        for one in (token, *(token.children or ())):
            elements.append(one.type)
            if one.type in ("text", "html_inline", "html_block"):
                outside += f"{one.content}\n"
    return elements, outside


def test_a_verdict_in_markdown_has_findings_by_cause_and_known_defects_apart(golden):
    text = markdown_of([reported(golden / "mutant_half_bound")])
    known = markdown_of([reported(golden / "defect_left_semi_same_batch")])

    assert text.startswith("### INVALID: `left_outer`\n")
    assert "> `4 of 54 rows that are due never came: in all 4, " in text
    assert (
        text.index("**Findings**") < text.index("- `lost_rows`: 4\n") < text.index("- `wrong_metrics`: 6\n")
    )
    assert "  - next: `tidemark check DIR --batches`; for a known defect, the page Spark bugs.\n" in text
    assert "**Findings**" not in known
    assert "**Known defects of Spark**\n\n- `left-semi-loses-same-batch-rows`: 1\n" in known


def test_the_reasons_of_unknown_and_the_command_that_runs_it_again_are_there(golden):
    run = golden / "unknown_goal_not_met"
    verdict = judge(RunDirectory(run))

    text = markdown_of([reported(run, verdict)])

    assert text.startswith("### UNKNOWN: ")
    assert f"**Inconclusive because**\n\n- `{verdict.inconclusive[0]}`\n" in text
    assert "```sh\ntidemark run left_outer --seed 11" in markdown_of([reported(golden / "faults_spark_sink")])


def test_runs_of_a_folder_are_a_table_in_which_the_worst_come_first(golden, tmp_path):
    for name in ("typed_valid", "unreadable_no_output", "typed_missing_null"):
        shutil.copytree(golden / name, tmp_path / name)

    done = command("report", tmp_path, "--markdown", "-", "--junit", tmp_path / "junit.xml")

    assert done.stdout.startswith("### 3 runs: 1 INVALID, 1 refused, 1 VALID\n")
    rows = [line.split(" | ")[:2] for line in done.stdout.splitlines() if line.startswith("| ")][1:4]
    assert rows == [
        ["| INVALID", "`typed_missing_null`"], ["| refused", "`unreadable_no_output`"], ["| VALID", "`typed_valid`"],
    ]  # fmt: skip
    assert done.stderr.splitlines() == [str(tmp_path / "index.html"), str(tmp_path / "junit.xml")]
    suites = ET.parse(tmp_path / "junit.xml").getroot().findall("testsuite")
    assert [(one.get("name"), one.get("failures"), one.get("errors")) for one in suites] == [
        ("typed_missing_null", "1", "0"), ("typed_valid", "0", "0"), ("unreadable_no_output", "0", "1"),
    ]  # fmt: skip


def test_markdown_is_no_longer_than_a_comment_may_be(golden):
    run = golden / "mutant_half_bound"
    verdict = judge(RunDirectory(run))
    runs = [reported(run, verdict, f"run {number}") for number in range(150)]

    text = markdown_of(runs, is_folder=True)

    assert LONGEST - 5_000 < len(text) <= LONGEST
    assert "more runs.*" in text
    assert text.endswith("the page has them.*\n")


@pytest.fixture(scope="module")
def harmless(tmp_path_factory) -> list[object]:
    """What documents of harmless values have."""
    return documents(tmp_path_factory.mktemp("harmless"), "a")


def documents(folder: Path, text: str) -> list[object]:
    """Elements and text outside of code of the Markdown of a run and of a folder; elements of the JUnit XML."""
    run = small_run(folder, text)
    one = ReportedRun(text, run.path, small_verdict(text))
    refused = ReportedRun(text, run.path, refused=text)
    as_xml = ET.fromstring(junit_of([one, refused], is_folder=True))
    return [
        parsed(markdown_of([one])),
        parsed(markdown_of([one, refused], is_folder=True)),
        [(element.tag, sorted(element.keys())) for element in as_xml.iter()],
    ]


@given(TEXTS)
@example("".join(HOSTILE))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_the_evidence_or_the_verdict_is_markup_a_mention_or_a_link(tmp_path, harmless, text):
    assert documents(tmp_path, text) == harmless


@given(st.text(st.characters(exclude_categories=()), max_size=30))
@example("`")
@example(" `` ")
def test_a_value_is_one_code_span_in_a_sentence_and_in_a_cell(text):
    for document in (f"x {code(text)} y", f"| a |\n|---|\n| {code(text).replace('|', chr(92) + '|')} |"):
        tokens = READER.parse(document.encode("utf-8", "replace").decode())
        [inline] = [one for one in tokens if one.type == "inline" and one.content != "a"]
        spans = [one.content for one in inline.children or () if one.type == "code_inline"]
        assert spans == ([one_line(text, 500)] if one_line(text, 500) else [])


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_text_is_there_xml_can_be_read(text):
    element = ET.Element("a", b=xml_text(text))
    element.text = xml_text(text)

    read = ET.fromstring(ET.tostring(element, "utf-8"))

    assert read.get("b") == xml_text(text)
    assert (read.text or "") == xml_text(text).replace("\r\n", "\n").replace("\r", "\n")
    assert xml_text("a\0\ud800\ufffe") == r"a\u0000\ud800\ufffe"


def test_junit_has_a_case_for_each_property_in_the_structure_that_ci_systems_read(golden):
    root = ET.fromstring(junit_of([reported(golden / "mutant_half_bound")]))

    for element in root.iter():
        required, possible, inside = STRUCTURE[element.tag]
        assert required <= set(element.keys()) <= required | possible
        assert {child.tag for child in element} <= inside
    [suite] = root
    assert [case.get("name") for case in suite.findall("testcase")] == [*PROPERTIES, "conclusive"]
    failed = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert set(failed) == {"lost_rows", "premature_nulls", "nulls_for_matched_rows", "lost_state", "wrong_flags",
                           "wrong_metrics"}  # fmt: skip
    assert suite.get("failures") == root.get("failures") == "6"
    assert failed["lost_rows"].get("message", "").startswith("4 of 54 rows that are due never came: in all 4")
    assert "- the row of i-0000013 (impressions/1/10" in (failed["lost_rows"].text or "")
    assert suite.find("properties/property[@name='verdict']").get("value") == "INVALID"


def test_what_a_run_does_not_show_is_skipped(golden):
    cases = ET.fromstring(junit_of([reported(golden / "inner")])).find("testsuite")
    typed = ET.fromstring(junit_of([reported(golden / "typed_valid")])).find("testsuite")

    assert {case.get("name") for case in cases if case.find("skipped") is not None} == {
        "missing_nulls", "premature_nulls", "nulls_for_matched_rows", "repeated_semi_rows", "wrong_counts",
    }  # fmt: skip
    assert (
        typed.find("testcase[@name='lost_state']/skipped").get("message") == "Spark's state was not compared"
    )


def test_a_known_defect_fails_unless_it_is_accepted(golden):
    verdict = judge(RunDirectory(golden / "defect_condition_bound"))
    name = next(iter(verdict.defects_total))
    accepted = judge(RunDirectory(golden / "defect_condition_bound"), [name])

    [failed] = outcomes(golden, verdict, "failure")
    said = outcomes(golden, accepted, "system-out")

    assert failed.get("type") == "known defect"
    assert f"of the known defect {name}" in failed.get("message", "")
    assert outcomes(golden, accepted, "failure") == []
    assert [one.text.startswith("accepted: ") and name in one.text for one in said] == [True]


def outcomes(golden, verdict, tag):
    """Elements of a tag in the cases of a run."""
    run = ReportedRun("run", golden / "defect_condition_bound", verdict)
    return ET.fromstring(junit_of([run])).findall(f"testsuite/testcase/{tag}")


def test_an_inconclusive_run_is_an_error_and_never_passed(golden):
    [suite] = ET.fromstring(junit_of([reported(golden / "unknown_goal_not_met")]))

    [error] = suite.findall("testcase[@name='conclusive']/error")
    assert (error.get("type"), suite.get("errors"), suite.get("failures")) == ("inconclusive", "1", "0")
    assert error.get("message") in (error.text or "")


def test_check_writes_both_and_keeps_the_exit_code_of_the_verdict(golden, tmp_path):
    run = Path(shutil.copytree(golden / "typed_missing_null", tmp_path / "run"))

    done = command("check", run, "--markdown", "-", "--junit", tmp_path / "junit.xml")

    assert done.exit_code == 1
    assert done.stdout.startswith("### INVALID: ")
    assert ET.parse(tmp_path / "junit.xml").getroot().get("failures") == "1"
    assert msgspec.json.decode((run / "verdict.json").read_bytes())["verdict"] == "INVALID"
    with_file = command("check", run, "--markdown", tmp_path / "said.md")
    assert (tmp_path / "said.md").read_text() == done.stdout
    assert "evidence" in with_file.stdout


def test_two_things_cannot_be_alone_on_standard_output(golden):
    done = command("check", golden / "typed_valid", "--json", "--markdown", "-")

    assert done.exit_code == 2
    assert "--json and --markdown - both write to standard output" in " ".join(
        done.stderr.replace("│", " ").split()
    )


def test_a_report_in_python_writes_them_too(golden, tmp_path):
    run = Path(shutil.copytree(golden / "typed_valid", tmp_path / "run"))

    tidemark.report(run, markdown=tmp_path / "said.md", junit=str(tmp_path / "junit.xml"))

    assert (tmp_path / "said.md").read_text().startswith("### VALID: ")
    assert ET.parse(tmp_path / "junit.xml").getroot().get("failures") == "0"
    with pytest.raises(tidemark.UsageError, match=r"x\.md' cannot be written"):
        tidemark.report(run, markdown=tmp_path / "nowhere" / "x.md")
