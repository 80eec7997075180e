"""The programs under test: one streaming join each, ``python -m pipelines NAME``.

A pipeline is a file with a ``CONTRACT`` (what it promises) and a function ``build(left, right)`` that takes the two
Kafka DataFrames and returns the joined rows. It is written against the ordinary DataFrame API and does not know
whether it runs in a driver of its own or through Spark Connect. A file of one's own may also have ``to_sink(records)``,
which turns the output records (``key``, ``value``) into what the sink is given; without it the provenance headers are
added.
"""
