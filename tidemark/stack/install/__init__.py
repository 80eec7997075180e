"""What a stack is run with, found or fetched: Java, Spark, jars, class-data-sharing archives."""
