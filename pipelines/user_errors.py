"""What went wrong in the user's code: the one line that matters, and the line of theirs where it happened.

For an exception in this process (``as_usage_error``), and for the text of one that came from a Python worker
(``place_in``). Frames of tidemark, of Spark and of installed packages are passed over.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException

from pipelines.project_modules import ARCHIVE, is_of_project, project_modules
from tidemark.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

PYSPARK = Path(pyspark.__file__).parent
_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_POSITION = re.compile(r"\s*;?\s*line \d+,? pos \d+;?\s*$")
_SQLSTATE = re.compile(r";? *SQLSTATE: \w+;?")
SHOWN = 300
"""So many characters of a message are shown."""


def as_usage_error(error: BaseException, what: str) -> UsageError:
    """The error of the user's code as an error of tidemark: ``what`` failed, why, and where."""
    return UsageError(f"{what}: {told(error)}", detail=place_of(error), hint=_hint(error))


def told(error: BaseException) -> str:
    """The kind of an error and its first line, without Spark's plan, state code and stack trace.

    Of an error that Spark passes on from a Python worker it is the worker's.
    """
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    if in_worker := python_error_in(str(error)):
        return f"in a Python worker: {in_worker}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = _POSITION.sub("", _SQLSTATE.sub("", lines[0])).strip() if lines else ""
    first = first if len(first) <= SHOWN else f"{first[:SHOWN]}…"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def place_of(error: BaseException) -> str:
    """``FILE:LINE in FUNCTION: CODE``, the innermost of the user's lines that an error names, or an empty text."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: {(error.text or '').strip()}"
    places = [*_frames(error), *_call_sites(error)]
    return places[-1] if places else ""


def came_from_spark(error: BaseException | None) -> bool:
    """Whether PySpark raised an error, as it does where a session is needed and there is none."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    return any(Path(frame.filename).is_relative_to(PYSPARK) for frame in frames)


def place_in(text: str) -> str:
    """The same for the text of an error in a Python worker, which has the frames of its traceback."""
    frames = [
        (_on_this_machine(found["file"]), int(found["line"]), found["function"])
        for found in _FRAME.finditer(text)
    ]
    places = [_place(*frame) for frame in frames if is_of_project(frame[0])]
    return places[-1] if places else ""


def python_error_in(text: str) -> str:
    """The line that follows the last frame of a Python traceback in a text: kind and message; ``""``: no frame."""
    frames = list(_FRAME.finditer(text))
    if not frames:
        return ""
    after = text[frames[-1].end() :].splitlines()[1:]
    said = next((line for line in after if line.strip() and not line.startswith(" ")), "")
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


def _frames(error: BaseException) -> Iterator[str]:
    for frame in traceback.extract_tb(error.__traceback__):
        if is_of_project(frame.filename):
            yield _place(frame.filename, frame.lineno or 0, frame.name)


def _call_sites(error: BaseException) -> Iterator[str]:
    """Where the expression that Spark complains of was written; only those of functions of PySpark are known.

    PySpark 3.5 says nothing of it.
    """
    contexts: list[Any] = (
        getattr(error, "getQueryContext", list)() if isinstance(error, PySparkException) else []
    )
    for context in contexts or []:
        if context.contextType().name != "DataFrame":
            yield from _written(context.fragment())
            continue
        file, _, line = context.callSite().rpartition(":")
        if line.isdecimal() and is_of_project(file):
            yield _place(file, int(line), "")


def _written(fragment: str) -> Iterator[str]:
    """The line of the project that has a fragment of SQL, of which Spark names no line; none if there are several."""
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if is_of_project(file):
            lines = enumerate(linecache.getlines(file), 1)
            found += [_place(file, number, "") for number, line in lines if fragment and fragment in line]
    if len(found) == 1:
        yield found[0]


def _place(file: str, line: int, function: str) -> str:
    code = linecache.getline(file, line).strip()
    inside = f" in {function}" if function not in ("", "<module>") else ""
    return f"{_shown(file)}:{line}{inside}" + (f": {code}" if code else "")


def _shown(file: str) -> str:
    """A path below the current folder without that folder."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _on_this_machine(file: str) -> str:
    """The file of a module that was sent to an executor, as it is called here."""
    *_, inside = ARCHIVE.split(file)
    if inside == file:
        return file
    top = inside.partition("/")[0].removesuffix(".py")
    source = project_modules(top).get(top)
    return file if source is None else os.path.normpath(Path(source).parent / inside)


def _hint(error: BaseException) -> str:
    said = str(error)
    if isinstance(error, ModuleNotFoundError):
        return (
            f"install it for {sys.executable}, or name an interpreter that has it with --spark; a module of your own is"
            " found from the folder of your project, or with --project DIR"
        )
    if "SESSION_OR_CONTEXT_NOT_EXISTS" in said:
        return (
            "there is no session where decode and encode are imported: make what needs one inside `build`, or put the"
            " two into a file of their own, --functions FILE.py"
        )
    if "CONNECT_MASTER" in said:
        return "the session is there before the module: SparkSession.builder.getOrCreate() gives it, without master()"
    if "JVM_ATTRIBUTE_NOT_SUPPORTED" in said:
        return (
            "a pipeline runs on Spark Connect, which has data frames and no SparkContext, RDD or JVM objects"
        )
    return ""
