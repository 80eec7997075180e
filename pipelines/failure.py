"""Why a query failed, from what Spark says of it: its first words, then each cause, without plans and stack frames.

Free of Spark. What stopped a query (a file that is gone, a disk that is full, a sink that refuses) is often the last
of a row of causes, behind a condition that says no more than "An error occurred".
"""

from __future__ import annotations

import re

_PLAN = re.compile(r"=== Streaming Query ===.*?(?=JVM stacktrace:|^\tat |\Z)", re.DOTALL | re.MULTILINE)
_PYTHON_FRAME = re.compile(r'^ +File ".*", line \d+.*\n(?: {4}.*\n(?: +[~^]+\n)?)?', re.MULTILINE)
_NOISE = re.compile(
    r"\s*(at \S+\(.*\)|\.\.\. \d+ more|Driver stacktrace:|Traceback \(most recent call last\):|"
    r"During handling of the above exception, another exception occurred:)\s*"
)
_CAUSE = re.compile(r"\s*Caused by: (?:[a-z]\w*\.)*(.+)")
LINE = 2000
LINES = 40


def reason_of(text: str) -> str:
    """``text`` is what ``str`` gives of a ``StreamingQueryException``, with the stack trace if it has one."""
    message, _, trace = _PYTHON_FRAME.sub("", _PLAN.sub("", text)).partition("JVM stacktrace:")
    lines: list[str] = []
    for line in message.splitlines():
        if line.strip() and not _NOISE.fullmatch(line) and line not in lines:
            lines.append(line.rstrip())
    for cause in _CAUSE.findall(trace):
        said = cause.partition(": ")[2] or cause
        if not any(said in line for line in lines):
            lines.append(f"caused by {cause}")
    return "\n".join(line[:LINE] for line in lines[:LINES])
