"""The first files of a test: from a draft, and from a contract that was corrected; what is there is not overwritten."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.test_their_pipelines import CONTRACT
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.trace import TraceReader
from tidemark.preflight import ContractDraft
from tidemark.runner.starter_files import JOB, Starter, go_on, has_contract, write_starter

LEFTS, RIGHTS = {"id": "l", "k": "ann", "t": "2026-03-01T12:00:00Z"}, {"id": "r", "k": "ann", "t": "noon"}
DRAFT = Contract(
    "pairs", JoinKind.INNER, Side("lefts", "id", ("k",), "t", 0), Side("rights", "id", ("k",), "t", 0), Bound(0, 0),
    Output("left", "right"),
)  # fmt: skip
FILES = ["pairs.jsonl", "pairs.py", "test_pairs.py"]


@pytest.fixture
def starter(tmp_path, monkeypatch):
    """Samples of both topics in the current folder; that of the right one is no event of the contract."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text('[project]\nname = "adteam"\n')
    Path("src/adteam").mkdir(parents=True)
    Path("src/adteam/join.py").write_text("def pairs(lefts, rights):\n    return lefts\n")
    for topic, sample in (("lefts", LEFTS), ("rights", RIGHTS)):
        Path(f"{topic}.json").write_text(json.dumps(sample))
    samples = {"lefts": Path("lefts.json"), "rights": Path("rights.json")}
    return Starter(Path("tests"), False, samples, ["--no-ci"])


def is_corrected():
    Path("rights.json").write_text(json.dumps({**RIGHTS, "t": "2026-03-01T12:00:00Z"}))


def there():
    return sorted(path.name for path in Path("tests").glob("*") if path.name != "__pycache__")


def command(*words):
    return CliRunner().invoke(app, ["init", *words])


def test_the_contract_is_there_to_be_corrected_where_a_sample_is_no_event_of_it(starter):
    with pytest.raises(UsageError, match="the sample of 'rights' is no event of the contract") as refused:
        write_starter(ContractDraft(DRAFT), "adteam.join:pairs", starter)

    assert there() == ["pairs.py"]
    assert "CONTRACT = Contract(" in Path("tests/pairs.py").read_text()
    assert '"noon"' in refused.value.detail
    assert "the contract is in tests/pairs.py" in refused.value.detail
    hint = "`tidemark init tests/pairs.py --sample=lefts=lefts.json --sample=rights=rights.json --no-ci`"
    assert hint in refused.value.hint

    with pytest.raises(UsageError, match="is there already") as again:
        write_starter(ContractDraft(DRAFT), "adteam.join:pairs", starter)
    assert hint in again.value.hint


def test_the_command_that_is_named_goes_on_with_the_contract_as_it_was_corrected(starter):
    with pytest.raises(UsageError) as refused:
        write_starter(ContractDraft(DRAFT), "adteam.join:pairs", starter)
    words = refused.value.hint.partition("`tidemark init ")[2].rstrip("`").split()
    corrected = Path("tests/pairs.py").read_text().replace('time="t"', 'time="at"')
    Path("tests/pairs.py").write_text(corrected)
    for topic, sample in (("lefts", LEFTS), ("rights", RIGHTS)):
        Path(f"{topic}.json").write_text(json.dumps({**sample, "at": "2026-03-01T12:00:00Z"}))

    done = command(*words)

    assert done.exit_code == 0, done.output
    assert there() == FILES
    assert Path("tests/pairs.py").read_text() == corrected
    assert "kept: tests/pairs.py" in done.stdout
    assert "written: tests/pairs.jsonl" in done.stdout
    assert not JOB.exists()
    with TraceReader(Path("tests/pairs.jsonl")) as reader:
        times = {json.loads(record.value or "")["at"] for record in reader}
    assert len(times) > 1


def test_a_contract_elsewhere_is_tested_where_it_is(starter):
    is_corrected()
    Path("src/theirs.py").write_text(CONTRACT)

    done = command("src/theirs.py", "--sample=lefts=lefts.json", "--sample=rights=rights.json")

    assert done.exit_code == 0, done.output
    assert there() == ["test_theirs.py", "theirs.jsonl"]
    text = Path("tests/test_theirs.py").read_text()
    assert text.count('run_pipeline(HERE / "../src/theirs.py", trace=HERE / "theirs.jsonl"') == 2
    compile(text, "test_theirs.py", "exec")
    assert "pytest tests" in JOB.read_text()


def test_what_is_there_is_kept_and_what_is_missing_is_written(starter):
    is_corrected()
    write_starter(ContractDraft(DRAFT), "adteam.join:pairs", starter)
    Path("tests/test_pairs.py").write_text("own = True\n")
    Path("tests/pairs.jsonl").unlink()

    found = go_on(DRAFT, Path("tests/pairs.py"), "pairs", starter)

    assert found.written == [Path("tests/pairs.jsonl")]
    assert found.kept == [Path("tests/pairs.py"), Path("tests/test_pairs.py")]
    assert Path("tests/test_pairs.py").read_text() == "own = True\n"
    assert go_on(DRAFT, Path("tests/pairs.py"), "pairs", starter).written == []


@pytest.mark.parametrize("name", ["pairs.jsonl", "test_pairs.py"])
def test_a_draft_is_not_written_beside_files_of_its_name(name, starter):
    is_corrected()
    Path("tests").mkdir()
    Path("tests", name).write_text("")

    with pytest.raises(UsageError, match="is there already"):
        write_starter(ContractDraft(DRAFT), "adteam.join:pairs", starter)
    assert there() == [name]


def test_a_missing_sample_is_said_before_anything_is_written(starter):
    lacking = replace(starter, samples={"lefts": Path("lefts.json")})

    with pytest.raises(UsageError, match="there is no sample of rights"):
        write_starter(ContractDraft(DRAFT), "adteam.join:pairs", lacking)
    with pytest.raises(UsageError, match="there is no sample of rights"):
        go_on(DRAFT, Path("join.py"), "pairs", lacking)
    assert not Path("tests").exists()


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("CONTRACT = 1\n", True),
        ("CONTRACT: int = 1\n", True),
        ("from theirs import CONTRACT\n", True),
        ("from theirs import PROMISE as CONTRACT\n", True),
        ("def build(a, b):\n    CONTRACT = 1\n", False),
        ("PROMISE = 1\n# CONTRACT\n", False),
        ("import no such\n", True),
    ],
)
def test_a_file_with_a_contract_is_told_without_being_imported(text, known, tmp_path):
    (tmp_path / "join.py").write_text(text)

    assert has_contract(str(tmp_path / "join.py")) is known
    assert not has_contract(f"{tmp_path / 'join.py'}:build")
    assert not has_contract("adteam.join")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (CONTRACT, ["--id", "lefts=id"], "--id is given, and 'theirs.py' has a contract"),
        ("CONTRACT = (\n", [], "cannot be imported: SyntaxError"),
        ("from pipelines.clicks_per_window import CONTRACT, build\n", [], "has the contract of a chain"),
        (CONTRACT, ["--sample=rights=text.json"], "the sample 'text.json' has no record"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(text, options, says, starter):
    Path("theirs.py").write_text(text)
    Path("text.json").write_text("no JSON\n")

    done = command("theirs.py", "--sample=lefts=lefts.json", "--sample=rights=rights.json", *options)

    assert isinstance(done.exception, UsageError), (done.exception, done.output)
    assert says in done.exception.message
    assert done.exception.hint or done.exception.detail
    assert not Path("tests").exists()
