"""A file with settings of Kafka's clients: what is read of it, for the C client and for Spark's."""

from __future__ import annotations

import re
import stat

import pytest

from tidemark.errors import UsageError
from tidemark.formats.client_settings import (
    jaas_login,
    java_settings,
    read_client_settings,
    read_properties,
    spark_options,
    write_for_spark,
)

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def read(tmp_path):
    """What is read of these lines."""

    def read(*lines):
        (tmp_path / "kafka.conf").write_text("\n".join(lines))
        return read_client_settings(tmp_path / "kafka.conf")

    return read


@pytest.fixture
def stores(tmp_path):
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    (tmp_path / "client.pem").write_text(KEY + CERTIFICATE)
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\x04\x00")
    return tmp_path


def test_a_java_login_and_stores_in_pem_are_those_of_the_c_client(read, stores):
    assert read(
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={SCRAM} \\",
        '    username="me" \\',
        '    password="it\'s; me";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={stores / 'ca.pem'}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={stores / 'client.pem'}",
        "ssl.endpoint.identification.algorithm=",
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "it's; me",
        "ssl.ca.location": str(stores / "ca.pem"),
        "ssl.certificate.location": str(stores / "client.pem"),
        "ssl.key.location": str(stores / "client.pem"),
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_settings_of_the_c_client_are_left_as_they_are(read):
    lines = ["sasl.mechanisms=PLAIN", "sasl.username=me", "sasl.password=a=b#c", "! a comment", "# another"]
    assert read(*lines) == {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "a=b#c"}


def test_a_backslash_is_written_as_two_and_one_that_means_nothing_is_refused(read):
    assert read(r"sasl.password=a\\b\u0020c\=") == {"sasl.password": "a\\b c="}
    with pytest.raises(UsageError, match=r"line 2 of .* has a backslash before 'q'") as refused:
        read("client.id=x", r"sasl.password=secret\q")
    assert "secret" not in str(refused.value)


def test_a_line_without_an_equals_sign_does_not_show_a_password(read):
    with pytest.raises(UsageError, match=r"line 1 .* is no setting") as refused:
        read(f"sasl.jaas.config {SCRAM} password secret;")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("which", "file", "said"),
    [
        ("truststore", "store.jks", "a store of type JKS"),
        ("truststore", "store.p12", "a store of type PKCS12"),
        ("keystore", "store.jks", "a store of type JKS"),
        ("keystore", "nowhere.pem", "which cannot be read"),
    ],
)
def test_a_store_that_openssl_does_not_read_is_refused_with_what_to_do(which, file, said, read, stores):
    with pytest.raises(UsageError, match=said) as refused:
        read(f"ssl.{which}.location={stores / file}")
    assert refused.value.hint


def test_a_key_store_in_pkcs12_is_read_by_both_clients(read, stores):
    lines = [
        "ssl.keystore.type=PKCS12",
        f"ssl.keystore.location={stores / 'store.p12'}",
        "ssl.keystore.password=x",
    ]
    settings = read(*lines)
    assert settings == {"ssl.keystore.location": str(stores / "store.p12"), "ssl.keystore.password": "x"}
    assert java_settings(settings) == {**settings, "ssl.keystore.type": "PKCS12"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;"],
            "no login of PLAIN or SCRAM",
        ),
        ([f'sasl.jaas.config={SCRAM} username="me" password="secret"'], "no semicolon"),
        ([f'sasl.jaas.config={SCRAM} username="me" password="secret";'], "sasl.mechanism in .* is 'not set'"),
        (
            ["sasl.mechanism=PLAIN", f'sasl.jaas.config={SCRAM} username="me" password="secret";'],
            "is 'PLAIN'",
        ),
    ],
)
def test_a_login_that_is_not_understood_is_refused_without_its_password(lines, said, read):
    with pytest.raises(UsageError) as refused:
        read(*lines)
    assert re.search(said, str(refused.value))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("password", ['a"b', "a\\b", "a b", "ä=#;'", 'x";y="'])
def test_a_password_survives_the_way_to_java_and_back(password, tmp_path):
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": password}
    names = write_for_spark(
        {**login, "client.id": "ours", "bootstrap.servers": "x:1"}, tmp_path / "spark.properties"
    )

    assert names == ["sasl.jaas.config", "sasl.mechanism"]
    assert stat.S_IMODE((tmp_path / "spark.properties").stat().st_mode) == 0o600
    assert jaas_login(read_properties(tmp_path / "spark.properties")["sasl.jaas.config"]) == (
        "PLAIN",
        "me",
        password,
    )
    assert read_client_settings(tmp_path / "spark.properties") == login


def test_certificates_for_spark_are_in_the_file_itself(stores):
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(stores / "ca.pem"),
        "ssl.certificate.location": str(stores / "client.pem"),
        "ssl.key.location": str(stores / "client.pem"),
    }
    written = stores / "spark.properties"
    write_for_spark(settings, written)

    assert read_properties(written) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "security.protocol": "SSL",
    }
    assert read_client_settings(written) == {
        "security.protocol": "SSL",
        "ssl.ca.pem": CERTIFICATE,
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"enable.ssl.certificate.verification": "false"},
            "'enable.ssl.certificate.verification' is one of the C",
        ),
        ({"sasl.oauthbearer.client.id": "me"}, "Spark's Kafka client has none like it"),
        ({"sasl.username": "me", "sasl.mechanism": "OAUTHBEARER"}, "is 'OAUTHBEARER'"),
        (
            {"ssl.key.pem": KEY.replace("BEGIN P", "BEGIN RSA P").replace("END P", "END RSA P")},
            "openssl pkcs8",
        ),
        ({"ssl.ca.pem": "none"}, "has no certificate in PEM"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "which cannot be read"),
    ],
)
def test_a_setting_that_java_does_not_have_is_refused_and_never_dropped(settings, said):
    with pytest.raises(UsageError) as refused:
        java_settings(settings)
    assert said in str(refused.value)


def test_options_of_spark_refer_to_the_file_and_without_a_login_there_are_none():
    assert spark_options("/on/the/cluster", ["sasl.jaas.config"]) == {
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka.sasl.jaas.config": "${file:/on/the/cluster:sasl.jaas.config}",
    }
    assert spark_options("", []) == {}
