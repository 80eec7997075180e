"""Class archives (CDS): a JVM that maps its classes from one starts in half the time, with half the work.

The first stack of an installation notes which classes its JVMs load; a while after its first streaming query has done
a batch its reaper has archives of them written into the user's cache (``install/cds_training.py``), also if
the stack ends
meanwhile. JVMs that are started then map them. An archive for another Java, other jars or another PySpark has another
name, and one that Java does not like is ignored by Java: all this is for speed only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from tidemark import paths
from tidemark.stack.components import spark_settings
from tidemark.stack.registry import StackRecord, StateFolder

GROUPS = ("spark", "broker")
"""Of what there are archives, the one first that is worth more: 60 to 230 MB each."""
MAPPED = ("-Xlog:cds=off", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""At its own address: moved elsewhere, every page of it would be this JVM's own memory (100 MB more each)."""


def options(state: StateFolder, record: StackRecord, group: str, name: str) -> list[str]:
    """JVM options of a part: to map the archive, or, where there is none yet, to note its classes."""
    archive = archive_of(record, group)
    if archive.is_file():
        os.utime(archive)  # the cache drops what was not used for longest
        return [f"-XX:SharedArchiveFile={archive}", *MAPPED]
    lists = state.path / "classes" / group
    lists.mkdir(parents=True, exist_ok=True)
    return [f"-XX:DumpLoadedClassList={lists / name}.lst"]


def folder() -> Path:
    """The part of the user's cache that holds the archives; containers see it under the same path."""
    path = paths.cache_dir() / "classes"
    path.mkdir(parents=True, exist_ok=True)
    return path


def archive_of(record: StackRecord, group: str) -> Path:
    """Where a stack's archive of a group is, or would be: its name tells all that it depends on."""
    key = hashlib.sha256()
    for component in (*_installation(record, group), class_path(record, group), spark_settings.DAEMON_JVM):
        key.update(f"{component}\n".encode())
    return folder() / f"{group}-{key.hexdigest()[:16]}.jsa"


def _installation(record: StackRecord, group: str) -> Iterator[object]:
    """Which Java, and which jars: those of an image, or those of this machine."""
    if record.image:
        yield record.image
        return
    java = os.path.realpath(record.java)
    yield java
    yield os.stat(java).st_mtime_ns
    if group == "spark":
        yield os.stat(Path(record.spark_home, "jars")).st_mtime_ns


def class_path(record: StackRecord, group: str) -> str:
    """The class path of a group's JVMs."""
    return ":".join(record.broker_jars) if group == "broker" else record.spark_class_path


def missing(record: StackRecord) -> list[str]:
    """The groups that have no archive."""
    return [group for group in GROUPS if not archive_of(record, group).is_file()]
