"""Options of the sink: parsing, and the translation of Java settings to librdkafka's."""

from __future__ import annotations

import pytest

from tidemark.errors import SinkRefused
from tidemark.formats.client_settings import spark_options, write_for_spark
from tidemark.sink.sink_options import client_settings, read_options

BROKER = {"kafka.bootstrap.servers": "broker:9092"}


def settings(**java):
    return client_settings(
        BROKER | {f"kafka.{name.replace('_', '.')}": value for name, value in java.items()}
    )


def test_java_settings_are_translated_to_librdkafkas():
    assert settings(max_request_size="2000000")["message.max.bytes"] == "2000000"
    assert settings(buffer_memory="33554432")["queue.buffering.max.kbytes"] == 32768
    assert settings(linger_ms="50")["linger.ms"] == "50"


def test_the_default_partitioner_is_that_of_the_java_client():
    assert settings()["partitioner"] == "murmur2_random"


def test_user_and_password_are_read_from_a_jaas_configuration():
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="it\'s=me";'
    )
    found = settings(sasl_jaas_config=jaas, sasl_mechanism="SCRAM-SHA-512", security_protocol="SASL_SSL")
    assert (found["sasl.username"], found["sasl.mechanism"]) == ("me", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("kafka.transactional.id", "mine", "transactionalIdPrefix"),
        ("kafka.acks", "1", "a transaction needs 'all'"),
        ("kafka.enable.idempotence", "false", "a transaction needs 'true'"),
        ("kafka.partitioner.class", "com.example.Mine", "a column 'partition'"),
        ("kafka.made.up", "1", "has no equivalent"),
        ("kafka.sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;", "sasl.username"),
        ("kafka.ssl.truststore.location", "trust.jks", "convert it to PEM"),
        ("kafka.transaction.timeout.ms", "soon", "an integer of 1 or more"),
        ("asyncProgressTrackingEnabled", "true", "may have other rows"),
        ("partitions", "0", "1 or more"),
        ("sinkId", "a b", "letters, digits"),
        ("provenance", "maybe", "true or false"),
        ("startingOffsets", "earliest", "has no option"),
    ],
)
def test_an_invalid_or_unsupported_option_is_refused(name, value, text):
    with pytest.raises(SinkRefused) as refused:
        read_options(BROKER | {name: value})
    assert text in str(refused.value)
    assert name.lower().removeprefix("kafka.") in str(refused.value).lower()


def test_settings_that_transactions_require_may_be_set_to_the_required_value():
    assert "acks" not in settings(acks="all", enable_idempotence="true")


def test_bootstrap_servers_are_required():
    with pytest.raises(SinkRefused, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({})


def test_options_are_read_in_lower_case_as_spark_passes_them():
    options = read_options(BROKER | {"sinkid": "b", "transactionalidprefix": "p", "checkpointlocation": "/c"})
    assert (options.sink, options.prefix, options.checkpoint, options.partitions) == ("b", "p", "/c", 1)
    assert options.timeout_s == 120


REFERRING = {
    "kafka.config.providers": "file",
    "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


def test_options_refer_to_settings_in_a_file_as_those_of_javas_client(tmp_path):
    file = tmp_path / "kafka.properties"
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'it\'s \\ "mine"'}
    options = BROKER | spark_options(str(file), write_for_spark(login, file))
    assert "mine" not in str(options)

    found = read_options(options).client
    assert {name: found[name] for name in login} == login
    file.unlink()
    assert "sasl.mechanism" not in read_options(options, on_cluster=False).client
    with pytest.raises(SinkRefused, match=r"kafka\.properties.*cannot be used") as refused:
        read_options(options)
    assert "driver and executors must see this file" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**REFERRING, "kafka.sasl.password": "${file:/dev/null:name}"}, "it has no setting 'name'"),
        ({"kafka.config.providers": "vault"}, "reads references to files only"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(options, said):
    with pytest.raises(SinkRefused) as refused:
        read_options(BROKER | options)
    assert said in str(refused.value)
