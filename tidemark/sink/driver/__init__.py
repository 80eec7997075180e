"""The driver: work that is done once per batch, before and after its tasks.

In here: ``in_flight``, which reads the newest batch from the checkpoint, and ``takeover``, which fences the producers
of earlier attempts. It runs in the Python process that Spark starts on the driver. It may read the checkpoint and use
Kafka. It must not write rows, change the checkpoint, or use the Spark session.
"""
