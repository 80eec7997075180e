"""The data formats of the project: contract, trace, events, evidence and JSON Lines files.

Each module documents its format in its docstring and reads, writes and validates it: plain data, without a Kafka or
Spark client, a network or a clock. ``contract`` and ``chain`` need nothing but the standard library,
because they also run in another interpreter (``--spark PYTHON``). A changed format is a changed
number in its file (``tidemark_trace``, ``tidemark_evidence``): recorded runs must stay readable. Modules here import
nothing of the harness, neither stack, runner nor oracle.
"""
