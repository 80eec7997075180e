"""How often a container cannot be frozen, and how long it takes until it is: with processes that write, and without.

    python -m bench.freeze [--writers 4] [--rounds 50]

The kernel freezes no process that just then waits for a disk, and the engine gives up after a while: a stack asks again
(``freezing`` of the backend ``compose``). Each round asks the engine to pause a container until it does, and
lets it go on; an attempt is one of these requests. The writers write 4 KiB to a file each and ``fsync``, all the time.
Needs a container engine and the image of the stacks, which ``tidemark up --backend compose`` builds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docker.errors import APIError

from bench._summary import print_result, say, summary
from tidemark import paths
from tidemark.errors import ContainerEngineError, TidemarkError
from tidemark.stack.compose import docker_engine, image

ROUND_S = 120.0
"""After so long a container counts as one that cannot be frozen at all."""
_WRITER = """
import os, sys
for number in range(int(sys.argv[1])):
    if os.fork() == 0:
        file = os.open(f"{sys.argv[2]}/{number}", os.O_CREAT | os.O_WRONLY)
        while True:
            os.pwrite(file, b"x" * 4096, 0)
            os.fsync(file)
import signal
signal.pause()
"""


@dataclass
class Rounds:
    """What was seen, in seconds: of attempts that succeeded, of those that failed, and of whole rounds."""

    succeeded_s: list[float] = field(default_factory=list)
    failed_s: list[float] = field(default_factory=list)
    rounds_s: list[float] = field(default_factory=list)
    failed_in_a_row: int = 0

    def as_result(self, name: str) -> dict[str, Any]:
        """As a measurement prints it."""
        attempts = len(self.succeeded_s) + len(self.failed_s)
        failed = (
            {"failed_attempt": summary("an attempt that failed", "s", self.failed_s)} if self.failed_s else {}
        )
        return {
            "attempts": attempts,
            "failed": len(self.failed_s),
            "failed_share": round(len(self.failed_s) / attempts, 3),
            "failed_in_a_row": self.failed_in_a_row,
            "until_frozen": summary(f"until frozen, {name}", "s", self.rounds_s),
            **failed,
        }


def measure(api: Any, container: str, rounds: int) -> Rounds:
    """Freeze a container so many times; raises ``ContainerEngineError`` if that fails, or if it does not run."""
    seen = Rounds()
    for _ in range(rounds):
        began, failed = time.monotonic(), 0
        while not _attempt(api, container, seen):
            failed += 1
            if time.monotonic() > began + ROUND_S:
                raise ContainerEngineError(
                    f"a container could not be frozen within {ROUND_S:g} s",
                    detail=f"{failed} attempts failed",
                    hint="let the machine's disk come to rest, or ask for fewer --writers",
                )
        seen.rounds_s.append(time.monotonic() - began)
        seen.failed_in_a_row = max(seen.failed_in_a_row, failed)
    return seen


def _attempt(api: Any, container: str, seen: Rounds) -> bool:
    """Ask once; one that was frozen goes on at once."""
    began = time.monotonic()
    try:
        api.pause(container)
    except APIError as error:
        if not api.inspect_container(container)["State"]["Running"]:
            with docker_engine.engine_errors(f"keep {container} running"):
                raise
        if error.status_code < 500:  # it believes that it is paused: what it did a moment ago comes behind
            api.unpause(container)
        seen.failed_s.append(time.monotonic() - began)
        return False
    seen.succeeded_s.append(time.monotonic() - began)
    api.unpause(container)
    return True


@contextmanager
def container_of(api: Any, writers: int, folder: Path) -> Iterator[str]:
    """A container in which so many processes write to files in ``folder``, for the length of the block."""
    name = f"{image.REPOSITORY}:{image.tag_of()}"
    if not api.images(name):
        raise ContainerEngineError(
            f"the engine has no image {name}",
            detail="it is the image of the stacks",
            hint="`tidemark up --backend compose` builds it",
        )
    with docker_engine.engine_errors("start a container"):
        made = api.create_container(
            name,
            [image.VENV_PYTHON, "-c", _WRITER, str(writers), "/written"],
            user=f"{os.getuid()}:{os.getgid()}",
            host_config=api.create_host_config(binds=[f"{folder}:/written"], network_mode="none"),
        )["Id"]
        try:
            api.start(made)
            yield made
        finally:
            api.remove_container(made, force=True)


def main() -> int:
    """Measure, print; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.freeze", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=50)
    args = parser.parse_args()
    results: dict[str, Any] = {}
    try:
        api = docker_engine.connect()
        paths.runs_dir().mkdir(exist_ok=True)
        for name, writers in (("idle", 0), ("writing", args.writers)):
            with (
                TemporaryDirectory(prefix="bench-", dir=paths.runs_dir()) as folder,
                container_of(api, writers, Path(folder)) as container,
            ):
                results[name] = {"writers": writers, **measure(api, container, args.rounds).as_result(name)}
            say(f"{name}: {results[name]['failed']} of {results[name]['attempts']} attempts failed")
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print_result(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
