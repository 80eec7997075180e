"""The task: writing one partition of one batch.

In here: ``transaction``, the protocol that writes rows and ledger entry in one Kafka transaction, ``stream_guard``,
which detects that Spark ended the task early, and ``held_steps``, where faults are injected. It runs in the Python
worker of a Spark task. It may use Kafka and its own input. It must not read the checkpoint, which may not exist on an
executor, or rely on state of an earlier task.
"""
