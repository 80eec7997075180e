"""What a process needs to disturb packets, and which of it is said to be missing."""

from __future__ import annotations

import pytest

from tidemark.errors import UsageError
from tidemark.stack.local import packet_links

NET_ADMIN, SETGID = packet_links._NET_ADMIN, packet_links._SETGID


@pytest.fixture
def machine(monkeypatch):
    """A machine on which all of it is there, but for what ``without`` takes away."""
    has, printed = {NET_ADMIN, SETGID}, {"iptables-restore": (0, "", ""), "tc": (0, "qdisc noqueue 0:", "")}
    monkeypatch.setattr(packet_links.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(packet_links, "_has", lambda capability: capability in has)
    monkeypatch.setattr(packet_links, "can_join_groups", lambda: SETGID in has)
    monkeypatch.setattr(packet_links, "_command", lambda command: printed[command.split()[0]])
    packet_links._why_refused.cache_clear()
    yield has, printed
    packet_links._why_refused.cache_clear()


def test_nothing_is_missing_where_all_of_it_is_there(machine):
    assert packet_links.is_possible()


@pytest.mark.parametrize(
    ("capability", "of_executors", "said"),
    [(NET_ADMIN, False, "CAP_NET_ADMIN"), (NET_ADMIN, True, "CAP_NET_ADMIN"), (SETGID, True, "CAP_SETGID")],
)
def test_a_capability_that_the_process_has_not_is_named(machine, capability, of_executors, said):
    machine[0].remove(capability)

    with pytest.raises(UsageError, match="the link cannot be disturbed") as error:
        packet_links.must_be_possible("the link", of_executors=of_executors)

    assert said in error.value.detail
    assert "as root" in error.value.hint


def test_the_links_of_brokers_take_no_group(machine):
    machine[0].remove(SETGID)

    assert packet_links.why_impossible() == ""


def test_what_the_kernel_says_to_the_rules_is_said(machine):
    machine[1]["iptables-restore"] = (
        2,
        "",
        "Extension statistic revision 0 not supported, missing kernel module?",
    )

    with pytest.raises(UsageError) as error:
        packet_links.must_be_possible("the link")

    assert "missing kernel module" in error.value.detail


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("qdisc noqueue 0:", ""),
        (f"qdisc htb {packet_links._HANDLE}: root", ""),
        (
            "qdisc fq_codel 8001: root",
            "the loopback interface has a queue already: qdisc fq_codel 8001: root",
        ),
    ],
)
def test_a_queue_of_somebody_else_on_the_loopback_interface_is_left_alone(machine, queue, why):
    machine[1]["tc"] = (0, queue, "")

    assert packet_links.why_impossible(throttles=True) == why
    assert packet_links.why_impossible() == ""
