"""tidemark: proves Spark stream-stream joins right, or shows the row that is wrong."""

__version__ = "0.1.0"

__all__ = ["__version__"]
