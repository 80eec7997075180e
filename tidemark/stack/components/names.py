"""Names of components, and their host names. Pure functions."""

from __future__ import annotations


def broker_names(count: int) -> list[str]:
    """``broker``, ``broker-2``, ``broker-3`` …"""
    return ["broker", *(f"broker-{number}" for number in range(2, count + 1))]


def host_name(name: str) -> str:
    """A component's host name: Spark accepts no host name with an underscore."""
    return name.replace("_", "-").replace(".", "-")
