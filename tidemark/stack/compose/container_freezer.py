"""Freezing a container and letting it go on, also where the engine cannot do so at once, or is mistaken.

The kernel freezes no process that just then forks or waits for a disk. Where one of a container does, runc tries for a
while, lets the others go on, and the engine says that it has failed (``unable to freeze``, runc's
``fs.FreezerGroup.Set``): that says nothing of the next time. And of a container that was just frozen and let go on the
engine believes for some milliseconds what was true before, and refuses on that ground: containerd's events come behind,
and each sets ``State.Paused`` once more (Docker's ``daemon/monitor.go``). So what the kernel says is what counts.
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
"""Calibration: an attempt fails often in a container whose processes write to a disk (``fsync``) all the time, and many
may fail in a row: ``python -m bench.freeze`` measures how often, and how long it takes until one succeeds."""
CGROUPS = Path("/sys/fs/cgroup")


def freeze(api: Any, container: str) -> bool:
    """Freeze it, if it is not frozen; ``False`` if it does not run.

    Raises ``APIError``, what the engine said last, and whatever its client does where nobody answers.
    """
    return _until(api, container, api.pause, frozen=True)


def thaw(api: Any, container: str) -> bool:
    """Let it go on, if it does not; ``False`` if it does not run. Raises as :func:`freeze` does."""
    return _until(api, container, api.unpause, frozen=False)


def _until(api: Any, container: str, ask: Callable[[str], None], *, frozen: bool) -> bool:
    answer: bool | APIError = False

    def attempt() -> None:
        nonlocal answer
        answer = _once(api, container, ask, frozen=frozen)

    with suppress(DeadlineExceeded):
        # Whatever else the client raises ends the wait.
        wait_until(lambda: isinstance(answer, bool), FREEZE_S, lambda: "", unless=attempt, poll_s=0.01)
    if isinstance(answer, APIError):
        raise answer
    return answer


def _once(api: Any, container: str, ask: Callable[[str], None], *, frozen: bool) -> bool | APIError:
    """Whether it runs, and is as it shall be; or why it is not."""
    try:
        ask(container)
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
    """What the kernel says; where it cannot be asked, the engine."""
    for file, word in _told_by(state["Pid"]):
        with suppress(OSError):
            return word in file.read_text(encoding="utf-8").splitlines()
    return bool(state["Paused"])


def _told_by(pid: int) -> Iterator[tuple[Path, str]]:
    """Files that may tell of a process whether it is frozen, and the line that says so: of cgroups v1, and of v2."""
    with suppress(OSError):
        for line in Path("/proc", str(pid), "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                yield CGROUPS / "freezer" / path.lstrip("/") / "freezer.state", "FROZEN"
            elif not controllers:
                yield CGROUPS / path.lstrip("/") / "cgroup.events", "frozen 1"
