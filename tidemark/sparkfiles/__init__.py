"""Readers of the files that Spark writes for a streaming query: checkpoint folder, event log, and output as a table.

Nothing here writes, and nothing here needs Spark to run: only files are read, and they may still be growing. The
formats belong to Spark and to Delta, so each rule names the class that it comes from; check these first for a new
version. ``output_tables`` reads a table: which files count is in its log (``file_sink_log``, ``delta_log``). No module
here talks to a driver or to Kafka, or judges what it reads: that is for ``runner``, ``auditor`` and ``oracle``.
"""
