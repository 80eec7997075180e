"""What a seed is, and what a verdict becomes in its outcome."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.unit.test_soak import judged
from tidemark.campaigns.fuzz import run_seed
from tidemark.campaigns.random_cases import generate
from tidemark.campaigns.warm_driver import CaseRun
from tidemark.errors import PipelineFailed, TestbedError
from tidemark.formats.evidence import RunDirectory
from tidemark.kafka import client as kafka

DIGEST = """
import hashlib, msgspec
from tidemark.campaigns.random_cases import generate
cases = map(generate, range(150))
told = [(case.records, case.flush, case.mode, case.traits, case.compacted) for case in cases]
print(hashlib.sha256(msgspec.json.encode(told)).hexdigest())
"""


def test_a_seed_gives_the_same_case_in_every_process():
    said = [
        subprocess.run(
            [sys.executable, "-c", DIGEST], env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True, capture_output=True, text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1]


def outcome(verdict, folder):
    return run_seed(
        1, SimpleNamespace(as_possible=lambda case: case, run=lambda _case, _folder: verdict), folder
    )


def test_findings_are_counted_in_all_not_those_kept_as_examples(tmp_path):
    one = outcome(judged(), tmp_path)

    assert one.defects == {"left-semi": 70}
    assert one.problem == "lost_rows 430; row None"


def test_a_seed_with_nothing_but_known_defects_holds(tmp_path):
    one = outcome(judged(findings_total={"lost_rows": 70}, unexplained_total={}), tmp_path)

    assert one.holds
    assert one.defects == {"left-semi": 70}


def test_a_query_that_fails_is_the_problem_not_the_topics_that_cannot_be_deleted(monkeypatch, tmp_path):
    def fails(error):
        raise error

    monkeypatch.setattr(kafka, "create_topics", lambda *_: None)
    monkeypatch.setattr(kafka, "delete_topics", lambda *_: fails(TestbedError("topics cannot be deleted")))
    stack = SimpleNamespace(work_dir=lambda name: tmp_path / name)
    one = CaseRun(
        generate(1),
        RunDirectory(tmp_path / "run"),
        SimpleNamespace(stack=stack, broker={"bootstrap.servers": "here"}),
    )

    with pytest.raises(PipelineFailed) as caught:
        one.go(lambda _run: fails(PipelineFailed("no such column")))

    assert caught.value.__notes__ == ["TestbedError: topics cannot be deleted"]
