"""The producers: programs that generate traces of events and publish them to Kafka (``python -m producers --help``).

A generator (``generate``, ``flights``, ``sentinels``) is pure and seeded: the same settings give the same bytes, so no
module of one reads a clock, the network or an unseeded random number. Only ``replay`` and ``kafka_out`` talk to Kafka.
The package is run as a program, never imported by ``tidemark``; it imports the formats, ``errors`` and ``waiting``, and
nothing of the oracle, the stack or the pipelines.
"""
