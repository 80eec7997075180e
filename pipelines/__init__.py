"""The programs under test, one streaming query each: ``python -m pipelines NAME``.

A pipeline is a file with a ``CONTRACT`` (what it promises) and a function ``build(left, right)`` that takes the Kafka
DataFrames of its inputs and returns the output rows. It uses the ordinary DataFrame API, so the same file runs in a
classic driver or through Spark Connect. A pipeline may also have ``to_sink(records)``, which maps the output records
(``key``, ``value``) to the columns for the sink; without it the provenance headers are added. The pipelines import the
formats and the sink, and never the oracle or the stack: a pipeline must not know that it is tested.
"""
