"""A join as relations: from the offsets of records to the rows that come out, with the batch of each.

Free of I/O, and of the model, with which it shares only what the optimizer makes of a contract (``spark.pushdown``).
The relations are a list of names and texts, each a ``select`` over earlier ones, in a subset of SQL that engines have
in common: integers and booleans, windows, ``union all``; no ASOF join, no lists. One word differs between DuckDB and
Spark: how a row is repeated for each number of a range (``each_number``).

The text has numbers only, so that it depends on the contract and not on the run. What it reads:

* ``records(row, side, part, position, key, has_null_key, time_us, readable)``, and each field that is compared
  (``join_rules.column_of``). ``position`` is the Kafka offset, ``key`` a number of the whole key, ``time_us`` the event
  time, NULL where it is missing;
* ``ends(batch, side, part, position)`` and ``starts(side, part, position)``: where batches end and partitions begin;
* ``plans(batch, restarted, checkpoint_ms)``: the batches; ``restarted`` if another query ran it, or ran it again.

In closed form, with W[N] the watermark of batch N: a row is in the first batch whose end lies behind it. It is late if
its time is at or before W[N-1] and its side has a watermark. It leaves the state in the first batch from its own on
whose watermark reaches its end (``gone``). Two rows are a pair if they match, and the earlier one is still there in the
batch of the later one; the pair comes in that batch. A preserved row without a pair comes as its NULL row when it
leaves; one that fails a condition on its own side in its own batch. A left semi row comes in the batch of its first
match; there the right rows of a batch come first, and one that leaves in its own batch is not seen by left rows of it.
"""

from __future__ import annotations

from tidemark.oracle.sql.join_rules import JoinRules, Select
from tidemark.oracle.sql.pair_relations import pair_relations
from tidemark.oracle.sql.row_relations import row_relations
from tidemark.oracle.sql.semi_relations import semi_relations


def relations(rules: JoinRules, each_number: str) -> list[Select]:
    """All relations. ``each_number``: as the engine says it (``DUCKDB``, ``SPARK``)."""
    both = semi_relations(rules) if rules.is_semi else pair_relations(rules, each_number)
    return [*row_relations(rules), *both]
