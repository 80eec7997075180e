"""The harness's Kafka client: topics, offsets, reading the output of a query, and recording traces from topics.

The runner, the campaigns and the command line reach Kafka through ``client``; producers and sink are programs with
clients of their own. Records are read at ``read_committed``, and no consumer offset is ever committed. Every request
has a deadline, and an error names the broker's address. What a record means (event time, batch, late or not) is not
decided here: that is for ``formats`` and ``oracle``.
"""
