"""Child processes: start them in a session of their own, identify, signal, end and kill them.

Knows nothing of Kafka or Spark. Linux only. A process is identified by its id *and* its start time in clock ticks since
the boot, both from ``/proc``: a reused id is never signalled, and setting the clock does not change an identity. Every
log goes to a file; nothing blocks on a pipe.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tidemark.errors import DaemonDied, DeadlineExceeded, TidemarkError
from tidemark.waiting import wait_until

ASK_S = 5.0
"""Calibration: a broker or a driver that is asked to stop takes 1 to 3 s on a busy machine."""
CHECK_S = 0.5
"""Interval at which a wait for an answer checks whether the child still runs."""
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""The variables of the shell that a daemon inherits; see :func:`base_environment`."""
KILL_S = 10.0
"""Calibration: the kernel ends a killed JVM in well under 1 s; later only if the disk hangs."""
SHOWN_S = 30.0
"""Calibration: microseconds; later only if the machine hangs."""
_TAIL_BYTES = 64 * 1024

_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, order=True)
class ProcessId:
    """The identity of a process: ``pid``, ``start_ticks`` (clock ticks from the boot to its start), and the boot.

    Independent of the wall clock. psutil's ``create_time`` is not: it adds the time of the boot, which the kernel
    computes from the wall clock, and which changes when that is set.
    """

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of an existing process; raises ``psutil.NoSuchProcess``."""
        return cls(pid, _start_ticks(pid), boot_id())

    @classmethod
    def own(cls) -> ProcessId:
        """The identity of this process."""
        return cls.of(os.getpid())

    def process(self) -> psutil.Process | None:
        """The living process, or ``None`` if it is gone, a zombie, or its id belongs to another process."""
        _reap()
        try:
            process = psutil.Process(self.pid)
            return None if ProcessId.of(self.pid) != self or _has_ended(process) else process
        except psutil.NoSuchProcess:
            return None

    @property
    def alive(self) -> bool:
        """Whether the process runs or is stopped by a signal."""
        return self.process() is not None

    @property
    def paused(self) -> bool:
        """Whether the process is stopped by a signal."""
        process = self.process()
        try:
            return process is not None and process.status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; ``False`` if the process is gone."""
        process = self.process()
        if process is None:
            return False
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            return False
        return True


@functools.cache
def boot_id() -> str:
    """The kernel's id of the current boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def spawn(
    argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str], group: int | None = None
) -> ProcessId:
    """Start a daemon in a session of its own with exactly ``env``, its output appended to ``log``.

    With ``group`` it belongs to that group, too, which takes ``CAP_SETGID``.
    """
    _reap()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=env,
            start_new_session=True,
            extra_groups=None if group is None else [*os.getgroups(), group],
        )
    _children.append(child)
    try:
        # Between exec and its first instruction a process has no environment: `marked` would not find it.
        wait_until(
            lambda: not env or _has_environment(child.pid),
            SHOWN_S,
            lambda: f"{argv[0]} to have its environment",
            poll_s=0.001,
        )
        return ProcessId.of(child.pid)
    except psutil.NoSuchProcess as error:
        raise DaemonDied(
            f"{argv[0]} ended at once", detail=tail(log), hint=f"its log is {str(log)!r}"
        ) from error


def end(processes: Iterable[ProcessId], *, ask_s: float = ASK_S) -> None:
    """Send SIGTERM to processes, kill those that still live after ``ask_s`` seconds, and wait until all are gone.

    A stopped process is resumed, because it could not handle SIGTERM. ``ask_s=0`` kills at once.
    """
    living = [identity for identity in processes if identity.alive]
    if ask_s > 0:
        for identity in living:
            identity.signal(signal.SIGTERM)
            identity.signal(signal.SIGCONT)
        try:
            wait_until(
                lambda: not _living(living), ask_s, lambda: "processes to end after SIGTERM", poll_s=0.02
            )
        except DeadlineExceeded:
            living = _living(living)
        else:
            return
    for identity in living:
        identity.signal(signal.SIGKILL)
    wait_until(
        lambda: not _living(living),
        KILL_S,
        lambda: f"killed processes to be gone: {[identity.pid for identity in _living(living)]}",
        poll_s=0.01,
    )


def marked(name: str, value: str) -> list[ProcessId]:
    """The processes of this user whose environment has ``name=value``.

    Descendants inherit the variable, so this also finds those whose parent is gone.
    """
    found = []
    own = os.getpid()
    for process in psutil.process_iter():
        try:
            if process.pid == own or process.environ().get(name) != value:
                continue
            if not _has_ended(process):
                found.append(ProcessId.of(process.pid))
        except (psutil.AccessDenied, psutil.NoSuchProcess, OSError):
            continue  # another user's, or gone meanwhile
    return found


def tail(log: Path, lines: int = 20, *, start: int = 0) -> str:
    """The last lines of a log, at most 64 KiB, from byte ``start`` on; empty if there is no log."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(deque(text.splitlines(), maxlen=lines))


class Conversation:
    """A child that answers each line of its standard input with a line of JSON. A context manager; ends it at exit.

    It has a session of its own. What it prints and is no JSON object is a library's, and no answer; its standard error
    goes to ``log``. It is read all the time, so that it never waits for somebody to read.
    """

    name: str
    """What messages call it."""
    end_s = 0.2
    """How long it may take to end once its standard input is closed, until it is killed."""

    def __init__(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        self.log = log
        self.name = Path(argv[0]).name
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self._child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=cwd, env=env,
                start_new_session=True,
            )  # fmt: skip
        self.pid = self._child.pid
        self._unanswered = 0
        self._late = 0
        """So many answers, to questions that were given up, come before that of the last question."""
        self.last_words: dict[str, Any] = {}
        """The last of such answers: where the child has ended since, it may say why."""
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return self._child.poll() is not None

    def ask(
        self,
        question: str | Mapping[str, Any],
        timeout_s: float,
        *,
        unless: Callable[[], object] | None = None,
    ) -> dict[str, Any]:
        """Send a question, words or a JSON object, and return the answer; see :meth:`answer`."""
        line = question if isinstance(question, str) else json.dumps(question)
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line.encode() + b"\n")
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self.ended() from None
        self._late = self._unanswered
        self._unanswered += 1
        return self.answer(timeout_s, line, unless=unless)

    def answer(
        self, timeout_s: float, asked: str = "its start", *, unless: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """The answer to the last question, or the next one of a child that was not asked.

        Raises:
            TidemarkError: the child ended instead (:meth:`ended`).
            DeadlineExceeded: no answer in ``timeout_s``. Whatever ``unless`` raises, which is called twice a second.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                answer = self._answers.get(timeout=min(CHECK_S, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if unless is not None:
                    unless()
                if time.monotonic() >= deadline:
                    raise DeadlineExceeded(
                        f"timed out after {timeout_s:g} s waiting for {self.name} to answer {asked!r}",
                        detail=tail(self.log),
                        hint=f"its log is {str(self.log)!r}; `tidemark status` says whether the stack is well",
                    ) from None
                continue
            if answer is not None:
                self._unanswered = max(0, self._unanswered - 1)  # a child may speak before it is asked
            if answer is None or not self._late:
                break
            self._late -= 1
            self.last_words = answer
        if answer is None:
            self._answers.put(None)  # whoever asks once more hears it, too
            raise self.ended()
        return answer

    def close(self) -> None:
        """Close its input, which ends it; kill it if it does not end. Idempotent."""
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):  # it died with a question unread: nothing is lost
            child.stdin.close()
        try:
            child.wait(self.end_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(KILL_S)
        self._reader.join(KILL_S)
        child.stdout.close()

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    def ended(self) -> TidemarkError:
        """The error of a child that ended before it answered; the end of its log is the detail."""
        return DaemonDied(
            f"{self.name} ended before it answered",
            detail=tail(self.log),
            hint=f"its log is {str(self.log)!r}",
        )

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict):
                self._answers.put(answer)
        self._answers.put(None)


def base_environment(**extra: str) -> dict[str, str]:
    """The environment of a daemon: the basic variables, without the shell's settings for Python, Spark and Java."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if sys.platform != "win32":
        kept.setdefault("LANG", "C.UTF-8")
    return {**kept, **extra}


def _start_ticks(pid: int) -> int:
    """``starttime`` of proc(5): the 22nd field, counted after the name, which may contain blanks and brackets."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    return int(line[line.rindex(b")") + 2 :].split()[19])


def _has_environment(pid: int) -> bool:
    """Whether a process has an environment, or has ended already."""
    try:
        return bool(psutil.Process(pid).environ())
    except psutil.Error:
        return True


def _has_ended(process: psutil.Process) -> bool:
    """Whether only the exit code of a process is left.

    A killed JVM is a zombie at once, but keeps its sockets and memory until its last thread is gone.
    """
    return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)


def _living(identities: Iterable[ProcessId]) -> list[ProcessId]:
    return [identity for identity in identities if identity.alive]


@atexit.register
def _detach_children() -> None:
    """Avoid warnings of ``subprocess`` about daemons that are meant to outlive this process."""
    for child in _children:
        child.returncode = child.poll() or 0


def _reap() -> None:
    """Collect the exit codes of children that have ended, so that they do not remain zombies."""
    for child in _children[:]:
        if child.poll() is not None:
            _children.remove(child)
