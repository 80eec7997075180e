"""Extracts the reason of a failed query from Spark's error text: the message and all causes, no plans or stack frames.

Works on text, without Spark. The actual reason (a missing file, a full disk, an error of the sink) is often the last in
a chain of causes, behind an error condition that says only "An error occurred".
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
    """The message and the causes; ``text`` is ``str`` of a ``StreamingQueryException``, with or without stack trace."""
    message, _, trace = _PYTHON_FRAME.sub("", _PLAN.sub("", text)).partition("JVM stacktrace:")
    lines: list[str] = []
    for line in message.splitlines():
        if line.strip() and not _NOISE.fullmatch(line) and line not in lines:
            lines.append(line.rstrip())
    for cause in causes_of(trace):
        said = cause.partition(": ")[2] or cause
        if not any(said in line for line in lines):
            lines.append(f"caused by {cause}")
    return "\n".join(line[:LINE] for line in lines[:LINES])


def causes_of(text: str) -> list[str]:
    """The causes that a stack trace names, the last one last, without the packages of their classes."""
    found: list[str] = _CAUSE.findall(text)
    return found
