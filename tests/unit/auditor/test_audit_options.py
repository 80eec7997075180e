"""The files and options that an audit is asked with, and those that are refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.oracle.histories import contract
from tidemark.auditor import AuditOptions, run_audit
from tidemark.auditor.audit_options import delivery_of, read_single_join
from tidemark.errors import UsageError
from tidemark.formats.client_settings import read_client_settings
from tidemark.formats.contract import Delivery

CHAIN = {
    "name": "counts",
    "policy": "min",
    "output": ["user", "clicks"],
    "chain": {
        "step": "aggregate",
        "keys": ["user"],
        "values": [{"name": "clicks", "function": "count"}],
        "input": {
            "step": "source", "topic": "clicks", "time": "time", "watermark_delay_ms": 0,
            "fields": [{"name": "user"}], "required": ["user"],
        },
    },
}  # fmt: skip


def options(folder: Path, **changes) -> AuditOptions:
    path = folder / "contract.json"
    if not path.exists():
        path.write_text(json.dumps(contract().to_json()))
    given = {
        "checkpoint": str(folder / "checkpoint"),
        "contract": str(path),
        "bootstrap": "127.0.0.1:9",
        "output": "out",
    }
    return AuditOptions(**{**given, **changes})


def test_settings_of_the_client_are_lines_and_the_broker_is_the_options(tmp_path):
    (tmp_path / "kafka.conf").write_text(
        "# a login\nsecurity.protocol = SASL_SSL\n\nbootstrap.servers=other:1\n"
    )

    assert options(tmp_path, kafka_conf=tmp_path / "kafka.conf").broker == {
        "security.protocol": "SASL_SSL",
        "bootstrap.servers": "127.0.0.1:9",
    }


def test_the_environment_names_the_settings_where_no_option_does(tmp_path, monkeypatch):
    (tmp_path / "named").write_text("client.id=named\n")
    (tmp_path / "asked").write_text("client.id=asked\n")
    monkeypatch.setenv("TIDEMARK_KAFKA_CONF", str(tmp_path / "named"))
    assert options(tmp_path).broker["client.id"] == "named"
    assert f"--kafka-conf {tmp_path / 'named'}" in options(tmp_path).command()
    assert options(tmp_path, kafka_conf=tmp_path / "asked").broker["client.id"] == "asked"


def test_a_line_that_is_no_setting_is_named(tmp_path):
    (tmp_path / "kafka.conf").write_text("a=b\nnonsense\n")

    with pytest.raises(UsageError, match=r"line 2 of .* is no setting"):
        read_client_settings(tmp_path / "kafka.conf")
    with pytest.raises(UsageError, match="cannot be read as settings"):
        read_client_settings(tmp_path / "none")


def test_a_chain_is_not_audited(tmp_path):
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))

    with pytest.raises(UsageError) as caught:
        read_single_join(options(tmp_path, contract=str(tmp_path / "chain.json")))
    assert "is the contract of a chain" in caught.value.message
    assert caught.value.detail == "only single joins are audited so far"


def test_a_contract_may_be_what_the_command_line_prints_of_one(tmp_path):
    printed = {
        "contract": contract().to_json(),
        "mismatches": [],
        "not_compared": [],
        "warnings": [],
        "plan": "",
    }
    (tmp_path / "printed.json").write_text(json.dumps(printed))

    assert read_single_join(options(tmp_path, contract=str(tmp_path / "printed.json"))) == contract()


def test_a_file_that_is_no_contract_is_refused(tmp_path):
    (tmp_path / "contract.json").write_text("nonsense")
    (tmp_path / "odd.name").write_text("nonsense")

    for name in ("contract.json", "odd.name"):
        with pytest.raises(UsageError, match="is no contract"):
            read_single_join(options(tmp_path, contract=str(tmp_path / name)))


def test_a_contract_may_be_that_of_a_python_file(tmp_path):
    (tmp_path / "mine.py").write_text("from pipelines.left_outer import CONTRACT\n")

    assert read_single_join(options(tmp_path, contract=str(tmp_path / "mine.py"))).name == "left_outer"
    (tmp_path / "mine.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(UsageError, match="cannot be imported"):
        read_single_join(options(tmp_path, contract=str(tmp_path / "mine.py")))


def test_the_delivery_is_the_contracts_or_the_options_and_they_must_not_differ(tmp_path):
    promised = contract(delivery=Delivery.EXACTLY_ONCE)

    assert delivery_of(options(tmp_path), contract()) is Delivery.AT_LEAST_ONCE
    assert delivery_of(options(tmp_path, delivery="exactly-once"), contract()) is Delivery.EXACTLY_ONCE
    assert delivery_of(options(tmp_path), promised) is Delivery.EXACTLY_ONCE
    assert delivery_of(options(tmp_path), contract(), Delivery.EXACTLY_ONCE) is Delivery.EXACTLY_ONCE
    asked = options(tmp_path, delivery="at-least-once")
    assert delivery_of(asked, contract(), Delivery.EXACTLY_ONCE) is Delivery.AT_LEAST_ONCE
    for asked, said in (
        ("at-least-once", "--delivery says at-least-once"),
        ("maybe", "there is no delivery"),
    ):
        with pytest.raises(UsageError, match=said):
            delivery_of(options(tmp_path, delivery=asked), promised)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "there is no checkpoint"),
        ({"batches": "5"}, "is no range of batches"),
        ({"accept": ("no-such-defect",)}, "no-such-defect"),
        ({"delivery": "maybe"}, "there is no delivery"),
    ],
)
def test_what_cannot_be_is_refused_before_kafka_is_asked(tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        run_audit(options(tmp_path, run_dir=tmp_path / "audit", **changes))
    assert not (tmp_path / "audit").exists()


def test_the_command_does_the_audit_again(tmp_path):
    asked = options(
        tmp_path, topics={"clicks": "prod clicks"}, batches="3:", delivery="exactly-once", spark_version="4.2.0",
        accept=("one-sided-watermark",), kafka_conf=tmp_path / "kafka.conf",
    )  # fmt: skip

    assert asked.command().endswith(
        f"--bootstrap 127.0.0.1:9 --output out --kafka-conf {tmp_path / 'kafka.conf'} --topic 'clicks=prod clicks'"
        " --batches 3: --delivery exactly-once --spark-version 4.2.0 --accept one-sided-watermark"
    )
