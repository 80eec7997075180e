"""The programs that a run starts: producers and pipelines, as child processes that speak JSON lines.

``tidemark`` never imports them. A child gets a session of its own (so that Ctrl-C reaches only the runner, which then
ends it in order) and no current folder on its path (``-P``). A pipeline runs from the ``code.zip`` in the run
directory: the code that ran is evidence, and another interpreter (``--spark PYTHON``) needs nothing of ours but that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidemark import paths
from tidemark.errors import DeadlineExceeded, PipelineFailed, TestbedError, TidemarkError, UsageError
from tidemark.formats.client_settings import CONF_VARIABLE
from tidemark.formats.registry_schemas import REGISTRY_VARIABLE
from tidemark.processes import Conversation, tail

PROGRAM_S = 600.0
"""Calibration: describing takes 0.2 s; generating a million events 10 s."""

END_S = 20.0
"""Calibration: a pipeline asked to stop ends in 1-3 s; one whose driver is dead is killed after this."""


def write_code_zip(path: Path) -> Path:
    """All code that takes part in a run, as one zip that Python can import from."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in paths.code_files():
            archive.write(file, name)
    return path


def program_environment(code: Path | None, registry: str = "") -> dict[str, str]:
    """The environment of a child: this one's, the programs first on ``PYTHONPATH``, and the session's clock in UTC.

    ``registry`` is the URL of the run's schema registry; without one a variable of the user's stays as it is.
    ``TIDEMARK_KAFKA_CONF`` is left out: a child whose broker needs a login gets its file as an argument.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment.pop(CONF_VARIABLE, None)
    folders = [code] if code else [paths.payload(), paths.PACKAGE.parent]
    theirs = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *theirs])
    environment["TZ"] = "UTC"
    if registry:
        environment[REGISTRY_VARIABLE] = registry
    return environment


def run_program(
    arguments: Sequence[str], *, timeout_s: float, python: Path | None = None, registry: str = ""
) -> str:
    """Run ``python -m ARGUMENTS`` to its end and return what it printed.

    Raises the ``TidemarkError`` that its exit code stands for, with the program's own words.
    """
    command = [str(python or sys.executable), "-P", "-m", *arguments]
    try:
        done = subprocess.run(
            command,
            env=program_environment(None, registry),
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


class Program(Conversation):
    """``python -m ARGUMENTS`` as a child process that is told what to do, and says when its query has failed."""

    end_s = END_S

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        code: Path | None = None,
        python: Path | None = None,
        registry: str = "",
    ) -> None:
        argv = [str(python or sys.executable), "-P", "-m", *arguments]
        self._log_from = log.stat().st_size if log.exists() else 0  # of those before it in the same log
        super().__init__(argv, log=log, env=program_environment(code, registry))
        self._module = arguments[0]
        self.name = f"`python -m {self._module}`"

    def answer(
        self, timeout_s: float, asked: str = "its start", *, unless: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """The next answer. Raises also ``PipelineFailed`` if it is that the query failed."""
        try:
            answer = super().answer(timeout_s, asked, unless=unless)
        except TidemarkError:
            if not self.has_ended or self.last_words.get("event") != "failed":
                raise
            answer = self.last_words
        if answer.get("event") == "failed":
            raise self._failed(answer)
        return answer

    def _failed(self, answer: Mapping[str, Any]) -> PipelineFailed:
        """The error of a query that failed; of the user's own code its one line, and where that is."""
        if error := answer.get("error"):
            hint = ""
            if str(error).startswith("ModuleNotFoundError"):
                hint = "the executors have the packages of their interpreter only; --py-files FILE sends them more"
            return PipelineFailed(
                f"the query under test failed: {error}", detail=str(answer["place"]), hint=hint
            )
        logs = self.log if self.log.stat().st_size else f"logs of driver and executors in {self.log.parent}"
        return PipelineFailed(
            "the query under test failed", detail=str(answer.get("message")), hint=f"see {logs}"
        )

    def ended(self) -> TidemarkError:
        """The error that its exit code stands for, in the words of its log."""
        return _as_error(self._module, self._child.wait(), tail(self.log, MOST_LINES, start=self._log_from))


MOST_LINES = 400
"""Of a log: the exception of PySpark comes before the stack trace of the server, some hundred lines."""
LAST_LINES = 12
"""Of these those that an error quotes."""
_TRACE = "Traceback (most recent call last)"
_OF_THE_SERVER = "\nJVM stacktrace:"
_NOT_OF_A_SESSION = "[CANNOT_MODIFY_CONFIG]"
_LOST = ("[NO_ACTIVE_SESSION]", "[INVALID_HANDLE.SESSION", "StatusCode.UNAVAILABLE")
"""How PySpark's client says that its Spark Connect server is gone, or is another one than before."""


def _as_error(program: str, code: int, words: str) -> TidemarkError:
    """The error that a program's exit code stands for; a program that says ``error: ...`` is quoted, not wrapped."""
    kind = UsageError if code == UsageError.exit_code else TestbedError
    text = words.strip()
    _, said, told = "\n".join(["", *text.splitlines()[-LAST_LINES:]]).rpartition("\nerror: ")
    if said:
        message, _, rest = told.partition("\n")
        detail, _, hint = rest.partition("hint:")
        return kind(message, detail=detail.replace("why:", "").strip(), hint=hint.strip())
    head, of_python, last_trace = text.rpartition(_TRACE)
    text = head + of_python + last_trace.partition(_OF_THE_SERVER)[0].strip()
    if _NOT_OF_A_SESSION in last_trace and of_python:
        return UsageError(
            "Spark does not take a setting of --conf from a session",
            detail=text[text.rindex(_NOT_OF_A_SESSION) :],
            hint="leave it out: --conf is for settings of a session, such as spark.sql.shuffle.partitions; those of an"
            " application are set by a job with a driver of its own (--app)",
        )
    last = text.rpartition("\n")[2]
    if any(sign in last for sign in _LOST):
        return TestbedError(
            "the Spark driver was lost while the query ran",
            detail=last.strip(),
            hint="`tidemark status` says whether it is there; a driver that somebody else runs is not started again by"
            " tidemark: run it once more, or let `--faults driver@written` kill one of a stack of its own",
        )
    return kind(
        f"`python -m {program}` ended with exit code {code}",
        detail="\n".join(text.splitlines()[-LAST_LINES:]),
        hint="`tidemark status` says whether the stack is well",
    )
