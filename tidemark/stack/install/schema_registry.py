"""The distribution of the schema registry (Apicurio Registry), fetched as jars are and unpacked once into the cache.

Its API is Confluent's, so that Confluent's clients and serializers use it. It keeps schemas in memory. Of an archive
that was verified everything is unpacked into a folder whose name has the archive's SHA-256.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tidemark.errors import FetchError
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import Spark

GROUP = "registry"
"""Its group in ``jars.lock``."""


def archive() -> jars.Jar:
    """The locked archive."""
    return jars.locked(GROUP)[0]


def provide_registry(java: Path, spark: Spark, say: Callable[[str], None]) -> Path:
    """The jar that starts the registry, with its libraries beside it.

    Raises ``FetchError`` if the archive cannot be fetched or unpacked, or has another checksum than the locked one.
    """
    locked = archive()
    jars.provide(java, spark, [GROUP], say)
    folder = locked.path.with_name(f"{locked.name}-{locked.version}-{locked.sha256[:16]}")
    if not folder.is_dir():
        _unpack(locked.path, folder)
    return folder / f"{locked.name}-{locked.version}-runner.jar"


def _unpack(path: Path, folder: Path) -> None:
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            unpacked = Path(temporary, "unpacked")
            with zipfile.ZipFile(path) as file:
                file.extractall(unpacked)
            if not folder.is_dir():
                unpacked.rename(folder)
    except (OSError, zipfile.BadZipFile) as error:
        if folder.is_dir():  # another process was faster
            return
        raise FetchError(
            f"{path.name} could not be unpacked",
            detail=str(error),
            hint=f"{folder.parent} must be writable and have 150 MB free; XDG_CACHE_HOME moves it",
        ) from error
