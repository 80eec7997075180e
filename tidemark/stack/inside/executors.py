"""What is done to single processes inside a worker's container: run there, by its own Python.

Free of tidemark. Every process is named by its id and its time of creation, so that nobody else's is ever signalled.
Each line of its standard input is a command, a list of words in JSON; the answer is a line too: a code (0 if it was
done) and what there is to say. It ends when its standard input does.

``list APP``            for each living executor of an application a line of JSON: ``executor_id pid create_time``
``halt PID CREATED``    SIGSTOP, with all that it has started, and wait until they are stopped; code 3 if it is gone
``go-on PID CREATED``   SIGCONT, with all that it has started; nothing happens to one that is gone
``kill PID CREATED``    SIGKILL, and wait until it is gone; what it has started goes on, if it was stopped, and ends
``lives PID CREATED``   code 3 if it is gone
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

GONE = 3
FAILED = 1
_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_WAIT_S = 60.0
"""Calibration: milliseconds; a thread in the middle of disk I/O is waited for."""
_SLACK_S = 0.02


def list_executors(app_id: str) -> str:
    """The living executors of an application."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if _CLASS not in line or app_id not in line or process.status() == psutil.STATUS_ZOMBIE:
                continue
            number = line[line.index("--executor-id") + 1]
            known = {"executor_id": number, "pid": process.pid, "create_time": process.create_time()}
            found.append(json.dumps(known))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return "\n".join(found)


def find(pid: int, create_time: float) -> psutil.Process | None:
    """The living process of that id and time, or ``None``."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - create_time) <= _SLACK_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def do(what: str, pid: int, create_time: float) -> int:
    """Do one of the things of the module's list to a process; returns the code."""
    process = find(pid, create_time)
    if process is None:
        return GONE if what in ("halt", "lives") else 0
    try:
        if what == "halt":
            process.send_signal(signal.SIGSTOP)
            stopped = [process, *_signalled(_descendants(process), signal.SIGSTOP)]
            _until(lambda: all(_is_stopped(one) for one in stopped) or find(pid, create_time) is None)
        elif what == "go-on":
            _signalled([*_descendants(process), process], signal.SIGCONT)
        elif what == "kill":
            started = _descendants(process)
            process.send_signal(signal.SIGKILL)
            _until(lambda: find(pid, create_time) is None)
            _signalled(started, signal.SIGCONT)
    except psutil.NoSuchProcess:
        return GONE if what == "halt" else 0
    return 0


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    """What a process has started, and what that has: an executor's Python workers."""
    return list(process.children(recursive=True))


def _signalled(processes: list[psutil.Process], number: signal.Signals) -> list[psutil.Process]:
    """Those that were there to be signalled."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            found.append(process)
    return found


def _is_stopped(process: psutil.Process) -> bool:
    """Whether it stands still; who is gone does."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the process does not heed the signal")
        time.sleep(0.002)  # noqa: TID251 (tidemark.wait is not to be had in here)


def answer(words: list[str]) -> tuple[int, str]:
    """Carry out a command: its code, and what there is to say."""
    try:
        if words[0] == "list":
            return 0, list_executors(words[1])
        return do(words[0], int(words[1]), float(words[2])), ""
    except (psutil.Error, OSError) as error:
        return FAILED, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
