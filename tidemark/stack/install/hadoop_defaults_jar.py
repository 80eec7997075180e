"""A jar that removes the defaults of YARN and MapReduce, which no stack uses, from Hadoop's configuration.

Spark creates a join's physical operator several times per batch, and each one broadcasts Hadoop's configuration
(``hadoopConfBcast`` of StreamingSymmetricHashJoinExec.scala). 721 of its 1,123 properties are defaults of these
services. Each property is written with its source compressed by gzip (``Configuration.write``) and decompressed by
executors.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from tidemark.atomic_files import write_atomically

SHADOWED = ("mapred-default.xml", "yarn-default.xml")
"""Resources that Hadoop looks up on the class path; the first of a name hides the others."""
_MADE_S = 1_767_225_600
_EMPTY = '<?xml version="1.0"?>\n<configuration/>\n'


def content() -> bytes:
    """The jar's bytes, which are always the same."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as jar:
        for name in SHADOWED:
            jar.writestr(zipfile.ZipInfo(name), _EMPTY)
    return written.getvalue()


def name() -> str:
    """The jar's name, which includes a hash of its content."""
    return f"no-defaults-{hashlib.sha256(content()).hexdigest()[:8]}.jar"


def write_into(folder: Path) -> Path:
    """The jar in ``folder``, written if it does not exist."""
    path = folder / name()
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        # a class archive identifies its jars by time and size
        write_atomically(path, content(), modified_s=_MADE_S)
    return path
