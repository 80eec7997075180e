"""The picture of a run in a real browser, without a network: it is drawn, and says nothing on the console.

Needs a Chromium and the script of the picture, `make view`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tidemark
from tests.unit.reports.small_run import small_run, small_verdict
from tidemark.reports.html_report import BUNDLE, write_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium; on Debian: apt-get install chromium"),
    pytest.mark.skipif(not (BUNDLE / "view.js").is_file(), reason="the script was not built: make view"),
]
WHOLE_S = 120.0
"""Calibration: a page takes 2 s on idle cores."""


def drawn(page: Path, profile: Path, *options: str) -> tuple[str, str]:
    """The document once its scripts are done, and what was written on the console."""
    done = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=8000", "--enable-logging=stderr",
            *options, "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=WHOLE_S, check=True,
    )  # fmt: skip
    return done.stdout, "\n".join(re.findall(r"CONSOLE.*", done.stderr))


@pytest.mark.parametrize(
    "name",
    ["valid_without_state_and_metrics", "faults_spark_sink", "unknown_goal_not_met", "audit_spark_3_5"],
)
def test_the_picture_of_recorded_evidence_is_drawn(golden, tmp_path, name):
    document, console = drawn(tidemark.report(golden / name, to=tmp_path / "page.html"), tmp_path / "profile")

    assert console == ""
    assert '<div id="view">' in document
    assert "Event time (UTC)" in document
    assert ("The life of o52</b>" if name.startswith("audit") else "<h3>Batch ") in document
    assert 'id="view-missing"' not in document


def test_the_life_of_the_row_of_a_finding_is_drawn_with_its_partner_that_is_1_ms_too_late(golden, tmp_path):
    page = tidemark.report(golden / "mutant_right_outer_null_row_twice", to=tmp_path / "page.html")

    document, console = drawn(page, tmp_path / "profile")

    assert console == ""
    assert "The life of i-0000193</b>" in document
    assert "Close up: 1 ms from the end of the bound" in document
    assert "Rows out that i-0000193 is a part of" in document
    assert "Show in the picture: <button" in document


def test_hostile_values_are_text_in_the_picture_too(tmp_path):
    text = "</script><img src=x onerror=document.title=1>"

    page = write_report(small_run(tmp_path, text), small_verdict(text), tmp_path / "page.html")
    document, console = drawn(page, tmp_path / "profile")

    assert console == ""
    assert "<h3>l2</h3>" in document
    assert "<img" not in document


def test_a_script_that_the_policy_does_not_name_is_blocked_and_the_page_says_so(golden, tmp_path):
    page = tidemark.report(golden / "typed_valid", to=tmp_path / "page.html")
    page.write_text(page.read_text().replace("'sha256-", "'sha256-0", 1))

    document, console = drawn(page, tmp_path / "profile")

    assert "Content Security Policy" in console
    assert "needs scripts, and they are blocked here" in document
    assert '<div id="view" hidden=""></div>' in document
