"""The index of a folder of runs."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

import tidemark
from tests.unit.reports.small_run import fault, small_run, small_verdict
from tidemark.errors import UsageError
from tidemark.reports.campaign_facts import (
    CampaignFacts,
    FactsWriter,
    FactTable,
    FailedItem,
    read_facts,
    shrunk_in,
    write_facts,
)
from tidemark.reports.reported_runs import index_of_campaign
from tidemark.reports.run_index import CampaignLine, FolderFacts, RunLine, index_page, run_line, runs_below
from tidemark.reports.run_statistics import fault_statistics

HOSTILE = "</script><img src=x onerror=alert(1)>\"'><b>{{ 7 }}"


class IndexParts(HTMLParser):
    """Elements with their attributes, links, and the text that is shown."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page.decode())

    def handle_starttag(self, tag, attributes):
        self.elements.append(" ".join([tag, *sorted(name for name, _ in attributes)]))
        self.links += [value or "" for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += f" {data.strip()}"


@pytest.fixture
def folder(golden, tmp_path) -> Path:
    """Three runs, one of which cannot be read, one of them deeper; and a folder that is no run."""
    for name in ("typed_valid", "unreadable_no_output"):
        shutil.copytree(golden / name, tmp_path / name)
    shutil.copytree(golden / "typed_missing_null", tmp_path / "night 1" / "typed_missing_null")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_folder_of_runs_has_an_index_with_a_link_to_the_page_of_each(folder):
    assert tidemark.report(folder) == folder / "index.html"

    page = IndexParts((folder / "index.html").read_bytes())
    assert "1 INVALID, 1 VALID, 1 refused" in " ".join(page.text.split())
    assert "output.jsonl' cannot be read" in page.text
    pages = [link for link in page.links if not link.startswith("#")]
    assert pages == ["night%201/typed_missing_null/report.html", "typed_valid/report.html"]
    assert (folder / "night 1" / "typed_missing_null" / "report.html").is_file()
    assert not (folder / "unreadable_no_output" / "report.html").exists()


def test_an_index_elsewhere_links_to_the_same_pages(folder):
    to = folder / "empty" / "all.html"

    assert tidemark.report(folder, to=to) == to

    assert 'href="../typed_valid/report.html"' in to.read_text()
    with pytest.raises(UsageError, match=r"all\.html' cannot be written"):
        tidemark.report(folder, to=folder / "nowhere" / "all.html")


def test_a_run_directory_is_no_folder_of_runs(golden, tmp_path):
    assert runs_below(golden / "typed_valid") == []
    with pytest.raises(UsageError, match="is not a run directory"):
        tidemark.report(tmp_path)


def test_no_value_of_a_run_is_markup(tmp_path):
    def elements(text: str) -> list[str]:
        run = small_run(tmp_path, text)
        line = run_line(run, small_verdict(text), text, run.path / "report.html")
        other = RunLine(name=text, link=text, verdict="refused", pipeline=text, said=text)
        campaign = CampaignFacts(
            name=text, said=text, command=text, resume=text, complete=False, asked=[(text, text)],
            came=[(text, text)], failed=[FailedItem(name=text, why=text, run_dir=text, command=text, shrunk=text)],
            tables=[FactTable(title=text, head=[text], rows=[[text]])],
        )  # fmt: skip
        below = CampaignLine(text, text, text, text, complete=True, wrong=True)
        return IndexParts(index_page([line, other], FolderFacts((), campaign, [text], [below]))).elements

    assert elements(HOSTILE) == elements("a")


def test_a_line_says_what_was_run_and_what_is_wrong(tmp_path):
    line = run_line(small_run(tmp_path), small_verdict(), "night/1", tmp_path / "report.html")

    assert (line.verdict, line.said) == (
        "INVALID",
        "30 of 60 rows: x; 1 finding of x, a known defect of Spark, accepted",
    )
    assert (line.faults, line.sink, line.spark, line.took) == ("kill driver", "x", "x", "45 s")
    assert (line.name, line.rows, line.recovery_s) == ("night/1", 6, 9.5)
    assert line.rate == pytest.approx(6 / 45)


def test_recoveries_have_a_distribution_by_component_and_by_point_and_lead_to_their_run():
    def faults(*seconds):
        return [msgspec.structs.replace(fault(), recovery_s=one, injected=one is not None) for one in seconds]

    runs = [("a", faults(*map(float, range(1, 20)))), ("b", faults(40.0, None))]
    by_component, [killed] = fault_statistics(runs)

    assert [(one.name, one.injected, one.missed) for one in by_component] == [
        ("all", 20, 1),
        ("driver", 20, 1),
    ]
    assert (killed.name, killed.point, killed.shown) == (
        "kill driver",
        "written",
        ["1.0", "10.5", "19.0", "40.0"],
    )
    assert [killed.dots[0].run, killed.dots[-1].run, killed.runs] == [0, 1, [0, 1]]
    assert killed.dots[-1].said == "b, batch 2: 40.0 s"
    lines = [RunLine(name=name, link=f"{name}.html", verdict="VALID", pipeline="p", journal=found, rate=2.0)
             for name, found in runs]  # fmt: skip
    page = index_page(lines).decode()
    assert (
        page.count('<a href="b.html"><circle') == 3 + 1
    )  # its recovery (of all, of drivers, at its point), and its rate
    assert "b, batch 2: 40.0 s" in page


def test_the_index_of_a_campaign_has_what_it_left_and_hides_no_result(folder):
    assert index_of_campaign(folder / "empty") is None
    assert index_of_campaign(folder / "nowhere") is None
    (folder / "index.html").mkdir()  # in the way
    assert index_of_campaign(folder) is None
    (folder / "index.html").rmdir()

    assert index_of_campaign(folder) == folder / "index.html"

    assert (folder / "typed_valid" / "report.html").is_file()


FACTS = CampaignFacts(
    name="fuzz", said="8 of 10 seeds hold.", command="tidemark fuzz --first 0 --seeds 10", complete=True,
    resume="tidemark fuzz --first 0 --seeds 10 --log outcomes.jsonl --resume", asked=[("seeds", "10")],
    came=[("seeds by verdict", "VALID 8, INVALID 1")],
    failed=[
        FailedItem(name="seed 3", why="missing_nulls 1", command="tidemark fuzz 3",
                   run_dir="night 1/typed_missing_null"),
        FailedItem(name="seed 4", why="the broker is gone", command="tidemark fuzz 4"),
    ],
    tables=[FactTable(title="Seeds by bound and join", head=["bound", "inner"], rows=[["none", "7"]])],
    runs=["night 1/typed_missing_null"],
)  # fmt: skip


def text_of(index: Path) -> str:
    return " ".join(IndexParts(index.read_bytes()).text.split())


def test_the_index_of_a_campaign_says_what_was_asked_what_came_and_what_failed_with_its_command(folder):
    write_facts(folder, FACTS)

    text = text_of(tidemark.report(folder))

    assert text.count("8 of 10 seeds hold.") == 1
    assert "fuzz: 1 run " in text
    assert "seeds by verdict VALID 8, INVALID 1" in text
    assert "seed 3 missing_nulls 1 tidemark fuzz 3 seed 4 the broker is gone tidemark fuzz 4" in text
    assert "Seeds by bound and join bound inner none 7" in text
    assert "is of another campaign): typed_valid, unreadable_no_output." in text
    assert "not complete" not in text
    links = IndexParts((folder / "index.html").read_bytes()).links
    assert links.count("night%201/typed_missing_null/report.html") == 2  # what does not hold, and the run
    assert not (folder / "typed_valid" / "report.html").exists()


def test_what_was_made_smaller_of_a_run_is_led_to(folder):
    small = folder / "night 1" / "typed_missing_null-shrunk"
    small.mkdir()
    (small / "shrunk.json").write_text("{}")
    shrunk = shrunk_in(folder, folder / "night 1" / "typed_missing_null")
    failed = [msgspec.structs.replace(FACTS.failed[0], shrunk=shrunk), FACTS.failed[1]]
    write_facts(folder, msgspec.structs.replace(FACTS, failed=failed))

    text = text_of(tidemark.report(folder))

    assert "missing_nulls 1 made smaller : night 1/typed_missing_null-shrunk tidemark fuzz 3" in text
    links = IndexParts((folder / "index.html").read_bytes()).links
    assert links.count("night%201/typed_missing_null-shrunk/smallest/report.html") == 1
    assert shrunk_in(folder, folder / "typed_valid") == ""


def test_a_campaign_that_was_interrupted_says_so_and_how_it_goes_on(folder):
    write_facts(folder, msgspec.structs.replace(FACTS, complete=False))

    text = text_of(tidemark.report(folder))

    assert "So far: 8 of 10 seeds hold." in text
    assert (
        "still running. This goes on with it: tidemark fuzz --first 0 --seeds 10 --log outcomes.jsonl --resume"
        in text
    )


def test_a_campaign_of_which_everything_holds_has_an_index_without_runs(tmp_path):
    write_facts(tmp_path, msgspec.structs.replace(FACTS, failed=[], runs=[]))

    files = {"markdown": tmp_path / "comment.md", "junit": tmp_path / "junit.xml"}
    text = text_of(tidemark.report(tmp_path, **files))

    assert all(file.stat().st_size for file in files.values())
    assert "fuzz: 0 runs" in text
    assert "What does not hold" not in text
    assert "Pipelines" not in text


def test_the_index_of_a_folder_of_campaigns_leads_to_the_page_of_each(folder):
    write_facts(folder / "night 1", FACTS)
    assert "fuzz night 1 8 of 10 seeds hold." in text_of(tidemark.report(folder))

    tidemark.report(folder / "night 1")
    tidemark.report(folder)

    assert "night%201/index.html" in IndexParts((folder / "index.html").read_bytes()).links


def test_a_refused_run_counts_with_its_faults(folder):
    run = folder / "unreadable_no_output"
    (run / "faults.jsonl").write_bytes(msgspec.json.encode(fault()) + b"\n")

    assert "kill driver written 1 0 9.5" in text_of(tidemark.report(folder))


def test_facts_are_written_while_a_campaign_goes_on_and_end_no_campaign(tmp_path):
    writer = FactsWriter(tmp_path / "soak", often=2)
    facts = [msgspec.structs.replace(FACTS, said=str(number)) for number in range(6)]
    seen = []
    for one in facts[1:]:
        writer.note(lambda one=one: one)
        seen.append(read_facts(tmp_path / "soak").said)

    assert seen == ["1", "2", "2", "4", "4"]
    assert not read_facts(tmp_path / "soak").complete
    writer.end(FACTS, complete=True)
    assert read_facts(tmp_path / "soak") == FACTS
    (tmp_path / "file").write_text("")
    FactsWriter(tmp_path / "file" / "soak").note(lambda: FACTS)  # a folder that cannot be made
    (tmp_path / "soak" / "campaign.json").write_text("{}")
    assert read_facts(tmp_path / "soak") is None
