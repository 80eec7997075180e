"""The command line as a person meets it: one clear error, the right exit code, evidence kept on Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tidemark.formats.evidence import RunDirectory
from tidemark.waiting import wait_until

pytestmark = [pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
COMMAND_S = 300.0


def tidemark(*arguments, within_s=COMMAND_S, **options):
    """Run the command line to its end; a traceback is a failure whatever was expected."""
    done = subprocess.run(
        [sys.executable, "-m", "tidemark", *map(str, arguments)],
        capture_output=True, text=True, timeout=within_s, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.smoke
def test_an_unknown_pipeline_is_named_with_those_that_there_are():
    done = tidemark("run", "outer_left")

    assert done.returncode == 2
    assert "there is no pipeline 'outer_left'" in done.stderr
    assert (
        "first_impressions, flights_weather, full_outer, impressions_once, inner, left_outer" in done.stderr
    )


@pytest.mark.smoke
def test_a_broken_line_of_a_trace_is_named_by_its_number(tmp_path):
    trace = tmp_path / "broken.jsonl"
    header = {"tidemark_trace": 2, "pace": "stepped", "topics": {"impressions": {}, "clicks": {}}}
    trace.write_text(f'{json.dumps(header)}\n{{"topic": "clicks", "arrival_ms": 1}}\n{{"topic": 7}}\n')

    done = tidemark("run", "inner", "--trace", trace, "--run-dir", tmp_path / "run")

    assert done.returncode == 2
    assert "line 3 of" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "inner", "--trace", "nowhere.jsonl"], "there is no trace 'nowhere.jsonl'"),
        (["run", "inner", "--pace", "hurried"], "'hurried' is not one of stepped, backlog, timed"),
        (["run", "inner", "--sink", "parquet"], "'parquet' is not one of"),
        (["check", "nowhere"], "'nowhere' is not a run directory"),
        (["replay", "nowhere.jsonl", "--bootstrap", "127.0.0.1:1"], "nowhere.jsonl"),
        (["run", "inner", "--kafka-conf", "nothing"], "'nothing' cannot be read as settings"),
        (
            ["ledger", "--bootstrap", "127.0.0.1:1", "--kafka-conf", "nothing"],
            "'nothing' cannot be read as settings",
        ),
    ],
)
def test_wrong_usage_says_what_and_leaves_with_2(arguments, says, tmp_path):
    done = tidemark(*arguments, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert says in " ".join(done.stderr.split())


def test_a_trace_for_another_pipeline_is_refused(tmp_path):
    trace = tmp_path / "trace.jsonl"
    header = {"tidemark_trace": 2, "pace": "stepped", "topics": {"flights": {}, "weather": {}}}
    trace.write_text(json.dumps(header) + "\n")

    done = tidemark("run", "inner", "--trace", trace, "--run-dir", tmp_path / "run")

    assert done.returncode == 2
    assert "the trace has the topics flights, weather" in done.stderr


@pytest.fixture(scope="module")
def ran(stack, tmp_path_factory):
    """A run by the command, and its directory."""
    run_dir = tmp_path_factory.mktemp("command") / "run"
    options = ("--impressions", 300, "--seed", 3, "--json", "--run-dir", run_dir)
    return tidemark("run", "inner", *options), run_dir


@pytest.mark.smoke
def test_a_run_prints_one_json_object(ran):
    done, run_dir = ran

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    wanted = {"verdict", "delivery", "trace_sha256", "run_dir", "findings", "counts", "goals", "faults"}
    assert wanted <= set(shown)
    assert (shown["verdict"], shown["delivery"]) == ("VALID", "exactly-once")
    again = tidemark("check", run_dir, "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["counts"] == shown["counts"]


def test_the_ledger_shows_the_last_batch_of_each_partition_of_a_query(ran, stack):
    run = RunDirectory(ran[1])
    written = Counter(
        (dict(record.headers)["partition"], dict(record.headers)["batch"]) for record in run.output()
    )
    last = {name: max(int(batch) for of, batch in written if of == name) for name, _ in written}

    query = run.manifest.query_id
    done = tidemark("ledger", "--bootstrap", stack.bootstrap_servers, "--query", query, "--json")

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert {str(row["partition"]): row["batch"] for row in shown} == last
    assert all(row["rows"] == written[str(row["partition"]), str(row["batch"])] for row in shown)
    table = tidemark("ledger", "--bootstrap", stack.bootstrap_servers, "--query", query[:8])
    assert table.stdout.count(query) == len(last)


def test_a_ledger_that_cannot_be_reached_is_not_an_empty_one():
    done = tidemark("ledger", "--bootstrap", "127.0.0.1:1")

    assert done.returncode == 4
    assert "no Kafka broker answers at '127.0.0.1:1'" in done.stderr


def test_ctrl_c_in_the_middle_of_a_run_stops_clean_and_keeps_the_evidence(stack, tmp_path):
    run_dir, pipeline = tmp_path / "run", tmp_path / "interrupted.py"
    source = (ROOT / "pipelines" / "left_outer.py").read_text()
    pipeline.write_text(source.replace('name="left_outer"', 'name="interrupted"'))
    command = [
        sys.executable,
        "-m",
        "tidemark",
        "run",
        pipeline,
        "--impressions",
        "600",
        "--run-dir",
        run_dir,
    ]
    work = stack.work_dir("of-this-test").parent  # other tests' runs are there too

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(
            lambda: list(work.glob("interrupted-*/checkpoint/commits/1")),
            COMMAND_S,
            lambda: "the second commit",
        )
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=COMMAND_S)

    assert process.returncode == 130, said
    assert "interrupted; the evidence so far is in" in said
    assert "Traceback" not in said
    for name in ("manifest.json", "batches.jsonl", "output.jsonl", "trace.jsonl"):
        assert (run_dir / name).is_file(), name
    judged = tidemark("check", run_dir)
    assert judged.returncode in (0, 3), judged.stdout  # what was done until then is right
    assert list(work.glob("interrupted-*")) == []
