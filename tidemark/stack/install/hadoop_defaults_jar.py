"""A jar that takes from Hadoop's configuration the defaults of YARN and MapReduce, which no stack has.

Spark makes a join's physical operator several times a batch, and each broadcasts Hadoop's configuration anew
(``hadoopConfBcast`` of StreamingSymmetricHashJoinExec.scala). Of its 1,123 properties 721 are defaults of services that
are not there, and each is written with its source packed by gzip (``Configuration.write``), and unpacked by executors.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

SHADOWED = ("mapred-default.xml", "yarn-default.xml")
"""Resources that Hadoop finds on the class path: the first of a name is read, the others are not."""
_MADE_S = 1_767_225_600
_EMPTY = '<?xml version="1.0"?>\n<configuration/>\n'


def content() -> bytes:
    """The jar's bytes, always the same."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as jar:
        for name in SHADOWED:
            jar.writestr(zipfile.ZipInfo(name), _EMPTY)
    return written.getvalue()


def name() -> str:
    """The jar's name, which changes with what is in it."""
    return f"no-defaults-{hashlib.sha256(content()).hexdigest()[:8]}.jar"


def write_into(folder: Path) -> Path:
    """The jar in ``folder``, written if it is not there."""
    path = folder / name()
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{path.name}.{os.getpid()}"
        unfinished.write_bytes(content())
        os.utime(unfinished, (_MADE_S, _MADE_S))  # a class archive knows its jars by time and size
        unfinished.replace(path)
    return path
