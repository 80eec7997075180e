"""A run of nested records with decimals, text, doubles or dates for numbers has the verdict of the plain one."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.tiers import every_day
from tests.unit.oracle.test_large import both, drawn, facts, write
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Contract, Filter, Side, Term
from tidemark.formats.events import read_time_us, write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.record_fields import Field
from tidemark.formats.seal import seal
from tidemark.formats.trace import Record, TraceReader, write_trace
from tidemark.oracle import judge
from tidemark.oracle.spark.pushdown import as_planned, place
from tidemark.oracle.spark.time_ranges import US_PER_MS

pytestmark = [pytest.mark.not_smoke]

SEEDS = 24
DAY = date(2026, 1, 1)
Kind = tuple[Field, Callable[[int], Any], Callable[[int], Any]]
"""How a number is described; what a record has for it, and what the contract."""
KINDS: dict[str, Kind] = {
    "decimal": (Field("n", "v.n", "decimal(6,2)"), lambda n: n / 4, lambda n: f"{n / 4:.3f}"),
    "decimal text": (Field("n", "v.n", "decimal(30,2)"), lambda n: f"{n}.00", str),
    "text": (Field("n", "v.n", "string"), lambda n: f"é{n:03}", lambda n: f"é{n:03}"),
    "double": (Field("n", "v.n", "double"), lambda n: n - 3.5, lambda n: n - 3.5),
    "rounded": (Field("n", "v.n", "string", "double", 1), lambda n: f"{n / 10 + 0.04:.2f}", lambda n: round(n / 10, 1)),
    "date": (Field("n", "v.n", "date"), lambda n: str(DAY + timedelta(n)), lambda n: str(DAY + timedelta(n))),
    "bigint of text": (Field("n", "v.n", "string", "bigint"), str, lambda n: n),
}  # fmt: skip
FORMS = {
    "iso": write_time,
    "epoch-us": lambda us: us,
    "yyyy-MM-dd HH:mm:ss.SSSSSS": lambda us: read_back(us).replace("T", " "),
}


def read_back(us: int) -> str:
    """A time with six digits and without an offset."""
    text = write_time(us).removesuffix("Z")
    return text if len(text) == 26 else text + "000"


def described(contract: Contract, kind: str, form: str) -> Contract:
    """The contract of the same run, with what it names deeper in the records."""
    field, _, of_contract = KINDS[kind]

    def literal(value: Any) -> Any:
        return None if value is None else of_contract(value)

    def side(about: Side) -> Side:
        keys = tuple(f"`k.s`[{key[1:]}]" if key[0] == "k" else key for key in about.keys)
        filters = tuple(Filter(one.field, one.op, literal(one.value)) for one in about.filters)
        return replace(
            about, id="meta.id", keys=keys, time="meta.t", filters=filters, fields=(field,), time_format=form
        )

    def terms(of: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(replace(term, value=literal(term.value)) for term in of)

    left, right = side(contract.left), side(contract.right)
    return replace(
        contract, left=left, right=right, condition=terms(contract.condition), where=terms(contract.where)
    )


def nested(record: Record, kind: str, form: str) -> Record:
    """A record that says the same."""
    try:
        fields = json.loads(record.value or "")
    except ValueError:
        return record
    if not isinstance(fields, dict):
        return record
    found: dict[str, Any] = {"meta": {"id": fields.get("id")}}
    time_us = read_time_us(fields.get("t"))
    if time_us is not None:
        found["meta"]["t"] = FORMS[form](time_us)
    keys = [fields.get("k0"), fields.get("k1")]
    found["k.s"] = keys[: 1 + ("k1" in fields)]
    if type(fields.get("n")) is int:
        found["v"] = {"n": KINDS[kind][1](fields["n"])}
    return msgspec.structs.replace(record, value=json.dumps(found))


def rewritten(run: RunDirectory, path: Path, kind: str, form: str) -> RunDirectory:
    """The run with such records and such a contract."""
    shutil.copytree(run.path, path)
    copy = RunDirectory(path)
    for name in ("trace", "flush"):
        with TraceReader(copy.file(name)) as reader:
            header, records = reader.header, [nested(one, kind, form) for one in reader]
        copy.file(name).unlink()
        write_trace(path / f"{name}.jsonl", header, records)
    manifest = run.manifest
    manifest.contract = described(Contract.from_json(manifest.contract), kind, form).to_json()
    manifest.parquet_sha256 = {}
    manifest.trace_sha256 = manifest.flush_sha256 = None
    copy.write_json("manifest", manifest)
    seal(path)
    return copy


def outcome(run: RunDirectory) -> dict[str, Any]:
    """What does not name keys and places in a verdict."""
    found = facts(judge(run))
    kept = {
        name: found[name]
        for name in ("verdict", "findings_total", "counts", "rows", "watermarks")
        if name in found
    }
    return kept | {"goals": Counter(map(str, found["goals"].values())), "doubts": len(found["inconclusive"])}


@pytest.mark.parametrize("kind", every_day(KINDS, ("decimal text", "date")))
def test_described_values_have_the_verdict_of_plain_ones(kind: str, tmp_path: Path) -> None:
    verdicts: Counter[str] = Counter()
    compared = 0
    for seed in range(SEEDS):
        rng = random.Random(f"described {kind} {seed}")
        (tmp_path / "plain").mkdir()
        run = write(drawn(seed, rng), tmp_path / "plain", rng)
        contract = Contract.from_json(run.manifest.contract)
        form = rng.choice(list(FORMS))
        try:
            if place(as_planned(contract)).limits_ms == ((), ()):
                wanted = outcome(run)
                assert outcome(rewritten(run, tmp_path / "nested", kind, form)) == wanted, (seed, form)
                verdicts.update([wanted["verdict"]])
                compared += any(contract.compared)
        except TidemarkError:
            pass
        for name in ("plain", "nested"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
    assert min(verdicts["VALID"] + verdicts["UNKNOWN"], verdicts["INVALID"], compared) > 2, (
        verdicts,
        compared,
    )


def test_a_large_run_of_described_values_is_judged_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random("described and large")
    (tmp_path / "plain").mkdir()
    run = rewritten(write(drawn(3, rng), tmp_path / "plain", rng), tmp_path / "nested", "decimal", "epoch-us")

    whole, part, was_reduced = both(run, monkeypatch)

    assert not was_reduced
    assert whole == part


def test_times_are_microseconds() -> None:
    assert read_time_us(read_back(1_767_225_600_000_500)) == 1_767_225_600_000_500
    assert read_time_us(read_back(1_767_225_600 * US_PER_MS * 1000)) == 1_767_225_600_000_000
