"""Orphan cleanup: removes containers and networks by the labels of the stack or project that created them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docker.errors import APIError

from tidemark.stack.compose import docker_engine
from tidemark.stack.registry import StateFolder

STACK_LABEL, HOME_LABEL, COMPONENT_LABEL = "tidemark.stack", "tidemark.home", "tidemark.component"
_THREADS = 6
_NOT_FOUND, _CONFLICT = 404, 409


def remove_labelled(api: Any, *labels: str, spare: str = "") -> list[str]:
    """Remove the containers and networks with all these labels, except those of the stack ``spare``."""
    wanted = {"label": list(labels)}

    def spared(found: dict[str, Any]) -> bool:
        return bool(spare) and (found["Labels"] or {}).get(STACK_LABEL) == spare

    def remove(container: dict[str, Any]) -> None:
        try:
            api.remove_container(container["Id"], force=True)
        except APIError as error:
            if error.status_code not in (_NOT_FOUND, _CONFLICT):  # another process is removing it
                raise

    with docker_engine.engine_errors("remove a stack's containers and network"):
        containers = [found for found in api.containers(all=True, filters=wanted) if not spared(found)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(remove, containers))
        for network in api.networks(filters=wanted):
            if not spared(network):
                api.remove_network(network["Id"])
    return [str(found["Names"][0]).lstrip("/") for found in containers]


def remove_stack(token: str) -> None:
    """Remove the containers and the network of a stack by its token; its folder may have been deleted."""
    remove_labelled(docker_engine.connect(), f"{STACK_LABEL}={token}")


def remove_orphans(state: StateFolder) -> list[str]:
    """Remove containers of former stacks of this project, whose reaper or engine was killed; returns their names."""
    return remove_labelled(docker_engine.connect(), f"{HOME_LABEL}={state.home}", spare=state.token() or "")
