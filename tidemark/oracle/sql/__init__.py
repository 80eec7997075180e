"""The SQL oracle: what is right, as relations run by DuckDB."""
