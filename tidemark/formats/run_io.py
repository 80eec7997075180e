"""The topics, the Kafka address and the checkpoint folder for a pipeline that starts its own query.

Free of PySpark. A pipeline has ``start(spark, io)`` in the place of ``build(left, right)``; everything is its own then:
sources, options, sink. It returns the query that is judged::

    def start(spark, io):
        orders = spark.readStream.format("kafka").options(**io.source("orders")).load()
        ...
        return (
            rows.writeStream.format("kafka")
            .options(**io.kafka)
            .option("topic", io.output)
            .option("checkpointLocation", io.checkpoint)
            .trigger(**io.trigger)
            .start()
        )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunIO:
    """One run, as Spark sees it.

    ``bootstrap`` is Kafka's address. ``topics`` has the Kafka topic of each topic of the contract, ``output`` is the
    topic that is judged, ``checkpoint`` the folder of the query that is judged. ``trigger_ms`` is the interval of its
    trigger. ``max_offsets`` has, by topic of the contract, so many records for each batch; it is empty but for the pace
    ``backlog``. ``table`` is a folder that may be written in the place of ``output``: by Spark's file sink in Parquet,
    or by Delta. ``registry`` is the URL of the run's schema registry, empty if the stack has none. ``login`` has the
    options of Spark's Kafka source and sink for a broker that wants a login: references to a file, never a password.
    """

    bootstrap: str
    topics: Mapping[str, str]
    output: str
    checkpoint: str
    trigger_ms: int
    max_offsets: Mapping[str, int] = field(default_factory=dict)
    table: str = ""
    registry: str = ""
    login: Mapping[str, str] = field(default_factory=dict)

    @property
    def kafka(self) -> dict[str, str]:
        """Options of Spark's Kafka source and sink that say where Kafka is, and how to log in."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.login}

    def source(self, topic: str) -> dict[str, str]:
        """Options of Spark's Kafka source for a topic of the contract; it has to begin with the earliest record."""
        options = {
            **self.kafka,
            "subscribe": self.topics[topic],
            "startingOffsets": "earliest",
        }
        if topic in self.max_offsets:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets[topic])
        return options

    @property
    def trigger(self) -> dict[str, str]:
        """The arguments of ``trigger``: with another, a slice of the trace may be split into two batches."""
        return {"processingTime": f"{self.trigger_ms} milliseconds"}
