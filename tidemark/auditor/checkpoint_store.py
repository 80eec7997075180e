"""The checkpoint of an audited query: a folder, or in a store that ``fsspec`` reads (S3, GCS, Azure, HDFS and more).

Of one in a store, what an audit needs is copied into a temporary folder; the store is only read. The log of a query is
small, some kilobytes a batch. Of the state those files are fetched that Spark needs for the batch that is asked for,
and only if the state is to be read. Who may read is said as the store's own client wants it: in its files, in
environment variables of its own, or in those of fsspec (``FSSPEC_S3_ENDPOINT_URL``); never on a command line.
"""

from __future__ import annotations

import errno
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import TestbedError, UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a quota that is used up, a limit of the size of files."""
_LOG = ("commits", "offsets", "sources")
"""The folders of a query's log. Commits are fetched first: each batch that is committed was planned before."""
_is_address = re.compile(r"[a-z][a-z0-9+.-]*://.", re.IGNORECASE).match


def is_in_a_store(checkpoint: str) -> bool:
    """Whether a checkpoint is named by a URL (``s3://bucket/checkpoints/orders``), and not by a path."""
    return bool(_is_address(checkpoint))


class CheckpointCopy:
    """The folder of a checkpoint as it is read: itself, or a copy of one in a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def refresh(self) -> None:
        """See what was written to the log meanwhile. Raises ``UsageError`` where that cannot be read."""

    def fetch_state(self, is_wanted: Callable[[str], bool]) -> None:
        """Have the files of the state whose names are wanted. Raises ``UsageError`` where they cannot be read."""


class _StoredCheckpoint(CheckpointCopy):
    """A copy; files of a log are written once, so that only new ones are fetched."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(folder)
        self._url = url

    def refresh(self) -> None:
        with _reading(self._url) as (store, root):
            if not store.isdir(root):
                raise UsageError(
                    f"there is no checkpoint {self._url!r}", hint="name the `checkpointLocation` of the query"
                )
            for log in _LOG:
                self._fetch(store, root, log, lambda _name: True)
            if store.isfile(f"{root}/metadata"):
                store.get_file(f"{root}/metadata", str(self.folder / "metadata"))

    def fetch_state(self, is_wanted: Callable[[str], bool]) -> None:
        with _reading(self._url) as (store, root):
            self._fetch(store, root, "state", is_wanted)

    def _fetch(
        self, store: AbstractFileSystem, root: str, name: str, is_wanted: Callable[[str], bool]
    ) -> None:
        """Fetch a folder; left out are files that are gone since they were listed, and empty objects that stand for
        folders, as Hadoop's S3A makes them (``offsets/``).
        """
        store.invalidate_cache(f"{root}/{name}")
        for path in map(str, store.find(f"{root}/{name}")):
            copy = self.folder / name / path.removeprefix(f"{root}/{name}/")
            is_file = path.startswith(f"{root}/{name}/") and not path.endswith("/")
            if not is_file or copy.exists() or not is_wanted(copy.name):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                store.get_file(path, str(copy))
            except FileNotFoundError:
                copy.unlink(missing_ok=True)


@contextmanager
def opened_checkpoint(checkpoint: str) -> Iterator[CheckpointCopy]:
    """A checkpoint, for the length of the block. Raises ``UsageError``: the store cannot be read, or has none there."""
    if not is_in_a_store(checkpoint):
        yield CheckpointCopy(Path(checkpoint))
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-checkpoint-") as name:
        copy = _StoredCheckpoint(checkpoint, Path(name))
        copy.refresh()
        yield copy


@contextmanager
def _reading(url: str) -> Iterator[tuple[AbstractFileSystem, str]]:
    """The store, and the path in it."""
    try:
        import fsspec

        store, root = fsspec.core.url_to_fs(url)
        yield store, str(root).rstrip("/")
    except UsageError:
        raise
    except OSError as error:
        if error.errno in FULL_DISK:
            raise TestbedError(
                f"the copy of the checkpoint {url!r} does not fit into {tempfile.gettempdir()!r}",
                detail=str(error),
                hint="free some space there, or set TMPDIR",
            ) from error
        raise _unreadable(url, error) from error
    except ImportError as error:
        raise UsageError(
            f"the checkpoint {url!r} cannot be read: a package is missing",
            detail=str(error),
            hint="install what reads this store into the Python of this command: fsspec, and s3fs for s3://, gcsfs for"
            " gs://, adlfs for abfs://; the extra `s3` has the first two",
        ) from error
    except Exception as error:
        raise _unreadable(url, error) from error


def _unreadable(url: str, error: Exception) -> UsageError:
    return UsageError(
        f"the checkpoint {url!r} cannot be read",
        detail=f"{type(error).__name__}: {error}",
        hint="give this command what the store's client wants: its own variables or files for who may read, and"
        " FSSPEC_S3_ENDPOINT_URL and the like for where it is; or copy `metadata`, `offsets`, `commits` and"
        " `sources` of the checkpoint to a folder, and audit that",
    )
