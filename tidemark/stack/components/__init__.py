"""What each component of a stack is started with: its command line, environment, settings, ports and class archive.

Change a setting of Kafka in ``kafka_settings``, one of Spark in ``spark_settings``, each with its reason beside it;
``launch_specs`` turns them into one launch record per component. Nothing is started here and nothing depends on a
backend. Layer: below ``install`` and the backends, above ``registry``. Changes show in the stack's fingerprint.
"""
