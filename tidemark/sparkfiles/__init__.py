"""Readers of the files that Spark writes for a streaming query: its checkpoint folder and its event log.

Nothing here writes, and nothing here needs Spark to run: only files are read, and they may still be growing. Both
formats belong to Spark, so each rule names the Spark class that it comes from; check these first for a new version of
Spark. No module here talks to a driver or to Kafka, or judges what it reads: that is for ``runner`` and ``oracle``.
"""
