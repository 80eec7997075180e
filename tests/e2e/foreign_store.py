"""A query that tidemark did not start, whose checkpoint Spark's S3A writes into an S3-compatible store."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.e2e.foreign_query import ForeignQuery
from tests.e2e.stored_copy import s3a_settings
from tests.support.s3_server import BUCKET, S3Server
from tidemark.sparkfiles.checkpoint import Checkpoint


class StoredForeignQuery(ForeignQuery):
    """As its base, but for the place of the checkpoint. The program has the login for the store in its environment."""

    def __init__(self, bootstrap: str, folder: Path, seed: int, *, server: S3Server, **how: Any) -> None:
        super().__init__(bootstrap, folder, seed, **how)
        self._server = server
        self._root = f"{BUCKET}/foreign-{uuid.uuid4().hex[:8]}"

    @property
    def location(self) -> str:
        """Where the program writes it."""
        return f"s3a://{self._root}"

    @property
    def checkpoint(self) -> Checkpoint:
        """A copy of what the store has now of its logs."""
        copy, store = super().checkpoint, self._server.store
        for key in store.find(self._root, refresh=True) if store.exists(self._root) else ():
            name = key.removeprefix(f"{self._root}/")
            path, (log, _, entry) = copy.path / name, name.partition("/")
            is_read = name == "metadata" or (log in ("offsets", "commits") and entry.isdecimal())
            if is_read and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(store.cat_file(key))
        return copy

    def settings(self) -> dict[str, object]:
        """Settings of the program's session, without a login."""
        settings: dict[str, object] = dict(s3a_settings(self._server))
        return {name.replace(".", "__"): value for name, value in settings.items()}
