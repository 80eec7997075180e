"""The agent in a worker's container: lists executors and signals single processes there, with the image's Python.

Must not import tidemark. A process is identified by its id and its start time (``processes.ProcessId``), so that a
reused id is never signalled: ``ID`` stands for three words, ``PID START_TICKS BOOT_ID``. Each line of standard input is
a command, a JSON list of words; each answer is a line with a code (0 if the command succeeded) and an output. The agent
ends with its standard input.

``list APP``      for each living executor of an application a line of JSON: ``executor_id pid start_ticks boot_id``
``suspend ID``    SIGSTOP it and its descendants, and wait until they are stopped; code 3 if it is gone
``resume ID``     SIGCONT it and its descendants; does nothing if it is gone
``kill ID``       SIGKILL it and wait until it is gone; resumes its descendants, which then end by themselves
``kill-family ID``  SIGKILL its descendants and it, and wait until it is gone
``quit ID``       SIGQUIT it, if it is a JVM, which then prints its thread stacks; code 3 if it is gone or none,
                  code 4 if it is stopped: it would print them only once it is resumed
``lives ID``      code 3 if it is gone
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
STOPPED = 4
FAILED = 1
_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_WAIT_S = 60.0
"""Calibration: milliseconds, but only after pending disk I/O."""


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
            described = {
                "executor_id": number,
                "pid": process.pid,
                "start_ticks": start_ticks,
                "boot_id": boot_id,
            }
            found.append(json.dumps(described))
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError):
            continue
    return "\n".join(found)


def started(pid: int) -> tuple[int, str]:
    """The start of a process: clock ticks since the boot (the 22nd field, see proc(5)), and the boot's id."""
    line = Path(f"/proc/{pid}/stat").read_bytes()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return int(line[line.rindex(b")") + 2 :].split()[19]), boot_id


def find(pid: int, start: tuple[int, str]) -> psutil.Process | None:
    """The living process of this id and start, or ``None``."""
    try:
        process = psutil.Process(pid)
        return process if started(pid) == start and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def act(action: str, pid: int, start: tuple[int, str]) -> int:
    """Run ``suspend``, ``resume``, ``kill``, ``kill-family``, ``quit`` or ``lives`` on a process; returns the code."""
    process = find(pid, start)
    if process is None:
        return GONE if action in ("suspend", "lives", "quit") else 0
    try:
        if action == "quit":
            if Path(process.exe()).name != "java":
                return GONE
            if process.status() == psutil.STATUS_STOPPED:
                return STOPPED
            process.send_signal(signal.SIGQUIT)
        elif action == "suspend":
            process.send_signal(signal.SIGSTOP)
            stopped = [process, *_signalled(_descendants(process), signal.SIGSTOP)]
            _until(lambda: all(_is_stopped(one) for one in stopped) or find(pid, start) is None)
        elif action == "resume":
            _signalled([*_descendants(process), process], signal.SIGCONT)
        elif action in ("kill", "kill-family"):
            descendants = _descendants(process)
            if action == "kill-family":
                _signalled(descendants, signal.SIGKILL)
            process.send_signal(signal.SIGKILL)
            _until(lambda: find(pid, start) is None)
            _signalled(descendants, signal.SIGCONT)
    except psutil.NoSuchProcess:
        return GONE if action in ("suspend", "quit") else 0
    return 0


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    """All descendants of a process: an executor's Python workers."""
    return list(process.children(recursive=True))


def _signalled(processes: list[psutil.Process], number: signal.Signals) -> list[psutil.Process]:
    """Send a signal to processes; returns those that still existed."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            found.append(process)
    return found


def _is_stopped(process: psutil.Process) -> bool:
    """Whether a process is stopped or gone."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the process did not react to the signal within {_WAIT_S:g} s")
        time.sleep(0.002)  # noqa: TID251 (tidemark.waiting is not installed here)


def answer(command: list[str]) -> tuple[int, str]:
    """Run a command; returns its code and output."""
    try:
        if command[0] == "list":
            return 0, list_executors(command[1])
        return act(command[0], int(command[1]), (int(command[2]), command[3])), ""
    except (psutil.Error, OSError) as error:
        return FAILED, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
