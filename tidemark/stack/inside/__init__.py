"""Programs that run in the stack's own interpreter: on this machine, or inside a worker's container.

``connect_client`` is a Spark Connect client, ``worker_processes`` signals single processes in a container. Both are
started as files, read requests as JSON lines and end with their standard input. They may import PySpark, psutil and the
standard library; they must not import tidemark, which is not installed there. Lowest layer: nothing imports them.
"""
