"""Spark's rules in Python, shared by model and preflight: time ranges, predicate pushdown, known defects by version."""
