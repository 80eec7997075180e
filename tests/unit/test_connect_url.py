"""Addresses of Spark Connect servers: what is refused, what a session adds, and where a token may be."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from tidemark.errors import UsageError
from tidemark.formats.connect_url import (
    check_url,
    host_and_port,
    user_of,
    with_parameters,
    with_token,
    without_token,
)
from tidemark.sparksql.spark_sessions import open_session

ADDRESSES = [
    ("sc://spark", "spark", 15002),
    ("sc://spark:443", "spark", 443),
    ("sc://spark:443/", "spark", 443),
    ("sc://[::1]:443/;use_ssl=true", "::1", 443),
    ("sc://spark/;use_ssl=true;user_id=ann;x-tenant=a%20b", "spark", 15002),
    ("sc://spark:443/;token=@/run/secrets/token;", "spark", 443),
]


@pytest.mark.parametrize(("url", "host", "port"), ADDRESSES)
def test_an_address_has_host_and_port(url, host, port):
    assert check_url(url) == url
    assert host_and_port(url) == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "http://spark:15002",
        "sc://",
        "sc://:15002",
        "sc://spark:port",
        "sc://spark/path",
        "sc://spark;use_ssl=true",
        "sc://spark/;use_ssl",
        "sc://spark/;=true",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="is not the address of a Spark Connect server") as refused:
        check_url(url)
    assert "use_ssl=true" in refused.value.hint


@pytest.mark.parametrize("url", ["sc://spark/;token=hunter2", "sc://spark/token=hunter2", "x/;token=hunter2"])
def test_a_token_in_an_address_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in f"{refused.value.message}{refused.value.detail}{refused.value.hint}"


def test_an_address_with_a_session_is_refused():
    with pytest.raises(UsageError, match="session_id"):
        check_url("sc://spark/;session_id=1")


@pytest.mark.parametrize(("url", "host", "port"), ADDRESSES[:3] + ADDRESSES[4:5])
def test_sparks_client_reads_the_parameters_of_an_address_and_the_session_besides(url, host, port):
    session = "6c1ea5c8-2cb2-4f0f-9d5a-6b3d1e0b3c11"
    builder = DefaultChannelBuilder(with_parameters(url, session_id=session))

    assert builder.endpoint == f"{host}:{port}"
    assert builder.session_id == session
    assert builder.userId == user_of(url)
    assert dict(builder.metadata()) == ({"x-tenant": "a b"} if "tenant" in url else {})


def test_the_token_of_a_file_is_in_the_clients_address_alone(tmp_path):
    file = tmp_path / "a token"
    file.write_text("a=b;c%d/\n")
    url = f"sc://spark/;token=@{file}".replace(" ", "%20")

    resolved = with_token(with_parameters(check_url(url), session_id="1"))

    assert DefaultChannelBuilder(with_token(url)).token == "a=b;c%d/"
    assert (
        without_token(f"no: {resolved}, 'a=b;c%d/'", resolved) == "no: sc://spark/;token=…;session_id=1, '…'"
    )
    assert with_token("sc://spark") == "sc://spark"


def test_a_token_file_that_is_missing_or_empty_is_named(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UsageError, match="could not be read from '/no/such/file'"):
        with_token("sc://spark/;token=@/no/such/file")
    with pytest.raises(UsageError, match="empty' has no token"):
        with_token(f"sc://spark/;token=@{tmp_path / 'empty'}")


def test_a_judges_master_with_a_token_is_refused_before_anybody_is_asked():
    with (
        pytest.raises(UsageError, match="has a token") as refused,
        open_session("sc://localhost:1/;token=hunter2"),
    ):
        pass
    assert "hunter2" not in str(refused.value)
