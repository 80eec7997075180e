"""A server that speaks S3, in this process, with its objects in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import s3fs
from moto.server import ThreadedMotoServer

BUCKET = "checkpoints"


@dataclass
class S3Server:
    """``environment`` is what a program needs to read from it."""

    store: s3fs.S3FileSystem
    environment: dict[str, str]

    def upload(self, folder: Path, name: str) -> str:
        """Copy a folder into the bucket; its URL."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.store.put_file(str(path), f"{BUCKET}/{name}/{path.relative_to(folder)}")
        return f"s3://{BUCKET}/{name}"

    def objects(self) -> dict[str, str]:
        """All objects, by their keys, with their digests."""
        return {key: about["ETag"] for key, about in self.store.find(BUCKET, detail=True).items()}


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with an empty bucket, for the length of the block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}",
        }
        store = s3fs.S3FileSystem(
            key="tests", secret="tests", endpoint_url=environment["FSSPEC_S3_ENDPOINT_URL"], use_listings_cache=False
        )  # fmt: skip
        store.mkdir(BUCKET)
        yield S3Server(store, environment)
    finally:
        server.stop()
