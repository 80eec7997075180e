"""Reads the small files of a checkpoint, from a folder or from an object store. Free of Spark.

A folder is read directly. A store is read by the file systems of ``pyarrow`` (S3, GCS, Azure, HDFS), or by ``fsspec``
where pyarrow has none for the scheme. Both find the login in the environment of the driver (``AWS_ACCESS_KEY_ID``, a
profile, the role of the machine), so that it is in no option and no plan.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from tidemark.errors import SinkFailed, SinkRefused

PYARROW_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Schemes of Hadoop's file systems -> those of pyarrow, where they differ."""
STORE_TIMEOUT_S = 60.0
"""Calibration: a request takes 10 to 100 ms; a minute allows for a store that is slow, and ends before a batch does."""


class CheckpointFiles(Protocol):
    """The files of one checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder of the checkpoint; empty if there is no such folder, or it cannot be seen from here."""

    def text(self, name: str) -> str | None:
        """A file's text; ``None`` if there is no such file, or it cannot be seen from here."""


@dataclass(frozen=True)
class LocalFiles:
    """A checkpoint on a local or mounted file system, which may be that of another machine."""

    folder: str

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        try:
            return os.listdir(os.path.join(self.folder, folder))
        except OSError:
            return []

    def text(self, name: str) -> str | None:
        """A file's text."""
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None


@dataclass(frozen=True)
class StoredFiles:
    """A checkpoint in a store: ``store`` is a file system of pyarrow, ``root`` the checkpoint's path in it."""

    store: Any
    root: str
    url: str

    def names(self, folder: str) -> list[str]:
        """The names in a folder; raises ``SinkFailed`` if the store does not answer, or refuses."""
        from pyarrow.fs import FileSelector

        wanted = FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        try:
            return [info.base_name for info in self.store.get_file_info(wanted)]
        except (OSError, ValueError) as error:
            raise _unreadable(self.url, error) from error

    def text(self, name: str) -> str | None:
        """A file's text; raises ``SinkFailed`` if the store does not answer, or refuses."""
        try:
            with self.store.open_input_stream(f"{self.root}/{name}") as file:
                return str(file.read().decode("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _unreadable(self.url, error) from error

    def without_a_batch(self) -> SinkRefused:
        """What is wrong if no batch is found: Spark logs each batch before it runs it, so Python looks elsewhere."""
        return SinkRefused(
            f"the checkpoint {self.url} has no batch, as the driver's Python sees it",
            detail="Spark has logged the batch that is to be written, so this is another store or another folder",
            hint="give the store's address in the option checkpointStore, for example "
            "endpoint_override=HOST:PORT&scheme=http; with the option checkpointChecks=false the sink does not read "
            "the checkpoint, and leaves out the checks that need it",
        )


def checkpoint_files(checkpoint: str | None, store: str) -> CheckpointFiles | None:
    """The files of a checkpoint; ``None`` if its place is not known here.

    ``store`` has settings of the store's file system, in the form of a URL's query (``endpoint_override=…&region=…``).

    Raises:
        SinkRefused: there is no file system for this scheme, or it has no such setting.
        SinkFailed: the store does not answer, or refuses.
    """
    if not checkpoint:
        return None
    parts = urlsplit(checkpoint)
    if parts.scheme in ("", "file"):
        return LocalFiles(unquote(parts.path) if parts.scheme else checkpoint)
    try:
        found, root = _opened(checkpoint, dict(parse_qsl(store, strict_parsing=bool(store))))
    except (ImportError, ValueError, TypeError, NotImplementedError) as error:
        raise SinkRefused(
            f"the checkpoint {checkpoint} cannot be read by the driver's Python",
            detail=_first_line(error),
            hint="install a file system for this scheme into the driver's Python (s3fs, gcsfs, adlfs and others, by "
            "fsspec), correct the option checkpointStore, or set the option checkpointChecks to false: then the sink "
            "leaves out the checks that need the checkpoint",
        ) from error
    except OSError as error:
        raise _unreadable(checkpoint, error) from error
    return StoredFiles(found, root.rstrip("/"), checkpoint)


def _opened(url: str, settings: dict[str, str]) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    from pyarrow import fs

    parts = urlsplit(url)
    scheme = PYARROW_SCHEMES.get(parts.scheme, parts.scheme)
    if scheme == "s3":
        limits = {"connect_timeout": STORE_TIMEOUT_S, "request_timeout": STORE_TIMEOUT_S}
        typed = {
            name: value == "true" if value in ("true", "false") else value for name, value in settings.items()
        }
        return fs.S3FileSystem(**limits, **typed), f"{parts.netloc}{unquote(parts.path)}"
    query = urlencode(settings)
    try:
        opened: tuple[Any, str] = fs.FileSystem.from_uri(
            urlunsplit((scheme, parts.netloc, parts.path, query, ""))
        )
        return opened
    except (ValueError, NotImplementedError):
        import fsspec

        found, root = fsspec.core.url_to_fs(url, **settings)
        return fs.PyFileSystem(fs.FSSpecHandler(found)), str(root)


def _unreadable(url: str, error: Exception) -> SinkFailed:
    return SinkFailed(
        f"the checkpoint {url} cannot be read by the driver's Python",
        detail=_first_line(error),
        hint="nothing was written: start the query again once the store answers. Python needs the store's address "
        "(option checkpointStore) and a login of its own in the driver's environment; with the option "
        "checkpointChecks=false the sink does not read the checkpoint, and leaves out the checks that need it",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
