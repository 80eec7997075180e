"""Pages in a real browser, without a network: drawn, silent, reached by the keyboard, and with enough contrast.

Needs a Chromium and the script of the picture, `make view`, which brings axe-core, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

import tidemark
from bench._large_evidence import make_large_run
from docs.page_browser import OpenedPage, browser, chromium, opened
from docs.pictures import FOLDER, PICTURES, page_of, take
from tests.unit.reports.small_run import small_run, small_verdict
from tidemark.formats.seal import seal
from tidemark.reports.html_report import BUNDLE, write_report

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / "build" / "view" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(chromium() is None, reason="no Chromium; on Debian: apt-get install chromium"),
    pytest.mark.skipif(
        not ((BUNDLE / "view.js").is_file() and AXE.is_file()), reason="it was not built: make view"
    ),
]
RUNS = {
    "VALID": "left_outer_demo",
    "INVALID": "faults_spark_sink_as_exactly_once",
    "known defect": "left_semi_readme",
    "UNKNOWN": "unknown_goal_not_met",
    "audited": "audit_spark_3_5",
    "chain": "chain_clicked_per_window",
}
EVENTS = 1_000_000
TABS = 400
"""More than a page has places for the focus."""
COARSE = (64, 48)
FOCUSED = (
    "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
)
LABELS = ".picture .lane"
CAN_BE_FOCUSED = ":is(a, button:not(.lane), summary, input:not([type=radio]))"


@pytest.fixture(scope="module")
def shown():
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def pages(golden, tmp_path_factory):
    """A function that gives the page of one of ``RUNS``, or of a run of a million events, made once."""
    folder = tmp_path_factory.mktemp("pages")

    def page(name: str) -> Path:
        file: Path = folder / f"{name}.html"
        if not file.is_file():
            run = folder / name if name == "million" else golden / RUNS[name]
            if name == "million":
                make_large_run(run, EVENTS, 40)
                seal(run)
            tidemark.report(run, to=file)
        return file

    return page


def is_quiet(one: OpenedPage) -> bool:
    """Whether nothing was written on the console, and nothing asked for."""
    assert one.console == []
    assert [url for url in one.asked if not url.startswith("data:")] == []
    return True


def violations(one: OpenedPage) -> list[str]:
    """What axe-core finds wrong, as its rule and the elements."""
    one.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = one.page.evaluate("() => axe.run()")
    return [
        f"{rule['id']}: {node['html'][:120]}; {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def colours(one: OpenedPage, tmp_path: Path) -> int:
    """How many colours the picture has: one that is not drawn has one or two."""
    one.page.locator(".picture").screenshot(path=tmp_path / "picture.png")
    return len(Image.open(tmp_path / "picture.png").convert("RGB").quantize(256).getcolors() or ())


def headings(one: OpenedPage) -> list[str]:
    """What the picture shows, from top to bottom."""
    return one.page.locator(".caption b").all_text_contents()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", [*RUNS, "million"])
def test_each_view_is_drawn_silent_and_readable(shown, pages, tmp_path, name, dark):
    with opened(shown, pages(name), dark=dark) as one:
        one.wait_until_drawn()

        assert {"Batches", "Event time (UTC)", "Rows in"} <= {*headings(one)}
        assert any(heading.startswith("Rows out") for heading in headings(one))
        assert one.page.locator("#view-missing").count() == 0
        assert colours(one, tmp_path) > 20
        clock = one.page.get_by_label("by wall clock (UTC)")
        assert clock.count() == (name not in {"audited", "million"})
        if clock.count():
            clock.check()
            assert colours(one, tmp_path) > 20
        assert violations(one) == []
        assert is_quiet(one)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_index_of_many_runs_is_silent_and_readable(shown, golden, tmp_path, dark):
    for name in RUNS.values():
        shutil.copytree(golden / name, tmp_path / name)

    with opened(shown, tidemark.report(tmp_path), dark=dark) as one:
        one.page.get_by_label("VALID", exact=True).uncheck()

        assert one.page.locator("tr.run:visible").count() == len(RUNS) - 2
        assert violations(one) == []
        assert is_quiet(one)


def test_the_life_of_the_row_of_a_finding_is_drawn_with_its_partner_that_is_1_ms_too_late(
    shown, golden, tmp_path
):
    page = tidemark.report(golden / "mutant_right_outer_null_row_twice", to=tmp_path / "page.html")

    with opened(shown, page) as one:
        one.wait_until_drawn()

        assert "The life of i-0000193" in headings(one)
        assert "Close up: 1 ms from the end of the bound" in headings(one)
        assert "Rows out that i-0000193 is a part of" in headings(one)
        assert is_quiet(one)


@pytest.mark.parametrize("name", ["known defect", "INVALID", "audited"])
def test_the_keyboard_alone_reaches_all_that_can_be_followed_or_opened(shown, pages, name):
    with opened(shown, pages(name)) as one:
        one.wait_until_drawn()
        for _ in range(TABS):
            one.page.keyboard.press("Tab")
            if one.page.evaluate("document.activeElement === document.body"):
                break
            one.page.evaluate("document.activeElement.dataset.reached = ''")

        assert one.page.locator(".group summary[data-reached]").count() >= 1  # the other findings
        assert one.page.locator(".groups a[data-reached]").count() == 1
        assert one.page.locator(".picture[data-reached]").count() == 1
        assert one.page.locator(".shows button[data-reached]").count() == 1 + (name != "known defect")
        # Of two radio buttons the one that is chosen is reached, and leads to the other.
        missed = one.page.locator(f"{CAN_BE_FOCUSED}:visible:not([data-reached])")
        assert missed.all_text_contents() == []


def test_a_key_shows_the_row_of_a_finding_and_the_focus_is_at_what_is_said_of_it(shown, pages):
    with opened(shown, pages("known defect")) as one:
        one.wait_until_drawn()
        one.page.get_by_role("button", name="back to the batch").press("Enter")
        assert one.page.locator(".chosen h3").text_content() == "Batch 1"

        one.page.locator(".shows button").first.press("Enter")

        assert one.page.locator(".chosen h3").text_content() == "i-0000767"
        assert one.page.evaluate("document.activeElement.className") == "chosen"
        assert "The life of i-0000767" in headings(one)


def test_arrow_keys_reach_every_component_and_panel_and_enter_goes_to_what_it_marks(shown, pages):
    with opened(shown, pages("VALID")) as one:
        one.wait_until_drawn()
        chosen = one.page.locator(".chosen h3")
        all_of_them = one.page.locator(LABELS).evaluate_all("them => them.map((one) => one.ariaLabel)")
        one.page.locator(".picture").focus()
        one.page.keyboard.press("Home")
        assert chosen.text_content() == "Batch 0"
        one.page.keyboard.press("ArrowRight")
        assert chosen.text_content() == "Batch 1"

        reached, marked = [], {}
        for _ in all_of_them:
            one.page.keyboard.press("ArrowDown")
            label = one.page.evaluate(FOCUSED)
            reached.append(label)
            if "Enter" in label:
                one.page.keyboard.press("Enter")
                marked[label.split(";")[0]] = chosen.text_content()

        assert reached == all_of_them
        assert marked == {
            "component executor 0": "Batch 8", "component executor 1": "Batch 4", "component executor 2": "Batch 6",
        }  # fmt: skip
        one.page.keyboard.press("End")
        assert chosen.text_content() == "Batch 13"
        one.page.keyboard.press("ArrowUp")
        assert one.page.evaluate(FOCUSED) == all_of_them[-2]


def test_a_row_that_was_looked_for_by_key_is_drawn(shown, pages):
    with opened(shown, pages("INVALID")) as one:
        one.wait_until_drawn()
        one.page.get_by_label("Find a row by its id, key or place").fill("c-0000143")
        one.page.keyboard.press("Enter")

        assert one.page.locator(".chosen h3").text_content() == "c-0000143"
        assert "The life of c-0000143" in headings(one)
        assert is_quiet(one)


def test_hostile_values_are_text_in_the_picture_too(shown, tmp_path):
    text = "</script><img src=x onerror=document.title=1>"

    page = write_report(small_run(tmp_path, text), small_verdict(text), tmp_path / "page.html")

    with opened(shown, page) as one:
        one.wait_until_drawn()

        assert one.page.locator(".chosen h3").text_content() == "l2"
        assert one.page.locator("img").count() == 0
        assert is_quiet(one)


def test_a_script_that_the_policy_does_not_name_is_blocked_and_the_page_says_so(shown, golden, tmp_path):
    page = tidemark.report(golden / "typed_valid", to=tmp_path / "page.html")
    page.write_text(page.read_text().replace("'sha256-", "'sha256-0", 1))

    with opened(shown, page) as one:
        assert "Content Security Policy" in "\n".join(one.console)
        assert "needs scripts, and they are blocked here" in one.page.inner_text("#view-missing")
        assert one.page.locator("#view").is_hidden()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documents_is_what_its_page_looks_like(shown, tmp_path, name):
    picture = PICTURES[name]
    kept = Image.open(FOLDER / f"{name}.png").convert("RGB")

    taken = take(shown, picture, page_of(picture, tmp_path)).convert("RGB")

    assert taken.width == kept.width
    assert abs(taken.height - kept.height) <= kept.height * 0.05, "python -m docs.pictures makes it again"
    difference = ImageChops.difference(taken.resize(COARSE), kept.resize(COARSE))
    assert max(ImageStat.Stat(difference).mean) < 8, "python -m docs.pictures makes it again"


def test_no_picture_of_the_documents_is_large():
    assert {
        file.name: file.stat().st_size for file in FOLDER.glob("*.png") if file.stat().st_size > 150_000
    } == {}
