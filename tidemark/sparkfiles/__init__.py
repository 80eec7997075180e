"""What a query leaves on disk, read: its checkpoint folder and Spark's event log."""
