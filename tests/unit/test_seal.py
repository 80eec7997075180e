"""The seal of a run directory: any change of a file that a run wrote is seen, named, and exits with 2."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

import tidemark
from tidemark.cli import app
from tidemark.errors import EXIT_USAGE, BrokenEvidence, TidemarkError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import seal

GOLDEN = Path(__file__).parents[1] / "golden" / "evidence" / "typed_valid"


@pytest.fixture
def run(tmp_path):
    """A sealed run directory, with a log below it."""
    path = tmp_path / "run"
    shutil.copytree(GOLDEN, path)
    (path / "logs").mkdir()
    (path / "logs" / "pipeline.log").write_text("started\n")
    seal(path)
    return path


def refused(path):
    with pytest.raises(TidemarkError) as raised:
        tidemark.check(path)
    assert raised.value.exit_code == EXIT_USAGE
    return raised.value


def test_an_intact_directory_is_judged_and_its_verdict_is_not_sealed(run):
    assert tidemark.check(run, save=True).sealed is True
    assert tidemark.check(run).verdict == "VALID"  # with the verdict.json that the first check wrote

    names = json.loads((run / "seal.json").read_text())["files"]

    assert {"manifest.json", "trace.jsonl", "output.jsonl", "logs/pipeline.log"} <= names.keys()
    assert not {"seal.json", "verdict.json"} & names.keys()
    assert names["output.jsonl"]["records"] == len((run / "output.jsonl").read_text().splitlines())


def test_a_directory_without_a_seal_is_judged_and_said_to_be_unsealed(run):
    (run / "seal.json").unlink()
    done = CliRunner().invoke(app, ["check", str(run)])

    assert done.exit_code == 0
    assert "seal           unsealed: nothing shows that the evidence is as a run wrote it" in done.stdout

    assert CliRunner().invoke(app, ["seal", str(run)]).exit_code == 0
    assert "seal           intact" in CliRunner().invoke(app, ["check", str(run)]).stdout


def test_a_directory_that_cannot_be_read_is_not_sealed(run):
    (run / "seal.json").unlink()
    with (run / "output.jsonl").open("a") as output:
        output.write('{"partition": 0}\n')

    done = CliRunner().invoke(app, ["seal", str(run)])

    assert isinstance(done.exception, BrokenEvidence)
    assert "output.jsonl" in str(done.exception)
    assert not (run / "seal.json").exists()


@pytest.mark.parametrize(
    "name", ["manifest.json", "trace.jsonl", "batches.jsonl", "output.jsonl", "logs/pipeline.log"]
)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + b"\n"), "{name} was changed: "),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"), "{name} was changed: "),
        (lambda path: path.write_bytes(b""), "{name} was changed: "),
        (lambda path: path.unlink(), "{name} is missing"),
    ],
    ids=["longer", "another byte", "emptied", "gone"],
)
def test_a_changed_file_is_refused_by_name(run, name, damage, said):
    if name == "manifest.json" and "missing" in said:
        return  # then it is no run directory
    damage(run / name)

    error = refused(run)

    assert "is not as it was sealed" in error.message
    assert said.format(name=name) in error.detail


@pytest.mark.parametrize("name", ["faults.jsonl", "state.jsonl.zst", "trace.jsonl.zst", "progress.jsonl"])
def test_evidence_that_was_added_is_refused(run, name):
    (run / name).write_bytes(zstandard.compress(b"{}\n"))

    assert f"{name} was added" in refused(run).detail


def test_a_file_that_no_judgement_reads_may_be_added(run):
    (run / "notes.md").write_text("seen on Monday\n")

    assert tidemark.check(run).sealed is True


def test_all_differences_are_counted_and_the_first_are_shown(run):
    for name in ("trace", "flush", "batches", "output"):
        (run / f"{name}.jsonl").unlink()
    (run / "logs" / "pipeline.log").unlink()
    (run / "state.jsonl").write_text("")

    detail = refused(run).detail.splitlines()

    assert len(detail) == 6
    assert detail[-1] == "and 1 more"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"tidemark_seal": 1}', '{"tidemark_seal": 1, "files": {"a": 1}}', "[" * 100_000, "\xff"],
)
def test_a_seal_that_cannot_be_read_is_refused(run, text):
    (run / "seal.json").write_text(text, encoding="latin-1")

    assert "seal.json' cannot be read as a seal" in refused(run).message


def test_a_seal_of_another_format_is_refused(run):
    (run / "seal.json").write_text('{"tidemark_seal": 2, "files": {}}')

    assert "seal.json has format 2; this version reads 1" in refused(run).detail


def test_a_link_in_the_place_of_a_sealed_file_is_refused(run, tmp_path):
    shutil.move(run / "output.jsonl", tmp_path / "elsewhere.jsonl")
    (run / "output.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")

    assert "it is no regular file" in refused(run).detail


@pytest.mark.parametrize(
    "name", ["trace", "flush", "batches", "output", "state", "state_keys", "faults", "progress", "executors"]
)
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink(path.name, path)], ids=["pipe", "folder", "loop"]
)
def test_what_is_no_file_is_refused_without_a_seal_too(run, name, make):
    (run / "seal.json").unlink()
    path = run / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    make(path)

    error = refused(run)

    assert str(path) in error.message + error.detail


def with_records(run, **records):
    """The unsealed directory, whose manifest counts records."""
    (run / "seal.json").unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["records"] = RunDirectory(run).count_records() | records
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


def test_the_manifest_counts_the_records_of_each_file(run):
    counted = with_records(run)

    assert tidemark.check(counted).verdict == "VALID"
    assert json.loads((run / "manifest.json").read_text())["records"] == {
        "trace": 3, "flush": 2, "batches": 3, "output": 2
    }  # fmt: skip


@pytest.mark.parametrize("name", ["trace", "flush", "batches", "output"])
def test_a_file_with_another_number_of_records_than_the_manifest_says_is_refused(run, name):
    path = with_records(run) / f"{name}.jsonl"
    lines = [line for line in path.read_text().splitlines() if line]
    path.write_text("\n".join(lines[:-1]) + "\n")
    there = len(lines) - 1 - (name in ("trace", "flush"))

    assert refused(run).detail == f"it has {there} records; the manifest says that it has {there + 1}"


@pytest.mark.parametrize("name", ["state", "state_keys", "faults", "progress", "executors"])
def test_a_file_that_the_manifest_counts_and_that_is_gone_is_refused(run, name):
    error = refused(with_records(run, **{name: 7}))

    assert f"{name}.jsonl" in error.message
    assert error.detail == "it is missing; the manifest says that it has 7 records"


def test_a_file_that_is_there_twice_is_refused(run):
    (run / "seal.json").unlink()
    (run / "output.jsonl.zst").write_bytes(zstandard.compress((run / "output.jsonl").read_bytes()))

    assert "output.jsonl.zst is there, too" in refused(run).detail
