from __future__ import annotations

import fcntl
import os

import pytest

from tidemark.stack import archives
from tidemark.wait import wait_until

JOB = '{"Event":"SparkListenerJobStart","Job ID":0}\n'
BATCH = '{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent","progress":{}}\n'


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(archives, "SETTLE_S", 0.0)


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
    for group in archives.GROUPS:
        archives.options(state, record, group, "x")
        (state.path / "classes" / group / "x.lst").write_text("java/lang/Object id: 0\n")
    append(state, JOB, BATCH)


def append(state, *events: str) -> None:
    """More of a driver's event log."""
    log = state.path / "event-logs" / "driver" / "app-1.inprogress"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.writelines(events)


def listed(state) -> list[str]:
    """The groups that Java was given a list of, to write an archive of."""
    return sorted(path.stem for path in (state.path / "classes").glob("*.lst"))


def write_all(state, record, writer=None) -> None:
    writer = writer or archives.Writer()

    def done() -> bool:
        writer.look(state, record)
        return not archives.missing(record)

    wait_until(done, 20, lambda: f"archives of {archives.missing(record)}")


def test_the_first_stack_notes_its_classes_and_later_ones_map_them(state, record):
    state.make()
    assert archives.options(state, record, "spark", "master")[0].startswith("-XX:DumpLoadedClassList=")
    assert archives.options(state, record, "broker", "broker")[0].startswith("-XX:DumpLoadedClassList=")
    note(state, record)
    write_all(state, record)
    archive = archives.archive_of(record, "spark")
    assert f"-XX:SharedArchiveFile={archive}" in archives.options(state, record, "spark", "master")


def test_the_lists_of_a_group_become_one_without_what_holds_for_one_process_only(state, record):
    state.make()
    note(state, record)
    lists = state.path / "classes" / "spark"
    (lists / "master.lst").write_text("# list\njava/lang/Object id: 0\norg/A id: 7\nTorn/Li")
    (lists / "driver.lst").write_text(
        "org/A id: 9\norg/Passing id: 3 super: 0 source: /tmp/x.jar\n@lambda-proxy B\n"
    )
    write_all(state, record)
    assert archives.archive_of(record, "spark").read_text() == "@lambda-proxy B\njava/lang/Object\norg/A\n"


def test_another_pyspark_has_another_archive(record, tmp_path):
    one = archives.archive_of(record, "spark")
    record.spark_home = str(tmp_path / "other")
    (tmp_path / "other" / "jars").mkdir(parents=True)
    assert archives.archive_of(record, "spark") != one


def test_the_cache_keeps_the_newest_only(state, record, monkeypatch):
    state.make()
    note(state, record)
    monkeypatch.setattr(archives, "_KEPT", 1)
    folder = archives.archive_of(record, "spark").parent
    (folder / "old.jsa").touch()
    os.utime(folder / "old.jsa", (0, 0))
    writer = archives.Writer()

    def written() -> bool:
        writer.look(state, record)
        return not (folder / "old.jsa").exists()

    wait_until(written, 20, lambda: "the old archive to go")
    assert len(list(folder.glob("*.jsa"))) == 1


def test_one_writes_at_a_time(state, record):
    state.make()
    note(state, record)
    folder = archives.archive_of(record, "spark").parent
    writer = archives.Writer()
    with (folder / "lock").open("w") as somebody:
        fcntl.flock(somebody, fcntl.LOCK_EX)
        for _ in range(3):
            writer.look(state, record)
        assert not listed(state)
    write_all(state, record)


def test_a_stack_without_a_query_writes_none(state, record):
    state.make()
    note(state, record)
    (state.path / "event-logs" / "driver" / "app-1.inprogress").unlink()
    writer = archives.Writer()
    for _ in range(3):
        append(state, JOB)
        writer.look(state, record)
    assert not listed(state)
    append(state, BATCH[:60])
    writer.look(state, record)
    assert not listed(state)
    append(state, BATCH[60:])
    write_all(state, record, writer)


def test_the_archive_of_the_broker_is_written_where_that_of_spark_is_there(state, record):
    state.make()
    archives.archive_of(record, "spark").touch()
    archives.options(state, record, "broker", "broker")
    (state.path / "classes" / "broker" / "broker.lst").write_text("java/lang/Object id: 0\n")
    append(state, BATCH)
    write_all(state, record)
    assert listed(state) == ["broker"]


def test_without_a_list_nothing_is_written(state, record):
    """The stack maps archives that somebody has deleted since."""
    state.make()
    writer = archives.Writer()
    for _ in range(3):
        writer.look(state, record)
    assert len(archives.missing(record)) == 2
