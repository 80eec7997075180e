"""What is done to single processes inside a worker's container: run there, by its own Python.

Free of tidemark. Every process is named by its id and by when it was started (``processes.ProcessId``), so that
nobody else's is ever signalled: ``ID`` stands for three words, ``PID START_TICKS BOOT_ID``.
Each line of its standard input is a command, a list of words in JSON; the answer is a line too: a code (0 if it was
done) and what there is to say. It ends when its standard input does.

``list APP``    for each living executor of an application a line of JSON: ``executor_id pid start_ticks boot_id``
``halt ID``     SIGSTOP, with all that it has started, and wait until they are stopped; code 3 if it is gone
``go-on ID``    SIGCONT, with all that it has started; nothing happens to one that is gone
``kill ID``     SIGKILL, and wait until it is gone; what it has started goes on, if it was stopped, and ends
``lives ID``    code 3 if it is gone
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

GONE = 3
FAILED = 1
_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_WAIT_S = 60.0
"""Calibration: milliseconds; a thread in the middle of disk I/O is waited for."""


def list_executors(app_id: str) -> str:
    """The living executors of an application."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if _CLASS not in line or app_id not in line or process.status() == psutil.STATUS_ZOMBIE:
                continue
            number = line[line.index("--executor-id") + 1]
            start_ticks, boot_id = started(process.pid)
            known = {
                "executor_id": number,
                "pid": process.pid,
                "start_ticks": start_ticks,
                "boot_id": boot_id,
            }
            found.append(json.dumps(known))
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError):
            continue
    return "\n".join(found)


def started(pid: int) -> tuple[int, str]:
    """When a process was started: clock ticks since a boot (the 22nd field, see proc(5)), and which boot."""
    line = Path(f"/proc/{pid}/stat").read_bytes()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return int(line[line.rindex(b")") + 2 :].split()[19]), boot_id


def find(pid: int, start: tuple[int, str]) -> psutil.Process | None:
    """The living process of that id that was started then, or ``None``."""
    try:
        process = psutil.Process(pid)
        return process if started(pid) == start and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def do(what: str, pid: int, start: tuple[int, str]) -> int:
    """Do one of the things of the module's list to a process; returns the code."""
    process = find(pid, start)
    if process is None:
        return GONE if what in ("halt", "lives") else 0
    try:
        if what == "halt":
            process.send_signal(signal.SIGSTOP)
            stopped = [process, *_signalled(_descendants(process), signal.SIGSTOP)]
            _until(lambda: all(_is_stopped(one) for one in stopped) or find(pid, start) is None)
        elif what == "go-on":
            _signalled([*_descendants(process), process], signal.SIGCONT)
        elif what == "kill":
            started = _descendants(process)
            process.send_signal(signal.SIGKILL)
            _until(lambda: find(pid, start) is None)
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
        time.sleep(0.002)  # noqa: TID251 (tidemark.waiting is not to be had in here)


def answer(words: list[str]) -> tuple[int, str]:
    """Carry out a command: its code, and what there is to say."""
    try:
        if words[0] == "list":
            return 0, list_executors(words[1])
        return do(words[0], int(words[1]), (int(words[2]), words[3])), ""
    except (psutil.Error, OSError) as error:
        return FAILED, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
