"""A stack whose brokers want a login: everything works with it, and no password is written or shown anywhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.backends import BACKENDS, must_be_available
from tests.e2e.conftest import shown
from tests.e2e.exposed import command_lines, files_with
from tests.support.tiers import every_day
from tidemark.campaigns.fuzz import run_seed
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.errors import KafkaRefused, TestbedError
from tidemark.formats.client_settings import CONF_VARIABLE, read_client_settings
from tidemark.runner import RunOptions, run_pipeline
from tidemark.runner.programs import program_environment
from tidemark.runner.run_options import report_nothing
from tidemark.stack import StackSpec, down, lease, up
from tidemark.stack.components.kafka_security import FOLDER
from tidemark.stack.spec import KAFKA_SECURITY, External

OWN = '''"""The left outer join as a whole job, with Spark's sink."""

from pipelines.left_outer import CONTRACT, build
from pyspark.sql.functions import struct, to_json

__all__ = ["CONTRACT", "start"]


def start(spark, io):
    topics = "impressions", "clicks"
    sides = [spark.readStream.format("kafka").options(**io.source(name)).load() for name in topics]
    records = build(*sides).select(to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value"))
    writer = records.writeStream.format("kafka").options(**io.kafka).option("topic", io.output)
    return writer.option("checkpointLocation", io.checkpoint).trigger(**io.trigger).start()
'''
JOB = '''"""The same as a program with a driver of its own."""

import argparse

from pipelines.left_outer import build
from pyspark.sql import SparkSession
from pyspark.sql.functions import struct, to_json

parser = argparse.ArgumentParser()
for name in ("brokers", "impressions", "clicks", "out", "checkpoint", "conf"):
    parser.add_argument(f"--{name}", required=True)
args = parser.parse_args()
with open(args.conf) as lines:
    names = [line.partition("=")[0] for line in lines]
kafka = {
    "kafka.bootstrap.servers": args.brokers,
    "kafka.config.providers": "file",
    "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    **{f"kafka.{name}": f"${{file:{args.conf}:{name}}}" for name in names},
}
spark = SparkSession.builder.getOrCreate()
read = spark.readStream.format("kafka").options(**kafka).option("startingOffsets", "earliest")
sides = [read.option("subscribe", topic).load() for topic in (args.impressions, args.clicks)]
records = build(*sides).select(to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value"))
writer = records.writeStream.format("kafka").options(**kafka).option("topic", args.out)
writer.option("checkpointLocation", args.checkpoint).start().awaitTermination()
'''
APP = (
    "python job.py --brokers {bootstrap} --impressions {topic:impressions} --clicks {topic:clicks} --out {output}"
    " --checkpoint {checkpoint} --conf {kafka-conf}"
)
EVERY_DAY = ("local", "sasl-scram")
LOGINS = [(backend, security) for backend in BACKENDS for security in KAFKA_SECURITY]


@pytest.fixture(scope="module", params=every_day(LOGINS, [EVERY_DAY]), ids="-".join)
def secured(request, tmp_path_factory):
    backend, security = request.param
    must_be_available(backend)
    home = tmp_path_factory.mktemp("secured")
    with lease(StackSpec(backend, kafka_security=security), home=home) as stack:
        yield stack


@pytest.fixture
def secrets(secured):
    """What must not be found anywhere: the password, or the middle of the client's key."""
    settings = read_client_settings(secured.kafka_conf)
    if "sasl.password" in settings:
        return [settings["sasl.password"]]
    return [Path(settings["ssl.key.location"]).read_text().splitlines()[1]]


def arguments(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "tidemark", *words]


@pytest.mark.parametrize(
    ("sink", "faults"),
    [
        ("exactly-once", ""),
        pytest.param("spark", "", marks=pytest.mark.long),
        pytest.param("exactly-once", "executor@planned,driver@written", marks=pytest.mark.long),
    ],
)
def test_a_run_is_valid_and_its_login_is_nowhere_to_be_read(sink, faults, secured, secrets, tmp_path):
    options = RunOptions("left_outer", impressions=150, sink=sink, faults=faults, run_dir=tmp_path / "run")
    with command_lines() as seen:
        result = run_pipeline(options, stack=secured)
    assert result.verdict.verdict == "VALID", shown(result.verdict)
    assert len(seen) > 5
    assert not [line for line in seen if any(secret in line for secret in secrets)]
    assert files_with(secrets, tmp_path, FOLDER) == []
    assert files_with(secrets, secured.state_dir, FOLDER) == []
    assert (secured.state_dir / "event-logs").is_dir()


def test_the_settings_of_a_client_are_for_its_owner_alone(secured):
    files = sorted((secured.state_dir / FOLDER).iterdir())
    assert secured.kafka_conf in files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.long
def test_a_pipeline_that_starts_its_own_query_is_handed_the_login(secured, secrets, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    result = run_pipeline(
        RunOptions(str(tmp_path / "mine.py"), impressions=100, run_dir=tmp_path / "run", pace="backlog"),
        stack=secured,
    )
    assert result.verdict.verdict == "VALID", shown(result.verdict)
    assert files_with(secrets, tmp_path, FOLDER) == []


@pytest.mark.long
def test_a_job_is_handed_a_file_with_the_login(secured, secrets, tmp_path):
    if secured.spec.backend != "local":
        pytest.skip("a job with a driver of its own runs on local processes")
    (tmp_path / "job.py").write_text(JOB)
    app = APP.replace("job.py", str(tmp_path / "job.py"))
    options = RunOptions("left_outer", impressions=100, run_dir=tmp_path / "run", pace="backlog", app=app)
    verdict = run_pipeline(options, stack=secured).verdict
    assert verdict.verdict == "VALID", shown(verdict)
    assert files_with(secrets, tmp_path, FOLDER) == []
    assert not list((secured.state_dir / "work").rglob("kafka.properties"))


@pytest.mark.long
def test_cases_on_a_warm_driver_log_in_too(secured, secrets, tmp_path):
    with WarmDriver(secured, secured.driver(), tmp_path / "logs") as warm:
        outcomes = [run_seed(seed, warm, tmp_path) for seed in (1, 2)]
    assert [outcome.problem for outcome in outcomes] == ["", ""]
    assert files_with(secrets, tmp_path, FOLDER) == []
    assert not list((secured.state_dir / "work").rglob("kafka.properties"))


def test_commands_take_the_login_from_a_file_and_without_one_say_what_is_missing(secured, tmp_path):
    environment = {**program_environment(None), "COLUMNS": "200"}
    conf, address = str(secured.kafka_conf), secured.bootstrap_servers

    def told(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments(*words),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment, **more},
            timeout=120,
        )

    trace = str(tmp_path / "t.jsonl")
    generated = told(
        "producers", "generate", "--out", trace, "--impressions", "40", "--slices", "2", "--pace", "backlog"
    )
    assert generated.returncode == 0, generated.stderr
    topics = ["--topic", "impressions=login-i", "--topic", "clicks=login-c"]
    published = told(
        "replay", trace, "--bootstrap", address, *topics, "--create", "--kafka-conf", conf, "--json"
    )
    assert published.returncode == 0, published.stderr
    recorded = told(
        "record", "--bootstrap", address, *topics, "--out", str(tmp_path / "again.jsonl"), "--json",
        **{CONF_VARIABLE: conf},
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    read, written = json.loads(recorded.stdout)["counts"], json.loads(published.stdout)["records"]
    assert sum(read.values()) == written > 40
    listed = told("ledger", "--bootstrap", address, "--kafka-conf", conf, "--json")
    assert listed.returncode == 0, listed.stderr
    without = told("ledger", "--bootstrap", address)
    assert without.returncode == 4
    assert "--kafka-conf" in without.stderr


@contextmanager
def known_by_its_addresses(secured, home, **login):
    """The stack as one that somebody else runs, and the folder that is shared with it."""
    shared = secured.work_dir(f"external-{home.parent.name}")
    addresses = secured.bootstrap_servers, secured.driver().remote, str(shared), secured.bootstrap_inside
    try:
        yield up(StackSpec("external", external=External(*addresses, **login)), home=home), shared
    finally:
        down(home=home)


@pytest.mark.long
def test_an_external_stack_is_used_with_a_login_and_without_one_is_refused_at_once(
    secured, secrets, tmp_path
):
    home = tmp_path / "home"
    with pytest.raises(KafkaRefused, match="wants TLS"), known_by_its_addresses(secured, home):
        pass
    with known_by_its_addresses(secured, home, kafka_conf=str(secured.kafka_conf)) as (external, shared):
        options = RunOptions("left_outer", impressions=150, run_dir=tmp_path / "run", pace="backlog")
        verdict = run_pipeline(options, stack=external).verdict
        assert verdict.verdict == "VALID", shown(verdict)
        assert files_with(secrets, tmp_path, FOLDER) == []
        assert files_with(secrets, shared, FOLDER) == []


@pytest.mark.long
def test_an_external_stack_with_a_login_goes_on_when_its_owner_loses_an_executor_and_the_broker(
    secured, secrets, tmp_path
):
    lost = []

    def report(what: str, done: int, _total: int) -> None:
        if (what, done) == ("publish", 2):
            driver = secured.driver().name
            lost.append(secured.kill_executor(driver, secured.executors(driver)[0]))
        elif (what, done) == ("publish", 4):
            secured.stop("broker")
            secured.start("broker")
            lost.append("broker")

    login = {"kafka_conf": str(secured.kafka_conf)}
    with known_by_its_addresses(secured, tmp_path / "home", **login) as (external, shared):
        options = RunOptions("left_outer", impressions=300, run_dir=tmp_path / "run", report=report)
        verdict = run_pipeline(options, stack=external).verdict
        assert len(lost) == 2
        assert verdict.verdict == "VALID", shown(verdict)
        assert files_with(secrets, tmp_path, FOLDER) == []
        assert files_with(secrets, shared, FOLDER) == []


@pytest.mark.long
def test_a_driver_of_an_external_stack_that_its_owner_starts_again_ends_the_run_with_one_error(
    secured, secrets, tmp_path
):
    def report(what: str, done: int, _total: int) -> None:
        if (what, done) == ("publish", 2):
            driver = secured.driver().name
            secured.kill(driver)
            secured.start(driver)

    login = {"kafka_conf": str(secured.kafka_conf)}
    with known_by_its_addresses(secured, tmp_path / "home", **login) as (external, shared):
        options = RunOptions("left_outer", impressions=150, run_dir=tmp_path / "run", report=report)
        with pytest.raises(TestbedError, match="the Spark driver was lost while the query ran"):
            run_pipeline(options, stack=external)
        assert (tmp_path / "run" / "batches.jsonl").is_file()
        assert files_with(secrets, tmp_path, FOLDER) == []
        assert not list(shared.rglob("kafka.properties"))
        again = replace(options, run_dir=tmp_path / "again", report=report_nothing)
        verdict = run_pipeline(again, stack=external).verdict
        assert verdict.verdict == "VALID", shown(verdict)


@pytest.mark.long
def test_spark_may_have_the_login_in_a_file_of_its_own(secured, tmp_path):
    inside = secured.work_dir("login-inside") / "inside.properties"
    inside.unlink(missing_ok=True)
    os.link(secured.kafka_conf, inside)
    login = {"kafka_conf": str(secured.kafka_conf), "kafka_conf_inside": str(inside)}
    with known_by_its_addresses(secured, tmp_path / "home", **login) as (external, shared):
        path, names = external.kafka_conf_inside
        assert path == str(inside)
        assert "security.protocol" in names
        options = RunOptions("left_outer", impressions=150, run_dir=tmp_path / "run", pace="backlog")
        verdict = run_pipeline(options, stack=external).verdict
        assert verdict.verdict == "VALID", shown(verdict)
        assert not list(shared.rglob("kafka.properties"))
