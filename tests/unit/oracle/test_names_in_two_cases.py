"""Fields whose names differ in case alone are different fields, though engines of SQL ignore the case of a name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.oracle.chain_runs import ChainRun
from tests.unit.oracle.histories import LEFT_TOPIC, RIGHT_TOPIC, Run
from tests.unit.oracle.test_chains import CLICKS, WINDOWS
from tidemark.formats import trace
from tidemark.formats.chain import Chain, Value
from tidemark.formats.contract import Filter, Term
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import seal
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.oracle import Verdict, judge
from tidemark.oracle import judgement as judging
from tidemark.oracle.large import duckdb_engine, reduction
from tidemark.oracle.sql.join_rules import column_of

NAMES = {LEFT_TOPIC: "Price", RIGHT_TOPIC: "price"}
RIGHT, WRONG = "i1 c5", "i6 c2"


class Priced(Run):
    """A run whose rows have their price in the id: that of ``i5`` is 5, on the left as ``Price``."""

    def value(self, topic: str, row: str) -> bytes:
        """``i6`` has its id twice, so that no engine of SQL reads its record."""
        name = row.split(maxsplit=1)[0]
        price = {NAMES[topic]: int(name[1:]) if name[1:].isdigit() else 1}
        text = json.dumps(json.loads(super().value(topic, row)) | price)
        return (text.replace("{", '{"iid": "twice", ', 1) if name == "i6" else text).encode()


def priced(out: str) -> Priced:
    """Two keys: ``i1`` costs less than ``c5``, ``i6`` more than ``c2``."""
    run = Priced(condition=(Term("<", left="Price", right="price"),))
    run.batch("i1 a 10, i6 b 10", "c5 a 11, c2 b 11", out=out)
    return run.flush()


def written(run: Run, path: Path) -> RunDirectory:
    """The evidence of a run in files."""
    header = Header(tidemark_trace=trace.FORMAT, pace="timed", topics=dict.fromkeys(run.rows, TopicSpec(1)))
    records = list(run.inputs())
    for name, is_sentinel in (("trace", False), ("flush", True)):
        found = [
            Record(topic=one.topic, arrival_ms=0, partition=0, value=(one.value or b"").decode())  # type: ignore[union-attr]
            for one in records
            if one.is_sentinel == is_sentinel
        ]
        write_trace(path / f"{name}.jsonl", header, found)
    found_run = RunDirectory(path)
    found_run.write_lines("batches", run.batches())
    found_run.write_lines("output", list(run.output()))
    found_run.write_json("manifest", run.manifest)
    seal(path)
    return found_run


def judged_as_large(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """The verdict of a run that is reduced."""
    was: list[reduction.Reduced | None] = []

    def reduced(evidence: RunDirectory, **_engine: object) -> reduction.Reduced | None:
        was.append(reduction.reduced(evidence, large=-1))
        return was[-1]

    monkeypatch.setattr(judging, "reduced", reduced)
    verdict = judge(written(run, path))
    assert was != [None]
    return verdict


def test_a_pair_whose_fields_differ_in_case_is_right() -> None:
    verdict = priced(RIGHT).verdict()

    assert (verdict.verdict, verdict.findings) == ("VALID", [])


def test_a_pair_that_fails_such_a_condition_is_found() -> None:
    assert priced(f"{RIGHT}, {WRONG}").findings() == {"phantom_rows": 1}
    assert priced("").findings() == {"lost_rows": 1}


@pytest.mark.parametrize("parts", [1, 3])
def test_a_large_run_is_judged_alike(parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "parts_of", lambda *_: parts)
    for name, out in (("right", RIGHT), ("wrong", f"{RIGHT}, {WRONG}"), ("lost", "")):
        (tmp_path / name).mkdir()
        run = priced(out)

        verdict = judged_as_large(run, tmp_path / name, monkeypatch)

        assert verdict.verdict == ("VALID" if name == "right" else "INVALID"), name
        assert verdict.findings_total == run.findings(), name


def test_two_fields_of_one_side_are_not_mixed_up() -> None:
    """``Price`` is compared with a number, ``price`` of the same side with the other one."""
    run = Run(condition=(Term("<", left="time_s", right="time_s"),))
    run.contract = replace(
        run.contract, left=replace(run.contract.left, filters=(Filter("Time_s", ">", 100),))
    )
    run.value = (  # type: ignore[method-assign]
        lambda topic, row: json.dumps(
            json.loads(Run.value(run, topic, row)) | {"time_s": int(row.split()[2]), "Time_s": 500}
        ).encode()
    )
    run.batch("i1 a 10, i2 b 12", "c1 a 11, c2 b 12", out="i1 c1").flush()

    assert run.verdict().verdict == "VALID"
    assert run.out(0, "i2 c2").findings() == {"phantom_rows": 1}


def test_values_of_a_chain_differ_in_case_alone() -> None:
    clicks = replace(CLICKS, values=(Value("N", "count"),))
    joined = replace(WINDOWS, right=clicks, conditions=(Term(">=", "n", "N"),))
    run = ChainRun(Chain("two_cases", joined, ("k_a", "end", "n", "N")))
    run.batch("i1 u 3, i2 u 4, i3 v 5, i4 w 12", "c1 u 5, c2 v 5, c3 v 6, c4 w 12")
    run.batch(watermark=12, out="u 10 2 1, v 10 1 -").flush(watermark=12, out="w 20 1 1")

    verdict = run.judge()

    assert (verdict.verdict, verdict.findings) == ("VALID", [])
    assert run.out(1, "v 10 1 2").judge().verdict == "INVALID"


def test_each_name_has_a_column_of_its_own_whatever_its_case() -> None:
    names = ["price", "Price", "PRICE", "$50$rice", "a b", 'a"b', "ß", "SS", "ss", "\u212a", "k", "K", ""]

    columns = [column_of(name) for name in names]

    assert columns[:2] == ["price_", "$50$rice_"]
    assert len({column.casefold() for column in columns}) == len(names)
