"""Freezes and thaws a container, with retries where the engine fails or has stale state.

The kernel does not freeze a process that is forking or waiting for a disk. If a container has one, runc gives up after
a while and thaws the others, and the engine reports ``unable to freeze`` (runc's ``fs.FreezerGroup.Set``); the next
attempt may succeed. Just after a freeze or thaw the engine's state is stale for some milliseconds, and it refuses a
request because of it: containerd's events arrive late, and each sets ``State.Paused`` again (Docker's
``daemon/monitor.go``). Therefore the state is read from the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from tidemark.errors import DeadlineExceeded
from tidemark.waiting import wait_until

FREEZE_S = 60.0
"""Calibration: attempts often fail, many in a row, while the container's processes write to disk (``fsync``).
``python -m bench.freeze`` measures how often, and how long it takes until one succeeds."""
CGROUPS = Path("/sys/fs/cgroup")


def freeze(api: Any, container: str) -> bool:
    """Freeze a container unless it is frozen; ``False`` if it does not run.

    Raises the engine's last ``APIError``, or an error of its client if the engine cannot be reached.
    """
    return _retry(api, container, api.pause, frozen=True)


def thaw(api: Any, container: str) -> bool:
    """Thaw a container if it is frozen; ``False`` if it does not run. Raises as :func:`freeze` does."""
    return _retry(api, container, api.unpause, frozen=False)


def _retry(api: Any, container: str, request: Callable[[str], None], *, frozen: bool) -> bool:
    answer: bool | APIError = False

    def attempt() -> None:
        nonlocal answer
        answer = _attempt(api, container, request, frozen=frozen)

    with suppress(DeadlineExceeded):
        # Other errors of the client end the wait.
        wait_until(lambda: isinstance(answer, bool), FREEZE_S, lambda: "", unless=attempt, poll_s=0.01)
    if isinstance(answer, APIError):
        raise answer
    return answer


def _attempt(api: Any, container: str, request: Callable[[str], None], *, frozen: bool) -> bool | APIError:
    """``True`` if the container is in the requested state, ``False`` if it does not run, else the error."""
    try:
        request(container)
    except APIError as error:
        try:
            state = api.inspect_container(container)["State"]
        except NotFound:
            return False
        if not state["Running"]:
            return False
        return True if _is_frozen(state) == frozen else error
    return True


def _is_frozen(state: Mapping[str, Any]) -> bool:
    """Whether a container is frozen, from the kernel; if that cannot be read, from the engine."""
    for file, line in _state_files(state["Pid"]):
        with suppress(OSError):
            return line in file.read_text(encoding="utf-8").splitlines()
    return bool(state["Paused"])


def _state_files(pid: int) -> Iterator[tuple[Path, str]]:
    """Files with the freezer state of a process, and the line that means frozen; of cgroups v1 and v2."""
    with suppress(OSError):
        for line in Path("/proc", str(pid), "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                yield CGROUPS / "freezer" / path.lstrip("/") / "freezer.state", "FROZEN"
            elif not controllers:
                yield CGROUPS / path.lstrip("/") / "cgroup.events", "frozen 1"
