"""The harness's Kafka client: topics, offsets, reading a sink; and traces recorded from topics."""
