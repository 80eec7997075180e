from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.processes import Conversation, ProcessId, base_environment, end, marked, spawn, tail
from tidemark.waiting import wait_until

SLEEP = "import signal; signal.pause()"
STUBBORN = (
    "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"
)
ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


@pytest.fixture
def run(tmp_path):
    started = []

    def start(code: str, **env: str) -> ProcessId:
        argv = [sys.executable, "-c", code]
        started.append(spawn(argv, log=tmp_path / "log", cwd=tmp_path, env=base_environment(**env)))
        return started[-1]

    yield start
    end(started, ask_s=0)


def talk(code: str, tmp_path) -> Conversation:
    return Conversation(
        [sys.executable, "-c", code], log=tmp_path / "talk.log", cwd=tmp_path, env=base_environment()
    )


def test_a_process_ends_on_sigterm(run):
    process = run(SLEEP)
    assert process.alive
    end([process])
    assert not process.alive


def test_a_process_that_ignores_sigterm_is_killed(run, tmp_path):
    process = run(STUBBORN)
    wait_until(lambda: "ready" in tail(tmp_path / "log"), 10, lambda: "the child")
    end([process], ask_s=0.2)
    assert not process.alive


def test_a_stopped_process_can_be_ended(run):
    process = run(SLEEP)
    process.signal(signal.SIGSTOP)
    wait_until(lambda: process.paused, 5, lambda: "the stop")
    end([process])
    assert not process.alive


def test_a_recycled_process_id_is_never_signalled(run):
    process = run(SLEEP)
    earlier = replace(process, start_ticks=process.start_ticks - 1)
    before_the_boot = replace(process, boot_id="00000000-0000-0000-0000-000000000000")
    for other in (earlier, before_the_boot):
        assert not other.alive
        assert not other.signal(signal.SIGKILL)
        end([other], ask_s=0)
    assert process.alive


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_process_is_the_same_one_after_the_clock_was_set(run, monkeypatch, step_s):
    """What psutil says of a process moves with the clock: the kernel's time of the boot does."""
    process = run(SLEEP)
    created = psutil.Process(process.pid).create_time()
    boot_time = psutil._pslinux.boot_time() + step_s
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot_time)
    monkeypatch.setattr(psutil._pslinux, "BOOT_TIME", boot_time, raising=False)
    assert abs(psutil.Process(process.pid).create_time() - created - step_s) < 1

    assert process.alive
    assert ProcessId.of(process.pid) == process
    assert process.signal(signal.SIGSTOP)
    wait_until(lambda: process.paused, 5, lambda: "the stop")


def test_a_process_may_have_any_name(run, tmp_path):
    program = tmp_path / "a) R 1 (b"
    program.symlink_to(sys.executable)
    process = spawn([str(program), "-c", SLEEP], log=tmp_path / "log", cwd=tmp_path, env=base_environment())
    assert process.start_ticks >= ProcessId.own().start_ticks
    end([process], ask_s=0)
    assert not process.alive


def test_a_child_runs_in_a_session_of_its_own(run):
    assert os.getsid(run(SLEEP).pid) != os.getsid(0)


def test_descendants_are_found_by_the_mark_they_inherit(run):
    run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])", TIDEMARK_MARK="m1")
    run(SLEEP, TIDEMARK_MARK="m2")
    found = wait_until(
        lambda: list(marked("TIDEMARK_MARK", "m1")) if len(marked("TIDEMARK_MARK", "m1")) == 2 else None,
        10,
        lambda: "parent and child",
    )
    end(found, ask_s=0)
    assert marked("TIDEMARK_MARK", "m1") == []
    assert len(marked("TIDEMARK_MARK", "m2")) == 1


def test_a_daemon_gets_no_python_spark_or_java_settings_of_the_shell(monkeypatch):
    for name in ("PYTHONPATH", "SPARK_HOME", "JAVA_TOOL_OPTIONS", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "x")
    assert not {"PYTHONPATH", "SPARK_HOME", "JAVA_TOOL_OPTIONS", "PYSPARK_PYTHON"} & set(base_environment())


def test_tail_gives_the_last_lines_since_a_point(tmp_path):
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("old\n")
    start = log.stat().st_size
    log.write_text("old\n" + "".join(f"line {n}\n" for n in range(50)))
    assert tail(log, 2) == "line 48\nline 49"
    assert "old" not in tail(log, 100, start=start)


def test_a_conversation_answers_a_request(tmp_path):
    with talk(ECHO, tmp_path) as echo:
        assert echo.ask({"a": 1}, 10) == {"a": 1}
        assert echo.ask({"b": "ü"}, 10) == {"b": "ü"}


def test_what_a_library_prints_is_no_answer(tmp_path):
    chatty = (
        "import sys\n"
        "for line in sys.stdin:\n"
        "    print('warning: 1'); print([1]); print('{\"told\": %s}' % line.strip(), flush=True)\n"
    )
    with talk(chatty, tmp_path) as child:
        assert child.ask("7", 10) == {"told": 7}
        assert child.ask("8", 10) == {"told": 8}


def test_a_conversation_reads_what_nobody_asked_for_so_that_the_child_never_waits(tmp_path):
    much = "import sys; print('x' * 1_000_000, flush=True); sys.stdin.readline(); print('{}', flush=True)"
    with talk(much, tmp_path) as child:
        assert child.ask("go", 30) == {}


def test_a_dead_child_is_dead_for_every_question(tmp_path):
    with talk("raise SystemExit('no such luck')", tmp_path) as child:
        for _ in range(2):
            with pytest.raises(DaemonDied) as error:
                child.ask({}, 10)
            assert "no such luck" in error.value.detail


def test_a_conversation_that_dies_says_why(tmp_path):
    with (
        talk("import sys; sys.stdin.readline(); sys.exit('no such luck')", tmp_path) as child,
        pytest.raises(DaemonDied) as error,
    ):
        child.ask({}, 10)
    assert "no such luck" in error.value.detail


def test_a_conversation_has_a_deadline(tmp_path):
    with talk(SLEEP, tmp_path) as child, pytest.raises(DeadlineExceeded):
        child.ask({}, 0.2)


def test_a_conversation_ends_with_its_block(tmp_path):
    with talk(STUBBORN, tmp_path) as child:
        identity = ProcessId.of(child.pid)
    assert not identity.alive


@contextmanager
def after_a_question_that_was_given_up(code: str, tmp_path):
    """A child that has not answered ``1``."""
    with talk(code, tmp_path) as child:
        with pytest.raises(DeadlineExceeded):
            child.ask("1", 0.1)
        yield child


def test_an_answer_that_comes_late_is_not_taken_for_that_of_the_next_question(tmp_path):
    """The child answers the first question together with the second."""
    slow = (
        "import sys\n"
        "first = sys.stdin.readline().strip()\n"
        "for line in sys.stdin:\n"
        "    if first: print('{\"told\": %s}' % first)\n"
        "    first = ''\n"
        "    print('{\"told\": %s}' % line.strip(), flush=True)\n"
    )
    with after_a_question_that_was_given_up(slow, tmp_path) as child:
        assert child.ask("2", 30) == {"told": 2}
        assert child.ask("3", 30) == {"told": 3}


def test_who_waits_on_hears_the_answer_to_a_question_that_was_given_up(tmp_path):
    slow = (
        "import sys\n"
        "first = sys.stdin.readline().strip()\n"
        "while not __import__('os').path.exists('go'): pass\n"
        "print('{\"told\": %s}' % first, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with after_a_question_that_was_given_up(slow, tmp_path) as child:
        (tmp_path / "go").touch()
        assert child.answer(30) == {"told": 1}
