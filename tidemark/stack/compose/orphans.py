"""Labels of containers and networks, and the removal of what carries them: what a stack has left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docker.errors import APIError

from tidemark.stack.compose import docker_engine
from tidemark.stack.registry import StateFolder

STACK_LABEL, HOME_LABEL, COMPONENT_LABEL = "tidemark.stack", "tidemark.home", "tidemark.component"
_TIMES = 6
_NOT_FOUND, _CONFLICT = 404, 409


def remove_labelled(api: Any, *labels: str, spare: str = "") -> list[str]:
    """Remove the containers and networks that carry all these labels, but not those of the stack ``spare``."""
    wanted = {"label": list(labels)}

    def spared(found: dict[str, Any]) -> bool:
        return bool(spare) and (found["Labels"] or {}).get(STACK_LABEL) == spare

    def remove(container: dict[str, Any]) -> None:
        try:
            api.remove_container(container["Id"], force=True)
        except APIError as error:
            if error.status_code not in (_NOT_FOUND, _CONFLICT):  # somebody else removes it too
                raise

    with docker_engine.asked("remove what is left of a stack"):
        containers = [found for found in api.containers(all=True, filters=wanted) if not spared(found)]
        with ThreadPoolExecutor(_TIMES) as pool:
            list(pool.map(remove, containers))
        for network in api.networks(filters=wanted):
            if not spared(network):
                api.remove_network(network["Id"])
    return [str(found["Names"][0]).lstrip("/") for found in containers]


def remove_stack(token: str) -> None:
    """Remove the containers and the network of a stack, which is found by its token: its folder may be gone."""
    remove_labelled(docker_engine.connect(), f"{STACK_LABEL}={token}")


def remove_orphans(state: StateFolder) -> list[str]:
    """Remove what stacks of this project have left that no longer exist: their reaper was killed, or the engine."""
    return remove_labelled(docker_engine.connect(), f"{HOME_LABEL}={state.home}", spare=state.token() or "")
