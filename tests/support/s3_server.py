"""A server that speaks S3, in this process, with its objects in memory; it can be slow, and refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import s3fs
from moto.moto_api._internal import moto_api_backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tidemark.stack.components.ports import LOOPBACK
from tidemark.waiting import pause

BUCKET = "checkpoints"


@dataclass
class Weather:
    """How the server answers those whose ``User-Agent`` has the text ``agent``: late, or with ``status``."""

    agent: str = ""
    delay_s: float = 0.0
    status: str = ""
    asked: list[str] = field(default_factory=list)

    def over(self, application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """The application, with this weather."""

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if self.agent not in environ.get("HTTP_USER_AGENT", ""):
                return application(environ, start_response)
            self.asked.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            if self.delay_s:
                pause(self.delay_s)
            if not self.status:
                return application(environ, start_response)
            code = "AccessDenied" if self.status.startswith("403") else "SlowDown"
            body = f"<Error><Code>{code}</Code><Message>{self.status}</Message></Error>".encode()
            start_response(
                self.status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
            )
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

        return answer


@dataclass
class S3Server:
    """``environment`` is what a program needs to read from it; ``address`` is ``HOST:PORT``."""

    store: s3fs.S3FileSystem
    environment: dict[str, str]
    address: str
    weather: Weather

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
    weather = Weather()
    application = weather.over(DomainDispatcherApplication(create_backend_app))
    server = make_server(LOOPBACK, 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"{LOOPBACK}:{server.server_port}"
        environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "FSSPEC_S3_ENDPOINT_URL": f"http://{address}",
        }
        store = s3fs.S3FileSystem(
            key="tests", secret="tests", endpoint_url=f"http://{address}", use_listings_cache=False
        )  # fmt: skip
        store.mkdir(BUCKET)
        yield S3Server(store, environment, address, weather)
    finally:
        moto_api_backend.reset()  # another server in this process would have these objects, too
        server.shutdown()
        thread.join()
        server.server_close()
