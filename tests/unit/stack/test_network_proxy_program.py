"""The network proxy is built once, with Go, and refused with a hint where that cannot be."""

from __future__ import annotations

import os

import pytest

from tidemark.errors import FetchError
from tidemark.stack.install import network_proxy_program
from tidemark.stack.install.network_proxy_program import built_path, must_be_buildable, provide_network_proxy


@pytest.fixture
def go(monkeypatch, tmp_path, executable):
    """A function that makes the only ``go`` on the path a script of this text; none without one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def be(text: str | None) -> None:
        folder = tmp_path / "none" if text is None else executable("go", text).parent
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin" if text else str(folder))

    return be


COMPILES = 'while [ "$1" != -o ]; do shift; done; cat main.go go.mod go.sum > "$2"'


def test_it_is_built_from_its_locked_source_and_only_once(go):
    go(COMPILES)
    said: list[str] = []

    path = provide_network_proxy(said.append)

    assert path == built_path()
    assert "module tidemark/networkproxy" in path.read_text()
    assert said == ["building the network proxy: a minute the first time"]
    go(None)
    must_be_buildable()
    assert provide_network_proxy(said.append) == path
    assert len(said) == 1


def test_without_go_it_is_refused_with_a_hint(go):
    go(None)
    with pytest.raises(FetchError, match="built with Go, and there is none") as error:
        provide_network_proxy(str)
    assert "install Go 1.23" in error.value.hint


def test_a_build_that_fails_shows_what_go_said_and_leaves_nothing(go):
    go("echo 'go.mod requires go >= 1.23.0' >&2; exit 1")
    with pytest.raises(FetchError, match="could not be built") as error:
        provide_network_proxy(str)
    assert "requires go >= 1.23.0" in error.value.detail
    assert list(built_path().parent.iterdir()) == []


def test_every_module_that_it_needs_is_locked():
    """A line of ``go.sum`` for the content of each, and one for its ``go.mod``."""
    sources = network_proxy_program.SOURCES
    wanted = [line.split() for line in (sources / "go.mod").read_text().splitlines() if line.startswith("\t")]
    locked = {tuple(line.split()[:2]) for line in (sources / "go.sum").read_text().splitlines()}
    missing = [name for name, version, *_ in wanted if (name, f"{version}/go.mod") not in locked]
    assert ["github.com/Shopify/toxiproxy/v2", "v2.12.0"] in [line[:2] for line in wanted]
    assert missing == []
