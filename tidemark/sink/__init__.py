"""What runs inside Spark's executors on behalf of a sink. Free of the harness: it travels with the query.

``tidemark.sink.provenance`` adds headers for Spark's own Kafka sink; ``write_exactly_once`` starts the
exactly-once sink, which is described in ``README.md`` beside this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.sink.client.exactly_once_writer import write_exactly_once

__all__ = ["write_exactly_once"]


def __getattr__(name: str) -> Any:
    """``write_exactly_once`` on demand: it needs PySpark, which the ledger and the formats do without (PEP 562)."""
    if name in __all__:
        from tidemark.sink.client import exactly_once_writer

        return getattr(exactly_once_writer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
