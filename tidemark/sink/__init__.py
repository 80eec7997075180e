"""What runs inside Spark's executors on behalf of a sink. Free of the harness: it travels with the query.

``tidemark.sink.provenance`` adds headers for Spark's own Kafka sink; ``tidemark.sink.start`` is the way into the
exactly-once sink, which is described in ``README.md`` beside this file.
"""
