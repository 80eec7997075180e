"""Delta's log: which files are the table now, and which query wrote each of them in which batch.

The table as it is now comes from the reader ``deltalake``, which knows checkpoints, deletion vectors and the names of
columns. Who wrote a file is in the commit that added it (``_delta_log/N.json``): a streaming query commits each batch
with ``txn``, whose ``appId`` is the query's id and whose ``version`` is the batch. It is not known of

* a file whose commit has no ``txn``, or also removes rows (``MERGE``, an overwrite): its rows may be older;
* a file whose commit is no longer in the log, but in a checkpoint only (``delta.logRetentionDuration``).

A commit that only rewrites (``OPTIMIZE``: ``dataChange`` is false) is undone while the files that it replaced are
there, because each of them has one batch. After ``VACUUM`` its own files are read. Their query and batch are known as
far as all files that they replaced have the same; so it is with a ``DELETE`` that copied the rows which it kept.

A query that writes in ``foreachBatch`` has ``txn`` only with the options ``txnAppId`` and ``txnVersion``; the ``query``
of its rows is that ``txnAppId``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidemark.errors import BrokenTable, UsageError
from tidemark.formats.events import read_time_us, write_time
from tidemark.sparkfiles.table_files import DELTA_LOG, TableFile, TableFiles, find_file, gone, path_parts
from tidemark.sparkfiles.table_rows import json_value

if TYPE_CHECKING:
    from deltalake import DeltaTable

INTEGERS = ("byte", "short", "integer", "long")
PHYSICAL_NAME = "delta.columnMapping.physicalName"


class _Txn(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _File(msgspec.Struct, rename="camel"):
    path: str
    data_change: bool = True
    partition_values: dict[str, str | None] | None = None
    deletion_vector: dict[str, Any] | None = None


class _Info(msgspec.Struct):
    operation: str = "an operation without a name"


class _Action(msgspec.Struct, rename="camel"):
    add: _File | None = None
    remove: _File | None = None
    txn: _Txn | None = None
    commit_info: _Info | None = None


class _Origin(NamedTuple):
    """The commit that wrote a file, and its place there; its query and batch, where they are known."""

    version: int
    number: int
    query: str | None = None
    batch: int | None = None


@dataclass
class _Commit:
    version: int
    adds: list[_File] = field(default_factory=list)
    removes: list[_File] = field(default_factory=list)
    txns: list[_Txn] = field(default_factory=list)
    operation: str = _Info().operation

    @property
    def removes_rows(self) -> bool:
        return any(file.data_change for file in self.removes)

    @property
    def only_rewrites(self) -> bool:
        is_change = any(file.data_change for file in (*self.adds, *self.removes))
        return bool(self.adds and self.removes) and not is_change


def read_delta_files(folder: Path) -> TableFiles:
    """The files of the table as it is now; raises ``BrokenTable``, and ``UsageError`` without the reader."""
    table = _open(folder)
    live = table.files(folder)
    commits = [_read_commit(path, version) for version, path in _commit_files(folder, table.version)]
    history = _History(folder, table.columns, commits)
    history.undo_rewrites(live)
    found = TableFiles()
    before = _Origin(-1, 0)
    for uri in sorted(live, key=lambda uri: (*history.origins.get(uri, before)[:2], uri)):
        origin = history.origins.get(uri, before)
        found.files.append(replace(live[uri], query=origin.query, batch=origin.batch))
    found.removals += [
        f"version {commit.version} of the table ({commit.operation}) removed rows or replaced them"
        for commit in commits
        if commit.removes_rows
    ]
    _add_notes(found, commits)
    return found


def _add_notes(found: TableFiles, commits: list[_Commit]) -> None:
    if not commits or commits[0].version > 0:
        since = f"from version {commits[0].version} on" if commits else "in a checkpoint only"
        found.notes.append(
            f"the log has the commits of the table {since}: who wrote files before it is not known, nor whether rows "
            "were deleted"
        )
    cut = sum(file.kept is not None for file in found.files)
    if cut and not found.removals:
        found.removals.append(f"rows of {cut} files were deleted (deletion vectors)")
    unknown = sum(file.batch is None for file in found.files)
    if unknown:
        found.notes.append(
            f"the batch of {unknown} of {len(found.files)} files is not known: they were written without a batch "
            "(`txn`), or rewritten from files of several batches"
        )


def _open(folder: Path) -> _Snapshot:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise UsageError(
            "the reader of Delta tables is not installed",
            detail=f"{str(folder)!r} is a Delta table, and this Python has no package deltalake",
            hint="install it for this Python: pip install deltalake",
        ) from error
    try:
        return _read_snapshot(DeltaTable(str(folder)))
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenTable(
            f"{str(folder / DELTA_LOG)!r} cannot be read as the log of a Delta table",
            detail=str(error).partition("\n")[0],
            hint="copy a log again that was cut while it was copied; else the table uses what deltalake cannot read",
        ) from error


def _read_snapshot(table: DeltaTable) -> _Snapshot:
    import pyarrow as pa

    actions = pa.table(table.get_add_actions())
    partitions: list[dict[str, Any]] = [{}] * actions.num_rows
    if "partition" in actions.column_names:
        partitions = actions.column("partition").to_pylist()
    kept: dict[str, Sequence[bool]] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        uris, masks = batch.column("filepath").to_pylist(), batch.column("selection_vector")
        kept.update((uri, masks[number].values.to_pylist()) for number, uri in enumerate(uris))
    return _Snapshot(
        version=table.version(),
        columns=_Columns(json.loads(table.schema().to_json())["fields"]),
        partitions=dict(zip(actions.column("path").to_pylist(), partitions, strict=True)),
        kept={Path("/", *path_parts(uri)).resolve(): mask for uri, mask in kept.items()},
    )


class _Columns:
    """The columns of a table: names in files, names in rows, and types."""

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        self._types = {one["name"]: one["type"] for one in fields}
        names = {one["metadata"].get(PHYSICAL_NAME, one["name"]): one["name"] for one in fields}
        self._names: dict[str, str] = names
        self.renamed = names if any(there != name for there, name in names.items()) else None

    def of_partition(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        """The partition columns of a file, from the texts in its ``add``."""
        names = {self._names.get(name, name): text for name, text in values.items()}
        return {name: _typed(text, self._types.get(name, "string")) for name, text in names.items()}


def _typed(text: str | None, kind: str) -> Any:
    """The value of a partition column: a text in the log, whatever its type."""
    if text is None or (text == "" and kind != "string"):
        return None
    if kind in INTEGERS:
        return int(text)
    if kind == "boolean":
        return text == "true"
    if kind in ("float", "double"):
        return json_value(float(text))
    if kind.startswith("decimal"):
        return Decimal(text)
    time_us = read_time_us(text) if kind == "timestamp" else None
    return text if time_us is None else write_time(time_us)


@dataclass
class _Snapshot:
    """The table as it is now, as ``deltalake`` reads it: the partition columns of each file, by its path in the log."""

    version: int
    columns: _Columns
    partitions: dict[str, dict[str, Any]]
    kept: dict[Path, Sequence[bool]]

    def files(self, folder: Path) -> dict[str, TableFile]:
        """The files of the table by their paths in the log; raises ``BrokenTable`` for one that is not there."""
        found: dict[str, TableFile] = {}
        for uri, partition in self.partitions.items():
            path = _path(folder, uri)
            if path is None:
                raise gone(folder, DELTA_LOG, uri)
            columns = {name: json_value(value, is_instant=True) for name, value in partition.items()}
            file = _file(folder, path, columns, self.columns)
            found[uri] = replace(file, kept=self.kept.get(path.resolve()))
        if stray := self.kept.keys() - {file.path.resolve() for file in found.values()}:
            raise BrokenTable(
                f"rows of {str(min(stray))!r} are deleted, and it is no file of the table {str(folder)!r}",
                detail="its deletion vector would be lost, and its rows would seem to be there",
                hint="name the table by the path under which it was written, or copy it whole",
            )
        return found


def _path(folder: Path, uri: str) -> Path | None:
    """A data file: its path is relative to the table's folder, or of another table, of which this one is a clone."""
    parts = path_parts(uri)
    if uri.startswith("/") or ":" in uri.partition("/")[0]:
        elsewhere = Path("/", *parts)
        return find_file(folder, uri) or (elsewhere if elsewhere.is_file() else None)
    path = folder.joinpath(*parts)
    return path if path.is_file() else None


def _file(folder: Path, path: Path, columns: dict[str, Any], names: _Columns) -> TableFile:
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path
    return TableFile(path=path, name=inside.as_posix(), columns=columns, renamed=names.renamed)


def has_commits(log: Path) -> bool:
    """Whether a folder ``_delta_log`` has a commit, or a checkpoint of some."""
    return any(path.name[:20].isdecimal() for path in log.iterdir())


def _commit_files(folder: Path, version: int) -> Iterator[tuple[int, Path]]:
    """The commits up to a version that the log still has."""
    for path in sorted((folder / DELTA_LOG).glob("*.json")):
        if path.stem.isdecimal() and len(path.stem) == 20 and int(path.stem) <= version:
            yield int(path.stem), path


def _read_commit(path: Path, version: int) -> _Commit:
    commit = _Commit(version)
    try:
        lines = path.read_bytes().splitlines()
        actions = [msgspec.json.decode(line, type=_Action) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise BrokenTable(
            f"{str(path)!r} cannot be read as a commit of a Delta table",
            detail=str(error),
            hint="a log that was cut while it was copied: copy it again",
        ) from error
    for action in actions:
        commit.adds += [action.add] if action.add else []
        commit.removes += [action.remove] if action.remove else []
        commit.txns += [action.txn] if action.txn else []
        commit.operation = action.commit_info.operation if action.commit_info else commit.operation
    return commit


class _History:
    """What the commits of the log say of the files of a table. A path names the same rows for ever."""

    def __init__(self, folder: Path, columns: _Columns, commits: list[_Commit]) -> None:
        self._folder = folder
        self._columns = columns
        self._commits = commits
        self._adds: dict[str, _File] = {}
        self.origins: dict[str, _Origin] = {}
        for commit in commits:
            self._follow(commit)

    def _follow(self, commit: _Commit) -> None:
        query, batch = self._author(commit)
        for number, file in enumerate(commit.adds):
            self._adds[file.path] = file
            # One that is there is added again with a deletion vector, or by RESTORE.
            self.origins.setdefault(file.path, _Origin(commit.version, number, query, batch))

    def _author(self, commit: _Commit) -> tuple[str | None, int | None]:
        """The query and the batch of all rows that a commit added."""
        if commit.only_rewrites or (commit.removes_rows and commit.operation == "DELETE"):
            unknown = _Origin(-1, 0)
            replaced = [self.origins.get(file.path, unknown) for file in commit.removes]
            queries, batches = {one.query for one in replaced}, {one.batch for one in replaced}
            query = queries.pop() if len(queries) == 1 else None
            return query, batches.pop() if len(batches) == 1 and query is not None else None
        if commit.removes_rows or len(commit.txns) != 1:
            return None, None
        return commit.txns[0].app_id, commit.txns[0].version

    def undo_rewrites(self, live: dict[str, TableFile]) -> None:
        """Put those files in the place of rewritten ones that were replaced by them, the last rewrite first."""
        for commit in reversed(self._commits):
            if not commit.only_rewrites or not self._can_undo(commit, live):
                continue
            for file in commit.adds:
                del live[file.path]
            for file in commit.removes:
                values = self._adds[file.path].partition_values or {}
                path = self._folder.joinpath(*path_parts(file.path))
                columns = self._columns.of_partition(values)
                live[file.path] = _file(self._folder, path, columns, self._columns)

    def _can_undo(self, commit: _Commit, live: dict[str, TableFile]) -> bool:
        """Whether all files of a rewrite are as it wrote them, and those that it replaced are there and were whole."""
        if any(file.path not in live or live[file.path].kept is not None for file in commit.adds):
            return False
        return all(
            file.deletion_vector is None
            and file.path in self._adds
            and self._adds[file.path].deletion_vector is None
            and self._folder.joinpath(*path_parts(file.path)).is_file()
            for file in commit.removes
        )
