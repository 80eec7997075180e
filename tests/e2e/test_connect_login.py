"""A Spark Connect server behind TLS that wants a token, as external clusters have it."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import shown
from tests.e2e.connect_gateway import Gateway, serve
from tests.e2e.exposed import command_lines, files_with
from tidemark.errors import TestbedError
from tidemark.formats.client_settings import write_secret
from tidemark.formats.connect_url import ROOTS_VARIABLE, host_and_port
from tidemark.stack import StackSpec, down, up
from tidemark.stack.install.certificates import Authority
from tidemark.stack.spec import External

TOKEN = "dapi-8d1f43b2=c7;e0"
HOST = "localhost"


@pytest.fixture(scope="module")
def issuer():
    return Authority()


@pytest.fixture(scope="module")
def gateway(stack, issuer):
    host, port = host_and_port(stack.driver().remote)
    gateway = Gateway(f"{host}:{port}", TOKEN)
    key, end, certificate = issuer.issue("gateway", [HOST]).partition("-----END PRIVATE KEY-----\n")
    gateway.port, close = serve(gateway, (key + end).encode(), certificate.encode())
    yield gateway
    close()


@pytest.fixture
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("external") / "home"
    yield home
    down(home=home)


@pytest.fixture
def spec(stack, gateway, issuer, tmp_path_factory, monkeypatch):
    """An external stack whose Spark is behind the gateway; the token is in a file, and the issuer is trusted."""
    folder = tmp_path_factory.mktemp("login")
    write_secret(folder / "token", f"{TOKEN}\n")
    (folder / "ca.pem").write_text(issuer.certificate)
    monkeypatch.setenv(ROOTS_VARIABLE, str(folder / "ca.pem"))
    remote = f"sc://{HOST}:{gateway.port}/;use_ssl=true;user_id=ann;token=@{folder / 'token'}"
    return StackSpec(
        "external",
        external=External(
            stack.bootstrap_servers,
            remote,
            str(stack.work_dir("external")),
            bootstrap_inside=stack.bootstrap_inside,
        ),
    )


def test_a_run_behind_a_gateway_is_valid_and_its_token_is_nowhere_to_be_read(spec, home, judged, tmp_path):
    with command_lines() as seen:
        external = up(spec, home=home)
        verdict = judged(external, impressions=150)
    assert verdict.verdict == "VALID", shown(verdict)
    assert any("--remote=sc://localhost:" in line and ";user_id=ann" in line for line in seen)
    assert not [line for line in seen if TOKEN in line]
    assert files_with([TOKEN], tmp_path) == []
    assert files_with([TOKEN], home) == []


def test_a_token_that_is_not_valid_is_one_clear_error(spec, home, gateway, monkeypatch):
    monkeypatch.setattr(gateway, "token", "another")
    with pytest.raises(TestbedError, match="does not let this client in") as refused:
        up(spec, home=home)
    assert "no valid token" in refused.value.detail
    assert "token=@FILE" in refused.value.hint
    assert TOKEN not in str(refused.value) + refused.value.detail


@pytest.mark.long
def test_a_token_that_runs_out_in_a_run_is_one_clear_error(
    spec, home, judged, gateway, tmp_path, monkeypatch
):
    external = up(spec, home=home)

    def run_out(step: str, done: int, _total: int) -> None:
        if (step, done) == ("publish", 2):
            monkeypatch.setattr(gateway, "token", "another")

    with pytest.raises(TestbedError, match="does not let this client in any more") as ended:
        judged(external, impressions=300, generator=("--slices", "6"), report=run_out)
    assert "no valid token" in ended.value.detail
    assert "write a valid token" in ended.value.hint
    monkeypatch.setattr(gateway, "token", TOKEN)
    assert judged(external, "again").verdict == "VALID"
    assert files_with([TOKEN], tmp_path) == []
