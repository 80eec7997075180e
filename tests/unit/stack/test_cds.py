from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemark.stack.components import cds
from tidemark.stack.install import cds_training, cds_writer
from tidemark.waiting import wait_until

JOB = '{"Event":"SparkListenerJobStart","Job ID":0}\n'
BATCH = '{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent","progress":{}}\n'


def as_it_is(argv, _folder):
    return list(argv)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cds_training, "SETTLE_S", 0.0)


@pytest.fixture
def record(stack_record, tmp_path, executable):
    """A stack whose Java writes an archive that holds the class list it is given."""
    (tmp_path / "jars").mkdir()
    stack_record.java = str(
        executable(
            "java",
            'for option in "$@"; do case $option in\n'
            "-XX:SharedClassListFile=*) list=${option#*=};;\n"
            "-XX:SharedArchiveFile=*) archive=${option#*=};;\n"
            'esac; done; cp "$list" "$archive"',
        )
    )
    stack_record.ready = True
    return stack_record


def note(state, record) -> None:
    """What the JVMs of a stack without archives leave once a query has done a batch."""
    for group in cds.GROUPS:
        cds.options(state, record, group, "x")
        (state.path / "classes" / group / "x.lst").write_text("java/lang/Object id: 0\n")
    append(state, JOB, BATCH)


def append(state, *events: str) -> None:
    """More of a driver's event log."""
    log = state.path / "event-logs" / "driver" / "app-1.inprogress"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.writelines(events)


def begun() -> list[Path]:
    """The folders of writers that work or wait."""
    return list(cds.folder().glob("writing-*"))


@contextmanager
def waiting_for_the_lock(state, record, writer):
    """Have them written while another writes, until the end of the block."""
    with (cds.folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(3):
            writer.poll(state, record)
        yield


def write_all(state, record, writer=None) -> None:
    writer = writer or cds_training.ArchiveTrigger(as_it_is)

    def done() -> bool:
        writer.poll(state, record)
        return not cds.missing(record) and not begun()

    wait_until(done, 20, lambda: f"archives of {cds.missing(record)}")


def test_the_first_stack_lists_its_classes_and_later_stacks_map_them(state, record):
    state.make()
    assert cds.options(state, record, "spark", "master")[0].startswith("-XX:DumpLoadedClassList=")
    assert cds.options(state, record, "broker", "broker")[0].startswith("-XX:DumpLoadedClassList=")
    note(state, record)
    write_all(state, record)
    archive = cds.archive_of(record, "spark")
    assert f"-XX:SharedArchiveFile={archive}" in cds.options(state, record, "spark", "master")


def test_class_lists_are_merged_without_entries_of_a_single_process(state, record):
    state.make()
    note(state, record)
    lists = state.path / "classes" / "spark"
    (lists / "master.lst").write_text("# list\njava/lang/Object id: 0\norg/A id: 7\nTorn/Li")
    (lists / "driver.lst").write_text(
        "org/A id: 9\norg/Passing id: 3 super: 0 source: /tmp/x.jar\n@lambda-proxy B\n"
    )
    write_all(state, record)
    assert cds.archive_of(record, "spark").read_text() == "@lambda-proxy B\njava/lang/Object\norg/A\n"


def test_another_pyspark_has_another_archive(record, tmp_path):
    one = cds.archive_of(record, "spark")
    record.spark_home = str(tmp_path / "other")
    (tmp_path / "other" / "jars").mkdir(parents=True)
    assert cds.archive_of(record, "spark") != one


def test_the_cache_keeps_only_the_newest_archives(state, record, monkeypatch):
    state.make()
    note(state, record)
    folder = cds.folder()
    olds = [folder / f"{number}.jsa" for number in range(cds_writer.KEPT)]
    for number, old in enumerate(olds):
        old.touch()
        os.utime(old, (number, number))
    abandoned = folder / "writing-abandoned"
    abandoned.mkdir()
    os.utime(abandoned, (0, 0))
    write_all(state, record)
    assert [old.name for old in olds if old.exists()] == [old.name for old in olds[2:]]
    assert not abandoned.exists()


def test_only_one_writer_works_at_a_time(state, record):
    state.make()
    note(state, record)
    writer = cds_training.ArchiveTrigger(as_it_is)
    with waiting_for_the_lock(state, record, writer):
        [waiting] = begun()
        assert sorted(path.name for path in waiting.iterdir()) == ["broker.lst", "jobs.json", "spark.lst"]
        assert len(cds.missing(record)) == 2
    write_all(state, record, writer)


def test_archives_are_written_even_if_the_stack_ends_meanwhile(state, record):
    state.make()
    note(state, record)
    with waiting_for_the_lock(state, record, cds_training.ArchiveTrigger(as_it_is)):
        shutil.rmtree(state.path)
    wait_until(lambda: not cds.missing(record), 20, lambda: f"archives of {cds.missing(record)}")


def test_javas_output_is_kept_if_it_wrote_no_archive(state, record, executable):
    record.java = str(executable("java", "echo no archive of mine; exit 1"))
    state.make()
    note(state, record)
    writer = cds_training.ArchiveTrigger(as_it_is)
    output = cds.archive_of(record, "spark").with_suffix(".log")

    def tried() -> bool:
        writer.poll(state, record)
        return output.is_file() and not begun()

    wait_until(tried, 20, lambda: "Java to be started")
    assert output.read_text() == "no archive of mine\n"
    assert len(cds.missing(record)) == 2


def test_a_stack_without_a_query_writes_no_archive(state, record):
    state.make()
    note(state, record)
    (state.path / "event-logs" / "driver" / "app-1.inprogress").unlink()
    writer = cds_training.ArchiveTrigger(as_it_is)
    for _ in range(3):
        append(state, JOB)
        writer.poll(state, record)
    assert not begun()
    append(state, BATCH[:60])
    writer.poll(state, record)
    writer.poll(state, record)
    assert not begun()
    append(state, BATCH[60:])
    write_all(state, record, writer)


def test_a_missing_broker_archive_is_written_beside_an_existing_one_of_spark(state, record):
    state.make()
    cds.archive_of(record, "spark").touch()
    cds.options(state, record, "broker", "broker")
    (state.path / "classes" / "broker" / "broker.lst").write_text("java/lang/Object id: 0\n")
    append(state, BATCH)
    write_all(state, record)
    assert cds.archive_of(record, "broker").read_text() == "java/lang/Object\n"
    assert cds.archive_of(record, "spark").read_text() == ""


def test_without_a_class_list_no_archive_is_written(state, record):
    """The stack maps archives that have been deleted since."""
    state.make()
    writer = cds_training.ArchiveTrigger(as_it_is)
    for _ in range(3):
        writer.poll(state, record)
    assert len(cds.missing(record)) == 2
