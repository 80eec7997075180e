"""Names of the components of a stack, and what they are called on a network. Pure."""

from __future__ import annotations


def broker_names(count: int) -> list[str]:
    """``broker``, ``broker-2``, ``broker-3`` …"""
    return ["broker", *(f"broker-{number}" for number in range(2, count + 1))]


def host_name(name: str) -> str:
    """A part's name as a name of the network: Spark takes no address with an underscore in it."""
    return name.replace("_", "-").replace(".", "-")
