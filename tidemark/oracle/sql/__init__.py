"""The SQL oracle: what this Spark must give and what is right, as relations run by DuckDB."""
