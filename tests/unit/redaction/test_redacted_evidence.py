"""Redacted evidence is judged as the evidence is that it was made of, and has none of its values."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import msgspec
import pytest

from tests.golden.judging import EVIDENCE, FACTS, names, read, run_command
from tests.support.counted_keys import add_keys, keys_of
from tests.support.shown_values import content_of, found_in, values_of
from tests.support.tiers import every_day
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import is_intact
from tidemark.formats.storage import store_run
from tidemark.oracle.audit_judgement import audit_with_tables

KNOWN = read(FACTS)
JUDGED = [name for name in names() if KNOWN[name]["exit_code"] != 2]
TODAY = (
    "left_outer", "full_outer_null_keys", "left_semi", "faults_spark_sink", "chain_clicked_per_window",
    "chain_windows_joined", "audit_spark_3_5", "defect_condition_bound", "defect_null_event_time",
    "mutant_full_outer_ids_exchanged", "mutant_left_outer_state_row_lost", "mutant_refs_missing",
    "mutant_sink_doubles", "typed_plan_differs", "unknown_state_problem",
)  # fmt: skip
RECORDED = EVIDENCE.parents[1] / "evidence" / "runs"


def judged(directory):
    """Exit code and what is to be the same of a verdict, whatever the values are called."""
    code, out, err = run_command("check", str(directory), "--json")
    assert not err
    verdict = json.loads(out)
    kept = ("verdict", "pipeline", "kind", "delivery", "findings_total", "unexplained_total", "defects_total",
            "counts", "goals", "asked", "waived")  # fmt: skip
    findings = Counter(
        (one["property"], one["batch"], one["read"], *one["written"], one["defect"], len(one["row"]))
        for one in verdict["findings"]
    )
    account = verdict["spark_account"]
    return {
        "code": code,
        **{name: verdict[name] for name in kept},
        "findings": findings,
        "inconclusive": len(verdict["inconclusive"]),
        "spark": account and {name: account[name] for name in account if name != "notes"},
    }


def redacted(source, target):
    code, out, err = run_command("redact", str(source), "--to", str(target))
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("name", every_day(JUDGED, TODAY))
def test_it_is_judged_alike_and_shows_no_value(name, tmp_path):
    source = shutil.copytree(EVIDENCE / name, tmp_path / "clear")
    said = redacted(source, tmp_path / "redacted")

    assert judged(tmp_path / "redacted") == judged(source)
    values = values_of(source)
    assert found_in(values, content_of(tmp_path / "redacted") + said) == []
    assert values or name.startswith(("typed", "unknown", "defect", "mutant", "regression"))


@pytest.mark.parametrize("name", ["left_outer_faults", "full_outer_spark", "chain", "left_semi"])
def test_in_parquet_it_is_the_same(name, tmp_path):
    source = shutil.copytree(RECORDED / name, tmp_path / "clear")
    store_run(source, "parquet")
    redacted(source, tmp_path / "redacted")

    assert (tmp_path / "redacted" / "trace.parquet").is_file()
    assert judged(tmp_path / "redacted") == judged(source)
    assert found_in(values_of(source), content_of(tmp_path / "redacted")) == []
    assert is_intact(tmp_path / "redacted")


def test_the_verdict_says_that_it_is_redacted(tmp_path):
    redacted(RECORDED / "left_outer", tmp_path / "redacted")
    code, out, _ = run_command("check", str(tmp_path / "redacted"))

    assert code == 0
    assert "redacted       ids and keys are salted hashes, other values are left out" in out
    assert "seal           intact" in out
    assert json.loads(run_command("check", str(tmp_path / "redacted"), "--json")[1])["redacted"] is True
    assert "reproduce" not in out
    assert run_command("check", str(tmp_path / "redacted"), "--redact")[0] == 0


def test_the_original_stays_as_it_is_and_the_salt_is_in_no_file(tmp_path):
    source = shutil.copytree(RECORDED / "inner", tmp_path / "clear")
    before = content_of(source)
    salt = tmp_path / "salt"
    salt.write_bytes(b"0123456789abcdef-a-salt")
    run_command("redact", str(source), "--to", str(tmp_path / "a"), "--redact-salt", str(salt))
    run_command("redact", str(source), "--to", str(tmp_path / "b"), "--redact-salt", str(salt))
    redacted(source, tmp_path / "c")

    assert content_of(source) == before
    assert content_of(tmp_path / "a") == content_of(tmp_path / "b")
    assert "0123456789abcdef" not in content_of(tmp_path / "a")
    outputs = [(tmp_path / one / "output.jsonl.zst").read_bytes() for one in "ac"]
    assert outputs[0] != outputs[1]
    assert RunDirectory(tmp_path / "a").manifest.redacted.salt == "file"
    assert RunDirectory(tmp_path / "c").manifest.redacted.salt == "random"


def test_check_shows_a_redacted_copy_and_leaves_the_directory_alone(tmp_path):
    source = shutil.copytree(EVIDENCE / "mutant_left_outer_row_without_input", tmp_path / "clear")
    before = content_of(source)
    code, out, err = run_command("check", str(source), "--redact", "--batches")

    assert code == 1
    assert err == ""
    assert "phantom_rows: 1" in out
    assert "unsealed" in out
    assert found_in(values_of(source), out) == []
    assert content_of(source) == before
    code, out, _ = run_command("check", str(source), "--redact", "--json")
    assert json.loads(out)["findings_total"] == {"phantom_rows": 1}
    assert found_in(values_of(source), out) == []


def test_the_tables_of_an_audit_are_written_anew(tmp_path):
    source = shutil.copytree(EVIDENCE / "audit_spark_3_5", tmp_path / "clear")
    (source / "tables").mkdir()
    for name, rows in audit_with_tables(RunDirectory(source)).tables.items():
        RunDirectory(source).write_lines(f"tables/{name}", rows)
    redacted(source, tmp_path / "redacted")

    tables = [tmp_path / one / "tables" for one in ("clear", "redacted")]
    clear, made = (
        {path.name: len(path.read_text().splitlines()) for path in one.iterdir()} for one in tables
    )
    assert clear == made
    assert sum(clear.values()) > 0
    assert found_in(values_of(source), content_of(tmp_path / "redacted")) == []


def test_what_a_broken_record_says_is_not_shown(tmp_path):
    source = shutil.copytree(EVIDENCE / "typed_valid", tmp_path / "clear")
    with (source / "output.jsonl").open("a") as file:
        file.write('{"partition": 0, "offset": 7, "secret-field": "secret-value"}\n')
    code, out, err = run_command("redact", str(source), "--to", str(tmp_path / "redacted"))

    assert code == 2
    assert "output.jsonl' cannot be read as evidence" in err
    assert "secret" not in out + err
    assert [path.name for path in tmp_path.iterdir()] == ["clear"]


def test_the_keys_of_the_state_have_the_pseudonyms_of_its_rows(tmp_path):
    source = RunDirectory(shutil.copytree(EVIDENCE / "left_outer", tmp_path / "clear"))
    keys = keys_of(source.state())
    keys[1] = msgspec.structs.replace(keys[1], count=keys[1].count + 1)
    add_keys(source, keys)
    redacted(source.path, tmp_path / "redacted")

    made = RunDirectory(tmp_path / "redacted")
    assert [(one.batch, one.side, one.count) for one in made.state_keys()] == [
        (one.batch, one.side, one.count) for one in keys
    ]
    assert {one.key for one in made.state_keys()} == {row.key for row in made.state()}
    assert {one.key for one in keys}.isdisjoint(one.key for one in made.state_keys())
    assert judged(made.path) == judged(source.path)
    assert judged(made.path)["findings_total"]["wrong_counts"] == 1


def test_evidence_that_contradicts_its_manifest_is_not_redacted(tmp_path):
    source = shutil.copytree(RECORDED / "inner", tmp_path / "clear")
    (source / "seal.json").unlink()
    (source / "state.jsonl.zst").unlink()
    code, _, err = run_command("redact", str(source), "--to", str(tmp_path / "redacted"))

    assert code == 2
    assert "state" in err
    assert not (tmp_path / "redacted").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "DIR", "--redact-salt", "SALT"], "without --redact"),
        (["redact", "DIR", "--to", "FULL"], "is not empty"),
        (["redact", "DIR", "--to", "NEW", "--redact-salt", "SHORT"], "has 5 bytes"),
        (["redact", "DIR", "--to", "NEW", "--redact-salt", "NONE"], "cannot be read"),
        (["redact", "FULL", "--to", "NEW"], "is not a run directory"),
        (["redact", "CHANGED", "--to", "NEW"], "is not as it was sealed"),
        (["redact", "REDACTED", "--to", "NEW"], "is redacted already"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments, says, tmp_path):
    places = {
        name: tmp_path / name.lower()
        for name in ("SALT", "FULL", "NEW", "SHORT", "NONE", "CHANGED", "REDACTED")
    }
    places["DIR"] = RECORDED / "inner"
    places["SALT"].write_bytes(b"0123456789abcdef")
    places["SHORT"].write_bytes(b"short")
    (places["FULL"] / "sub").mkdir(parents=True)
    shutil.copytree(RECORDED / "inner", places["CHANGED"])
    (places["CHANGED"] / "batches.jsonl.zst").unlink()
    if "REDACTED" in arguments:
        redacted(RECORDED / "inner", places["REDACTED"])
    code, _, err = run_command(*(str(places.get(word, word)) for word in arguments))

    assert code == 2
    assert says in err
    assert not places["NEW"].exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith((".redacting", ".clear"))] == []
