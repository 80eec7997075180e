"""A repository of ``docs/examples``, copied, with tidemark from its wheel: as it is, and broken in one place.

Every state of the repository lies in the same folder, one after the other, so that one stack serves all of them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.repository import tree
from tests.support.wheels import environment_elsewhere, run_elsewhere

EXAMPLES = tree.ROOT / "docs" / "examples"
KEPT = (".tidemark", "runs")
"""What tidemark makes in a repository."""
COMMAND_S = 900.0
"""Calibration: the tests of a repository, one with a killed driver, take 60 s on idle cores, and 300 s on busy ones."""


@dataclass(frozen=True)
class Break:
    """A mistake in the code of production: ``edits`` of a file below ``src``, each of text that is there once.

    ``run`` are the words of the command line after ``tidemark run``. Its first line says ``says``, all of it; where the
    query fails (``fails``) the first two lines of the error do.
    """

    file: str
    edits: tuple[tuple[str, str], ...]
    run: str
    says: tuple[str, ...]
    fails: bool = False

    def applied(self, text: str) -> str:
        """The text of the file, broken."""
        for old, new in self.edits:
            assert text.count(old) == 1, f"{self.file} has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        return text


@dataclass(frozen=True)
class Example:
    """A folder of ``docs/examples``: ``prepare`` are the words after ``python`` that make its traces.

    ``registry``: it needs a schema registry, whose URL is ``TIDEMARK_REGISTRY`` meanwhile. ``variables`` gives what the
    environment has to have besides.
    """

    name: str
    prepare: tuple[str, ...]
    breaks: dict[str, Break]
    registry: bool = False
    variables: Callable[[], dict[str, str]] = dict

    @property
    def folder(self) -> Path:
        """Where it is in this tree."""
        return EXAMPLES / self.name


class ExampleRepository:
    """A copy of an example, and the environment that it has."""

    def __init__(self, example: Example, folder: Path, environment: Path) -> None:
        self.example = example
        self._folder = folder
        self._bin = environment / "bin"
        self._variables = {"TIDEMARK_BACKEND": "local", **example.variables()}
        folder.mkdir(parents=True, exist_ok=True)
        self._put_back()

    @contextmanager
    def stack(self) -> Iterator[None]:
        """Have a stack, and the traces, for all that is run meanwhile."""
        registry = ["--registry"] if self.example.registry else []
        try:
            self._call([self._bin / "tidemark", "up", "--backend", "local", *registry])
            if registry:
                status = json.loads(self._call([self._bin / "tidemark", "status", "--json"]))
                [url] = [one["address"] for one in status["components"] if one["name"] == "registry"]
                self._variables["TIDEMARK_REGISTRY"] = url
            self._call([self._bin / "python", *self.example.prepare])
            yield
        finally:
            self._call([self._bin / "tidemark", "down"])

    def problem_with_tests(self) -> str:
        """What its own tests print if they do not pass; empty if they do."""
        done = self._run([self._bin / "python", "-m", "pytest", "-q"])
        passed = done.returncode == 0 and " passed" in done.stdout
        return "" if passed else f"its tests ended with {done.returncode}\n{done.stdout}{done.stderr}"

    def problem_with(self, mistake: Break) -> str:
        """What is wrong with what is said of a mistake; empty if its first line says all that it has to."""
        file = self._folder / "src" / mistake.file
        file.write_text(mistake.applied(file.read_text()))
        try:
            done = self._run([self._bin / "tidemark", "run", *shlex.split(mistake.run)])
        finally:
            self._put_back()
        told = done.stderr[max(done.stderr.rfind("\nerror: "), 0) :].strip() if mistake.fails else done.stdout
        first = " ".join(told.splitlines()[: 2 if mistake.fails else 1])
        expected = (4, "error: ") if mistake.fails else (1, "INVALID ")
        if (done.returncode, first[: len(expected[1])]) != expected:
            return f"exit code {done.returncode}, {first!r}\n{done.stdout[:2000]}\n{done.stderr[-2000:]}"
        missing = [words for words in mistake.says if words not in first]
        return f"{missing} is not in {first!r}" if missing else ""

    def _put_back(self) -> None:
        """The repository as it is in the tree, with what tidemark made in it and the traces."""
        for path in (self._folder / name for name in ("src", "tests")):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(
            self.example.folder, self._folder, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(*KEPT, "__pycache__"),
        )  # fmt: skip

    def _call(self, command: Sequence[str | Path]) -> str:
        return run_elsewhere(command, self._folder, **self._variables)

    def _run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self._folder, env=environment_elsewhere(**self._variables), capture_output=True,
            text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
