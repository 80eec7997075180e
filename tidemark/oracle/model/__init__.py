"""The model: Spark's own rules replayed batch by batch."""
