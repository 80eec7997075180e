"""What the sink is told: Spark's names, Java's names, librdkafka's names."""

from __future__ import annotations

import pytest

from tidemark.errors import SinkRefused
from tidemark.sink.sink_options import client_settings, read_options

BROKER = {"kafka.bootstrap.servers": "broker:9092"}


def settings(**java):
    return client_settings(
        BROKER | {f"kafka.{name.replace('_', '.')}": value for name, value in java.items()}
    )


def test_names_of_java_become_those_of_librdkafka():
    assert settings(max_request_size="2000000")["message.max.bytes"] == "2000000"
    assert settings(buffer_memory="33554432")["queue.buffering.max.kbytes"] == 32768
    assert settings(linger_ms="50")["linger.ms"] == "50"


def test_a_record_goes_where_the_java_client_would_put_it():
    assert settings()["partitioner"] == "murmur2_random"


def test_a_user_and_a_password_are_read_out_of_jaas():
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="it\'s=me";'
    )
    found = settings(sasl_jaas_config=jaas, sasl_mechanism="SCRAM-SHA-512", security_protocol="SASL_SSL")
    assert (found["sasl.username"], found["sasl.mechanism"]) == ("me", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kafka.transactional.id", "mine", "transactionalIdPrefix"),
        ("kafka.acks", "1", "a transaction needs 'all'"),
        ("kafka.enable.idempotence", "false", "a transaction needs 'true'"),
        ("kafka.partitioner.class", "com.example.Mine", "a column 'partition'"),
        ("kafka.made.up", "1", "has no equivalent"),
        ("kafka.sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;", "sasl.username"),
        ("kafka.ssl.truststore.location", "trust.jks", "convert it to PEM"),
        ("kafka.transaction.timeout.ms", "soon", "whole number"),
        ("asyncProgressTrackingEnabled", "true", "one batch id may stand for other rows"),
        ("partitions", "0", "1 or more"),
        ("sinkId", "a b", "letters, digits"),
        ("provenance", "maybe", "true or false"),
        ("startingOffsets", "earliest", "has no option"),
    ],
)
def test_what_cannot_be_kept_is_refused(name, value, said):
    with pytest.raises(SinkRefused) as refused:
        read_options(BROKER | {name: value})
    assert said in str(refused.value)
    assert name.lower().removeprefix("kafka.") in str(refused.value).lower()


def test_what_a_transaction_needs_anyway_may_be_said():
    assert "acks" not in settings(acks="all", enable_idempotence="true")


def test_brokers_must_be_named():
    with pytest.raises(SinkRefused, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({})


def test_options_are_those_that_spark_hands_over_in_small_letters():
    told = read_options(BROKER | {"sinkid": "b", "transactionalidprefix": "p", "checkpointlocation": "/c"})
    assert (told.sink, told.prefix, told.checkpoint, told.partitions) == ("b", "p", "/c", 1)
    assert told.timeout_s == 120
