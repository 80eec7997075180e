"""What runs inside Spark's executors on behalf of a sink. Free of the harness: it is shipped in the run's code.zip."""
