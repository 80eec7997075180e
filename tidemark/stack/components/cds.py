"""Class-data-sharing (CDS) archives: a JVM that maps its classes from an archive starts in half the time.

The JVMs of the first stack of an installation list the classes that they load. Some time after its first streaming
query has finished a batch, the reaper starts a process that writes archives of these classes into the user's cache
(``install/cds_training.py``); later JVMs map them. The name of an archive depends on Java, the jars and PySpark, and
Java ignores an archive that does not fit: archives affect speed only.
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
"""The groups of JVMs with an archive each (60 to 230 MB), the more useful one first."""
MAPPED = ("-Xlog:cds=off", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""The archive is mapped at its own address: relocated, each JVM would have a private copy (100 MB more each)."""


def options(state: StateFolder, record: StackRecord, group: str, name: str) -> list[str]:
    """JVM options of a component: map the archive or, if there is none yet, list the loaded classes."""
    if mapped := options_of_the_archive(record, group):
        return mapped
    lists = state.path / "classes" / group
    lists.mkdir(parents=True, exist_ok=True)
    return [f"-XX:DumpLoadedClassList={lists / name}.lst"]


def options_of_the_archive(record: StackRecord, group: str) -> list[str]:
    """JVM options that map the archive; none if there is none yet."""
    archive = archive_of(record, group)
    if not archive.is_file():
        return []
    os.utime(archive)  # the cache drops the least recently used
    return [f"-XX:SharedArchiveFile={archive}", *MAPPED]


def folder() -> Path:
    """The folder of the archives in the user's cache; containers see it under the same path."""
    path = paths.cache_dir() / "classes"
    path.mkdir(parents=True, exist_ok=True)
    return path


def archive_of(record: StackRecord, group: str) -> Path:
    """The path of a stack's archive of a group; its name is a hash of everything that it depends on."""
    key = hashlib.sha256()
    for value in (*_installation(record, group), class_path(record, group), spark_settings.DAEMON_JVM):
        key.update(f"{value}\n".encode())
    return folder() / f"{group}-{key.hexdigest()[:16]}.jsa"


def _installation(record: StackRecord, group: str) -> Iterator[object]:
    """What identifies Java and the jars: the image, or the files of this machine."""
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
