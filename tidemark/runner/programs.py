"""The programs that a run starts: producers and pipelines, as child processes that speak JSON lines.

``tidemark`` never imports them. A child gets a session of its own (so that Ctrl-C reaches only the runner, which then
ends it in order) and no current folder on its path (``-P``). A pipeline runs from the ``code.zip`` in the run
directory: the code that ran is evidence, and another interpreter (``--spark PYTHON``) needs nothing of ours but that.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidemark import paths
from tidemark.errors import DeadlineExceeded, PipelineFailed, TestbedError, TidemarkError, UsageError
from tidemark.processes import tail

LOOK_S = 0.5
"""How often who waits for an answer looks whether it can still come."""

END_S = 20.0
"""Calibration: a pipeline asked to stop ends in 1-3 s; one whose driver is dead is killed after this."""


def write_code_zip(path: Path) -> Path:
    """All code that takes part in a run, as one zip that Python can import from."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in paths.code_files():
            archive.write(file, name)
    return path


def program_environment(code: Path | None) -> dict[str, str]:
    """The environment of a child: this one's, with the programs importable and the session's clock in UTC."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    folders = [code] if code else [paths.payload(), paths.PACKAGE.parent]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    environment["TZ"] = "UTC"
    return environment


def run_program(arguments: Sequence[str], *, timeout_s: float, python: Path | None = None) -> str:
    """Run ``python -m ARGUMENTS`` to its end and return what it printed.

    Raises the ``TidemarkError`` that its exit code stands for, with the program's own words.
    """
    command = [str(python or sys.executable), "-P", "-m", *arguments]
    try:
        done = subprocess.run(
            command,
            env=program_environment(None),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DeadlineExceeded(
            f"`python -m {arguments[0]}` did not end within {timeout_s:g} s",
            hint="run it by itself to see what it does",
        ) from error
    if done.returncode != 0:
        raise _as_error(arguments[0], done.returncode, done.stderr)
    return done.stdout


class Program:
    """A child process that answers each command on its standard input with one JSON line. A context manager."""

    def __init__(
        self, arguments: Sequence[str], log: Path, *, code: Path | None = None, python: Path | None = None
    ) -> None:
        self.name = arguments[0]
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(python or sys.executable), "-P", "-m", *arguments],
                env=program_environment(code),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self.close()

    def ask(
        self, command: str, timeout_s: float, *, unless: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """Send a command and return its answer; see :meth:`answer`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._ended() from None
        return self.answer(timeout_s, command, unless=unless)

    def answer(
        self, timeout_s: float, asked: str = "its first line", *, unless: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """The next line that the program says. ``unless`` raises what makes waiting for it pointless."""
        answer = self._next(timeout_s, asked, unless)
        if answer is None:
            raise self._ended()
        if answer.get("event") == "failed":
            raise PipelineFailed(
                "the query under test failed",
                detail=str(answer.get("message")),
                hint=f"its log is {self.log}",
            )
        return answer

    def close(self) -> None:
        """End the program: its standard input is closed, which it takes as the wish to stop; then it is killed."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended already, which is what was wanted
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the program at once: whom it talked to is gone."""
        self._process.kill()

    def _next(
        self, timeout_s: float, asked: str, unless: Callable[[], object] | None
    ) -> dict[str, Any] | None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._answers.get(timeout=min(LOOK_S, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if unless is not None:
                    unless()
                if time.monotonic() >= deadline:
                    break
        raise DeadlineExceeded(
            f"waited {timeout_s:g} s for `python -m {self.name}` to answer {asked!r}",
            detail=self._log_tail(),
            hint=f"its log is {self.log}; `tidemark status` says whether the stack is well",
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
            except json.JSONDecodeError:
                continue  # a library that prints; its words are not an answer
            if isinstance(answer, Mapping):
                self._answers.put(dict(answer))
        self._answers.put(None)

    def _ended(self) -> TidemarkError:
        code = self._process.wait()
        return _as_error(self.name, code, self._log_tail())

    def _log_tail(self) -> str:
        return tail(self.log, 12)


def _as_error(program: str, code: int, words: str) -> TidemarkError:
    """The error that a program's exit code stands for; a program that says ``error: ...`` is quoted, not wrapped."""
    kind = UsageError if code == UsageError.exit_code else TestbedError
    text = words.strip()
    _, said, told = f"\n{text}".rpartition("\nerror: ")
    if said:
        message, _, rest = told.partition("\n")
        detail, _, hint = rest.partition("hint:")
        return kind(message, detail=detail.replace("why:", "").strip(), hint=hint.strip())
    tail = "\n".join(text.splitlines()[-12:])
    return kind(
        f"`python -m {program}` ended with exit code {code}",
        detail=tail,
        hint="`tidemark status` says whether the stack is well",
    )
