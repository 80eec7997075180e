"""Where the functions of a contract are, and what a run makes with them: of a join and of a chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.left_outer import CONTRACT
from tidemark.errors import BrokenContract, UsageError
from tidemark.formats.chain import Aggregate, Chain, Field, Source, Value, Window, decoders_of, read_contract
from tidemark.formats.decoded_records import decoded_values
from tidemark.formats.trace import Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.oracle.input.chain_history import row_reader
from tidemark.runner import one_run
from tidemark.runner.decoded_run import DecodedRun, code_of_functions, make_decoded
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.runner.run_options import RunOptions

DECODED = replace(CONTRACT, left=replace(CONTRACT.left, decode="decode", encode="encode"))
SOURCE = Source(
    "clicks", "at", (Field("user"),), watermark_delay_ms=1_000, required=("user",), decode="decode", encode="encode"
)  # fmt: skip
COUNTS = Chain(
    "counts",
    Aggregate(Window(SOURCE, "window", 10_000), ("user",), (Value("many", "count"),)),
    ("user", "window", "many"),
)
FUNCTIONS = """
def decode(record):
    user, at = record.value.decode().split("|")
    return {"user": user, "at": at}


def encode(event, like):
    return "|".join((event["user"], event["at"]))
"""


def code(pipeline: str) -> PipelineCode:
    return PipelineCode(pipeline)


def test_functions_are_those_of_the_pipeline_or_of_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "readers.py").write_text(FUNCTIONS)

    assert code_of_functions(code("join.py"), "", DECODED).pipeline == "join.py"
    for functions in (str(tmp_path / "readers.py"), "adteam.readers"):
        assert code_of_functions(code("join.json"), functions, DECODED).pipeline == functions
    assert code_of_functions(code("join.json"), "", CONTRACT).pipeline == "join.json"


@pytest.mark.parametrize(
    ("pipeline", "functions", "contract", "said"),
    [
        ("join.json", "", DECODED, "names functions that decode records, and 'join.json' has none"),
        ("join.py", "nowhere.py", DECODED, "there is no file 'nowhere.py'"),
        ("join.py", "readers.py", CONTRACT, "names no functions"),
        ("join.py", "readers.json", DECODED, "'readers.json' has none"),
        ("join.py", "readers", DECODED, "'readers' has none"),
    ],
)
def test_functions_that_are_nowhere_and_those_that_nobody_names_are_refused(
    pipeline, functions, contract, said
):
    with pytest.raises(UsageError, match=said) as caught:
        code_of_functions(code(pipeline), functions, contract)

    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "and .*join.json' has none"),
        ({"functions": "readers.py"}, "alone is no query"),
        ({"app": "python -m adteam.job --out {output}"}, "and .*join.json' has none"),
    ],
)
def test_a_decoded_contract_in_json_is_refused_before_a_directory_is_made(
    options, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "join.json").write_text(json.dumps(DECODED.to_json()))
    (tmp_path / "readers.py").write_text(FUNCTIONS)

    with pytest.raises(UsageError, match=said):
        one_run.run_pipeline(RunOptions("join.json", run_dir=tmp_path / "run", **options))

    assert not (tmp_path / "run").exists()


def test_the_command_names_the_functions():
    command = RunOptions("join.json", app="python -m adteam.job", functions="readers.py").command()

    assert "--functions readers.py" in command


def test_a_source_names_functions_as_a_side_does():
    assert decoders_of(COUNTS) == {"clicks": ("decode", "encode")}
    assert decoders_of(DECODED) == {"impressions": ("decode", "encode")}
    assert decoders_of(CONTRACT) == {}
    assert read_contract(COUNTS.to_json()) == COUNTS


@pytest.mark.parametrize("changes", [{"encode": None}, {"decode": "a.b"}])
def test_a_source_with_half_a_pair_is_refused(changes):
    step = Window(replace(SOURCE, **changes), "window", 10_000)

    with pytest.raises(BrokenContract, match=r"source: decode is .* and encode"):
        Chain("counts", Aggregate(step, ("user",), (Value("many", "count"),)), ("user",))


def test_sources_of_one_topic_name_the_same_functions():
    from tidemark.formats.chain import Join
    from tidemark.formats.contract import Bound, JoinKind

    other = replace(
        SOURCE, time="at2", time_column="at", fields=(Field("user2", "user"),), required=("user2",)
    )
    joined = Join(JoinKind.INNER, SOURCE, other, (("user", "user2"),), Bound(equal=True))
    assert Chain("twice", joined, ("user",)).topics == ("clicks",)

    with pytest.raises(BrokenContract, match="sources of 'clicks' name different functions"):
        Chain("twice", replace(joined, right=replace(other, decode=None, encode=None)), ("user",))


def test_a_chain_is_decoded_and_its_sentinels_are_made_by_the_function(tmp_path: Path) -> None:
    (tmp_path / "readers.py").write_text(FUNCTIONS)
    (tmp_path / "contract.json").write_text(json.dumps(COUNTS.to_json()))
    header = Header(tidemark_trace=2, pace="stepped", topics={"clicks": TopicSpec()}, slices=1)
    records = [
        Record(topic="clicks", value="ann|2026-01-01T00:00:05Z", arrival_ms=1),
        Record(topic="clicks", value="nonsense", arrival_ms=2),
    ]
    trace = tmp_path / "trace.jsonl"
    write_trace(trace, header, records)

    make_decoded(DecodedRun(code(str(tmp_path / "readers.py")), COUNTS, tmp_path), trace)

    with decoded_values(trace, COUNTS.to_json()) as value:
        read = [value(record) for record in records]
    assert row_reader(SOURCE)(read[0]) == {"user": "ann", "at": 1_767_225_605_000_000}
    assert str(read[1]).startswith("decode raised ValueError")
    with TraceReader(tmp_path / "flush.jsonl") as reader:
        [sentinel] = list(reader)
    assert sentinel.value is not None
    assert sentinel.value.split("|")[0] == "sentinel-clicks-0"


def test_a_function_that_loses_a_field_of_a_chain_is_no_inverse(tmp_path: Path) -> None:
    (tmp_path / "readers.py").write_text(FUNCTIONS.replace('event["user"]', '"nobody"'))
    (tmp_path / "contract.json").write_text(json.dumps(COUNTS.to_json()))
    header = Header(tidemark_trace=2, pace="stepped", topics={"clicks": TopicSpec()}, slices=1)
    trace = tmp_path / "trace.jsonl"
    write_trace(trace, header, [Record(topic="clicks", value="ann|2026-01-01T00:00:05Z", arrival_ms=1)])

    with pytest.raises(UsageError, match="encode is not the inverse of decode"):
        make_decoded(DecodedRun(code(str(tmp_path / "readers.py")), COUNTS, tmp_path), trace)
