"""A query with the exactly-once sink whose checkpoint is in an S3-compatible store, written there by Spark's S3A."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.sinks import Copy, connected, driver_of_ones_own
from tests.support.s3_server import BUCKET, S3Server
from tidemark.stack import Stack
from tidemark.stack.install.jars import provide
from tidemark.stack.install.toolchain import find_java, find_spark

LOCK = Path(__file__).parents[1] / "spark" / "object_store.lock"
LOGIN = "[default]\naws_access_key_id = tests\naws_secret_access_key = tests\n"
S3A = "spark.hadoop.fs.s3a"


def s3a_settings(server: S3Server) -> dict[str, str]:
    """Settings of a Spark that writes into the store; the login is not among them."""
    jars = provide(find_java(), find_spark(Path(sys.executable)), ["s3a"], print, lock=LOCK)["s3a"]
    return {
        "spark.jars": ",".join(map(str, jars)),
        f"{S3A}.endpoint": f"http://{server.address}",
        f"{S3A}.endpoint.region": "us-east-1",
        f"{S3A}.path.style.access": "true",
        f"{S3A}.connection.ssl.enabled": "false",
        f"{S3A}.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
        f"{S3A}.change.detection.mode": "none",
    }


@contextmanager
def session_of_a_store(stack: Stack, server: S3Server, home: Path, **conf: str) -> Iterator[SparkSession]:
    """A session of a driver that has its login for the store in its home folder, as Python has."""
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(LOGIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        opened = driver_of_ones_own(stack, **s3a_settings(server), **conf)
        driver = opened.__enter__()
    try:
        with connected(stack, driver) as session:
            yield session
    finally:
        opened.__exit__(None, None, None)


class StoredCopy(Copy):
    """As its base, but for the place of the checkpoint."""

    def __init__(self, stack: Stack, session: SparkSession, server: S3Server, **how: Any) -> None:
        super().__init__(stack, session, **how)
        self.traps = self.checkpoint
        self.root = f"{BUCKET}/{self.checkpoint.name}"
        self.store = server.store
        self.extra = {"checkpointLocation": f"s3a://{self.root}"}

    def batches(self, log: str) -> list[int]:
        """The batches of ``offsets`` or ``commits``."""
        names = [path.rpartition("/")[2] for path in self.store.ls(f"{self.root}/{log}", refresh=True)]
        return sorted(int(name) for name in names if name.isdecimal())

    def forget(self, log: str) -> int:
        """Remove the newest entry of a log, as if it had never been written; returns its batch."""
        batch = self.batches(log)[-1]
        self.store.rm_file(f"{self.root}/{log}/{batch}")
        return batch

    def rewrite(self, name: str, text: str) -> None:
        """Write a file of the checkpoint."""
        self.store.pipe_file(f"{self.root}/{name}", text.encode())

    def read(self, name: str) -> str:
        """A file of the checkpoint."""
        return self.store.cat_file(f"{self.root}/{name}").decode()
