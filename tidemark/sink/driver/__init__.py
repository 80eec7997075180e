"""What runs on Spark's driver, once a batch."""
