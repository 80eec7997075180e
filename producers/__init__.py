"""Programs that write events to Kafka: ``python -m producers --help``."""
