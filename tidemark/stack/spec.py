"""What a stack is asked to be, and where it lives.

Free of processes. Two stacks are the same when their specs, their versions and the code that starts them are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import UsageError


@dataclass(frozen=True)
class StackSpec:
    """``python`` is the interpreter whose PySpark is run; ``kafka_port=None`` takes a free one."""

    backend: str = "local"
    python: Path = Path(sys.executable)
    workers: int = 2
    kafka_port: int | None = None

    def __post_init__(self) -> None:
        if self.backend != "local":
            raise UsageError(f"there is no backend {self.backend!r}", hint="the backend is `local`")
        if not 1 <= self.workers <= 8:
            raise UsageError(f"a stack of {self.workers} workers", hint="choose 1 to 8 workers")
        if self.kafka_port is not None and not 1024 <= self.kafka_port <= 65535:
            raise UsageError(f"port {self.kafka_port} for Kafka", hint="choose a port from 1024 to 65535")
