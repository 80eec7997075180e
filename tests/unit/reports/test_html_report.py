"""The page of a verdict: what it says without scripts, and that no value of anybody's data is markup in it."""

from __future__ import annotations

import base64
import hashlib
import zlib
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.reports.small_run import fault, small_run, small_verdict
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.oracle.findings import PROPERTIES
from tidemark.reports import failure_lines, html_report
from tidemark.reports.html_report import html_page, report_beside
from tidemark.reports.property_notes import goal_notes, property_notes
from tidemark.reports.run_view import RunView
from tidemark.reports.verdict_page import injected_line

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</template><img src=x onerror=alert(1)>",
    "\"><b onmouseover='alert(1)'>",
    "</title></style></pre><!--",
    "{{ 7 * 7 }}{% raw %}",
    "``<u>``]]>&lt;i&gt;\0\u2028\u202e",
)


class Markup(HTMLParser):
    """The elements of a page with their attributes, and its text by the element that it is in."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = [""]
        self.feed(page.decode())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, tuple(attributes)))
        if tag not in ("meta",):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self._open[-1], data))

    def text(self, *without: str) -> str:
        """All text but that of some elements, words one blank apart."""
        return " ".join(" ".join(text for tag, text in self.texts if tag not in without).split())


def page_of(run, verdict=None) -> Markup:
    return Markup(html_page(run, verdict or judge(run)))


def said(page: Markup) -> str:
    """What a reader sees without scripts."""
    return page.text("style", "script", "template", "title")


@pytest.fixture(autouse=True)
def bundle(tmp_path_factory, monkeypatch):
    """A script as `make view` would have built it, with its licences."""
    folder = tmp_path_factory.mktemp("bundle")
    write_script(folder)
    monkeypatch.setattr(html_report, "BUNDLE", folder)
    return folder


def write_script(folder) -> None:
    (folder / "view.js").write_text("show();")
    (folder / "licences.txt").write_text("echarts 6 (Apache-2.0)\n")


def structure(folder, text: str) -> list[object]:
    return page_of(small_run(folder, text), small_verdict(text)).elements


@pytest.fixture(scope="module")
def harmless(tmp_path_factory) -> list[object]:
    """What a page of harmless values has."""
    folder = tmp_path_factory.mktemp("harmless")
    write_script(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report, "BUNDLE", folder)
        return structure(folder, "a")


@given(st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=30)).map("a{}".format))
@example("".join(HOSTILE))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_the_evidence_or_the_verdict_is_markup(tmp_path, harmless, text):
    assert structure(tmp_path, text) == harmless


def test_what_the_script_reads_is_compressed_and_its_digest_is_in_the_policy(tmp_path):
    page = page_of(small_run(tmp_path, HOSTILE[0]), small_verdict(HOSTILE[0]))

    [packed] = [text for tag, text in page.texts if tag == "template"]
    view = msgspec.json.decode(zlib.decompress(base64.b64decode(packed)), type=RunView)
    assert view.inputs[0].name == f"lefts{HOSTILE[0]}"
    [script] = [text for tag, text in page.texts if tag == "script"]
    [policy] = [
        dict(attributes)["content"] for _, attributes in page.elements if "http-equiv" in dict(attributes)
    ]
    assert (
        f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    )
    assert policy.startswith("default-src 'none'; ")
    assert "echarts 6 (Apache-2.0)" in said(page)


def test_a_page_loads_nothing(tmp_path):
    page = page_of(small_run(tmp_path), small_verdict())

    names = {name for _, attributes in page.elements for name, _ in attributes}
    links = {value for _, attributes in page.elements for name, value in attributes if name == "href"}
    assert "src" not in names
    assert all(link.startswith("#") for link in links)
    ids = [value for _, attributes in page.elements for name, value in attributes if name == "id"]
    assert links <= {f"#{one}" for one in ids}
    assert len(ids) == len(set(ids))


def test_without_the_script_the_page_says_what_is_missing_and_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(html_report, "BUNDLE", tmp_path / "nowhere")

    page = page_of(small_run(tmp_path), small_verdict())

    assert "its script was not built where this page was made. With Node 20 or newer, make view" in said(page)
    assert {"script", "template"}.isdisjoint(tag for tag, _ in page.elements)


@pytest.mark.parametrize("script", ["'</SCRIPT>'", "'<!-- '"])
def test_a_script_that_would_end_inside_of_the_page_is_left_out(tmp_path, bundle, script):
    (bundle / "view.js").write_text(script)

    assert "script" not in {tag for tag, _ in page_of(small_run(tmp_path), small_verdict()).elements}


def test_new_findings_come_before_those_of_a_known_defect_each_with_its_smallest_example(tmp_path):
    text = said(page_of(small_run(tmp_path), small_verdict()))

    parts = (
        "INVALID x left outer, Spark x, sink x; judged as at-least-once",
        "30 of 60 rows: x",
        "For example: x",
        "1 finding of x, a known defect of Spark, accepted",
        "lost_rows 30",
        "A joined or semi row that a committed batch owed never came.",
        "Smallest example x x x",
        "1 more of 30 x never came",
        "30 were counted, of which 2 are kept as examples.",
        "What usually causes this",
        "state that was lost",
        "Next tidemark check DIR --batches",
        "known defect of Spark, accepted x 1",
        "Inconclusive because x",
        "kill driver written 2 2026-11-24T10:00:35.000+00:00 9.5 s",
        "flushed no required",
        "See it again",
    )
    places = [text.find(part) for part in parts]
    assert [part for part, place in zip(parts, places, strict=True) if place < 0] == []
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "word", "says"),
    [
        (
            "valid_without_state_and_metrics",
            "VALID",
            "No finding: every row that was owed came as it was due",
        ),
        ("mutant_half_bound", "INVALID", "in none of 50 right rows; the contract's bound is"),
        ("defect_left_semi_same_batch", "INVALID", "SPARK-55973"),
        (
            "unknown_goal_not_met",
            "UNKNOWN",
            "the coverage goal 'duplicate_permitted' is required and was not met",
        ),
        ("chain_windows_joined", "VALID", "predicted rows"),
        ("audit_spark_3_5", "INVALID", "orders_paid"),
    ],
)
def test_recorded_evidence_has_a_page_that_says_its_verdict(golden, name, word, says):
    run = RunDirectory(golden / name)

    text = said(page_of(run))

    assert text.startswith(word)
    assert says in text
    assert "See it again" in text
    assert (run.manifest.command or "tidemark check DIR --report") in text


def test_under_its_example_the_life_of_a_row_stands_with_what_was_expected_and_observed(golden):
    text = said(page_of(RunDirectory(golden / "mutant_right_outer_null_row_twice")))

    assert (
        "The life of the row expected observed the row itself once, in batch 9 came in batch 9 (output"
        in text
    )
    assert "i-0000193 of impressions, key edge-46, ad-326 published impressions/1/83, event time" in text
    assert (
        "c-0000109 (clicks/1/51, 2026-01-01T00:01:55.762Z, read by batch 6): 1 ms too late: the distance"
        in text
    )


def test_what_was_injected_and_the_longest_recovery_are_said_at_the_top(golden):
    run = RunDirectory(golden / "left_outer_demo")

    page = html_page(run, judge(run)).decode()

    assert (
        "3 faults injected: 3 × kill executor at planned; their batches were committed after at most 8.9 s."
        in page
    )
    assert injected_line([fault()]) == (
        "1 fault injected: 1 × kill driver at written; its batch was committed after 9.5 s."
        " (written: all of its rows are written, and it is not committed.)"
    )
    assert injected_line([]) == ""


def test_a_page_beyond_its_limit_leaves_out_details_and_then_batches(tmp_path):
    run, verdict = small_run(tmp_path), small_verdict()
    whole = len(html_page(run, verdict))

    less = Markup(html_page(run, verdict, largest=300))

    assert "offsets, operators and executors of the batches are left out" in said(less)
    assert "batches are left out, because the page would be too large" in said(less)
    assert whole > 1000


def test_a_report_that_cannot_be_made_is_no_error_of_the_run(tmp_path):
    run = small_run(tmp_path)
    report_beside(run, small_verdict())
    assert (tmp_path / "report.html").is_file()

    (tmp_path / "output.jsonl").write_text("no JSON\n")
    report_beside(run, small_verdict())

    assert not (tmp_path / "report.html").exists()


def test_every_property_and_goal_has_a_note():
    assert list(property_notes()) == list(PROPERTIES)
    assert all(note.meaning and note.causes and note.next for note in property_notes().values())
    assert {"flushed", "rows_joined", "fault_hit_running_batch"} <= goal_notes().keys()


def test_a_test_that_fails_says_where_its_page_is(tmp_path):
    verdict = small_verdict()
    assert not any("report" in line for line in failure_lines(verdict, tmp_path))

    report_beside(small_run(tmp_path), verdict)

    assert f"  report     {tmp_path / 'report.html'}" in failure_lines(verdict, tmp_path)
