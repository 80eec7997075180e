"""What the threads of a driver and of its executors do: a JVM prints that itself when it is asked by SIGQUIT.

Nothing is installed for it, and no JDK is needed. What a JVM prints comes at the end of its standard output, from where
it is read back. A process that is suspended, or does not answer, is said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tidemark.errors import DeadlineExceeded, TidemarkError
from tidemark.stack.api import Executor
from tidemark.stack.registry import ComponentRecord
from tidemark.stack.runtime import Runtime
from tidemark.waiting import wait_until

PRINTED_S = 10.0
"""Calibration: a JVM prints the stacks of 150 threads in a few milliseconds, at its next safepoint."""
_BEGIN, _END = "Full thread dump", "JNI global refs"
"""What is in the first and in the last line that HotSpot prints (``VM_PrintThreads``, ``VM_PrintJNI``)."""


def of_component(runtime: Runtime, component: ComponentRecord) -> str:
    """The thread stacks of a driver or a job."""
    return _printed(lambda: runtime.print_stacks(runtime.target(component)), lambda: runtime.log(component))


def of_executors(runtime: Runtime, folder: Path, app_id: str, executors: list[Executor]) -> Mapping[str, str]:
    """The thread stacks of executors, by ``executor-ID``; ``folder`` is that of the stack."""
    found = {}
    for executor in executors:
        log = folder / executor.worker / app_id / executor.executor_id / "stdout"
        target = runtime.executor_target(executor)
        found[f"executor-{executor.executor_id}"] = _printed(
            partial(runtime.print_stacks, target), partial(_text, log)
        )
    return found


def _printed(ask: Callable[[], str], log: Callable[[], str]) -> str:
    """What a JVM adds to its log once it was asked, or why there is nothing."""
    try:
        before = len(log())
        if why := ask():
            return f"no thread stacks: {why}\n"
        return wait_until(lambda: _dump(log()[before:]), PRINTED_S, lambda: "the thread stacks")
    except DeadlineExceeded:
        return f"no thread stacks: the process printed none within {PRINTED_S:g} s\n"
    except TidemarkError as error:
        return f"no thread stacks: {error.message}\n"


def _dump(text: str) -> str | None:
    """A whole thread dump, from its first to its last line; ``None`` if it is not all there."""
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    if begin < 0 or end < 0:
        return None
    line_end = text.find("\n", end)
    return None if line_end < 0 else text[begin : line_end + 1]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
