"""The exactly-once Kafka sink (``write_exactly_once``), and provenance headers for Spark's own Kafka sink.

Three rooms: ``client`` runs in the program that starts the query, ``driver`` on Spark's driver, ``task`` in Spark's
tasks; the modules beside them are shared by all three. Everything is pickled into the query, so neither the driver nor
the executors need ``tidemark``. The code may use PySpark, pyarrow and confluent-kafka. It must not import the rest of
``tidemark``, apart from the modules that are pickled with it. ``README.md`` has the guarantees and options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.sink.client.exactly_once_writer import write_exactly_once

__all__ = ["write_exactly_once"]


def __getattr__(name: str) -> Any:
    """Load ``write_exactly_once`` on first use (PEP 562): it needs PySpark, which the ledger and the formats do not."""
    if name in __all__:
        from tidemark.sink.client import exactly_once_writer

        return getattr(exactly_once_writer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
