"""One thing that is wrong, and the log that findings are kept in.

Free of everything. Properties are named for what is wrong. Each has an entry below, in the order in which a reader
should look at them: its meaning, then an example, the usual causes, and the next command to run. ``DIR`` is the run
directory.

``plan_differs``
    The plan of the query is not that of the contract's join: another kind, other keys, another bound, delay, filter or
    policy. Of a chain: other operators with state, or in another order, another kind of join, delay, event time, key or
    policy, another bound of a join of two sources; its filters, conditions and windows are not compared. Only what is
    certain is a finding. Rows may be right all the same, because the trace has none that the difference changes.
    Example: the contract joins on ``user_id`` and ``ad_id``, and the plan on ``user_id``.
    Usual causes: the query or the contract was changed, and the other was not; an option of the session.
    Next: ``tidemark contract PIPELINE``; the plan is in ``DIR/logs/plan.txt``.

``missing_batches``
    Batch ids have a gap, or offsets go backwards. Nothing is compared from there on.
    Example: batch 4 was planned after batch 2, and there is no batch 3.
    Usual causes: files of the checkpoint were deleted or changed; evidence was cut by hand.
    Next: ``tidemark check DIR --batches``, then compare with ``batches.jsonl``.

``decoded_differently``
    The query read a record that the judge cannot read: a row of it is in the output, or in Spark's state. Said only
    where nothing else explains it: the row has an id that the judge does not read in the record, or is a pair or a
    semi row of a join with a time bound, which takes an event time; or the state has the record with an event time.
    The reverse, a record that the query drops because it cannot read it, looks like a row that a filter dropped:
    ``lost_rows``, ``missing_nulls``, ``lost_state``.
    Example: orders/0/7 is no JSON, and the pair of its order o7 came.
    Usual causes: the contract's ``decode``, path, type or form of the time is not the query's; a function of the
    query reads more than one form; a default of a parser, such as single quotes.
    Next: ``tidemark check DIR --json``, and compare the values in the messages with what the query makes of them; if
    functions decode, what they read is in ``DIR/decoded_trace.jsonl``. Then correct ``decode``, path, type or
    ``time_format`` of the contract if the record is an event, and the query if it is none. Wrong watermarks and missing
    rows in the same verdict may be its consequence.

``wrong_watermarks``
    A batch ran with another watermark than its input gives. One finding names the first such batch and counts the
    others.
    Example: batch 5 ran at 12:00:10, and the rows before it give 12:00:05.
    Usual causes: the contract has another delay or watermark policy than the query; the watermark is on another
    column; a filter upstream of the watermark that the contract does not have; offsets of the checkpoint were changed.
    Next: ``tidemark contract PIPELINE``.

``lost_rows``
    A joined or semi row that a committed batch owed never came.
    Example: impression i1 and click c1 match in batch 2, and no output record has both.
    Usual causes: a known defect of Spark (the finding names it); state that was lost; a sink that dropped rows; a
    condition in the query that the contract does not have; a shorter time bound.
    Next: ``tidemark check DIR --batches``; for a known defect, the page Spark bugs.

``missing_nulls``
    A NULL row that a committed batch owed never came.
    Example: impression i2 has no click, the watermark passed its time bound, and no row with NULL came for it.
    Usual causes: a watermark on one side only; a watermark that stalled after a restart; rows without event time; a
    condition on an ordinary column that Spark takes for a time bound; an inner join in place of an outer one.
    Next: ``tidemark contract PIPELINE``, which warns of joins whose NULL rows never come; after a restart,
    ``tidemark check DIR --batches``, which says for which input the watermark waits.

``duplicate_rows``
    A row came once more than the delivery promise permits. The exactly-once sink permits no repeat. At-least-once
    permits one for each further run of the batch and each of its tasks that failed, and one of a record that Kafka's
    producer sent twice because a broker was killed; these are counted as permitted duplicates and are no findings.
    Example: (i1, c1) is in the output twice, and its batch ran once; or three times, and its batch ran twice.
    Usual causes: a sink that is at-least-once and is judged as exactly-once; a sink that writes twice; two
    queries with one output topic; a checkpoint that was rolled back; a reader that does not use ``read_committed``.
    Next: ``tidemark check DIR --batches``; with the exactly-once sink also ``tidemark ledger``.

``repeated_semi_rows``
    As ``duplicate_rows``, of a left semi join, whose rows come at their first match and never again.
    Example: i1 came in batch 1 with click c1, and again in batch 2 with click c2.
    Usual causes: an inner join in place of a left semi join; as for ``duplicate_rows``.
    Next: ``tidemark contract PIPELINE``.

``phantom_rows``
    A row that no rule gives: of unknown input, of keys or times that do not match, or of a kind that the join does not
    have.
    Example: (i2, c1) came, and the two rows have different keys.
    Usual causes: the query joins by another condition or time bound than the contract says; NULL keys that matched;
    output columns that are exchanged or point at another record; a value that was changed on its way to the sink.
    Next: ``tidemark contract PIPELINE``.

``premature_nulls``
    A NULL row came before the watermark that evicts its preserved row.
    Example: the NULL row of i2 is due in batch 3, and came in batch 1.
    Usual causes: a time bound or a watermark delay in the query that is shorter than that of the contract; a watermark
    that was ahead.
    Next: ``tidemark check DIR --batches``, which shows the watermark of each batch.

``nulls_for_matched_rows``
    A NULL row came for a preserved row that has a partner.
    Example: (i1, c1) came, and (i1, NULL) came too.
    Usual causes: a shorter time bound in the query, so that the pair was not found; partners that were dropped before
    the join; state that was lost between two batches.
    Next: ``tidemark contract PIPELINE``; then look for ``lost_state`` and ``wrong_flags`` in the same verdict.

``late_rows_joined``
    An output row, of any kind, that a late input row is part of, or owes its match to.
    Example: click c9 is older than the late watermark of its batch, and (i9, c9) came.
    Usual causes: a query without a watermark, or with a longer delay than the contract says; a side whose event time
    is not used behind the join, so that Spark removes it, and the watermark with it, before the join.
    Next: ``tidemark contract PIPELINE``, which names such a side.

``misplaced_rows``
    A correct row came in the wrong batch: in another one than Spark's rules give.
    Example: (i1, NULL) is due in batch 3, and its header ``batch`` says 5.
    Usual causes: a longer watermark delay in the query than in the contract; a sink that writes a wrong batch id, or
    keeps rows back; a batch that was planned anew.
    Next: ``tidemark check DIR --batches``.

``misordered_rows``
    A correct row of the right batch came after a row of a later batch, in one partition of the output topic. A batch is
    committed once all of its rows are written, and the next one is planned then. So the row was not in the topic when
    its batch was committed: had the query died just then, the row would be lost. A row is in order if one of its copies
    is. The order of rows within a batch is not compared, nor any order in an audit.
    Example: (i1, c1) of batch 3 is at offset 40 of a partition, and a row of batch 4 at offset 38.
    Usual causes: a sink that reports a batch as written before Kafka has answered (no flush, ``acks=0``, a thread of
    its own); a wrong batch id in the header.
    Next: ``tidemark check DIR --batches``; the places are in ``DIR/output.jsonl``.

``corrupt_rows``
    An output record that cannot be read, or contradicts the input records that it refers to.
    Example: the value is no JSON object; the header ``query`` names another query; the id is not the one of the record
    at that offset.
    Usual causes: something else writes to the output topic; a sink without the headers ``query``, ``batch``,
    ``partition`` and ``attempt``; the columns of the record's partition and offset are missing from the output.
    Next: ``tidemark check DIR --json``; ``read`` in the finding is the partition and offset of the record in
    ``output.jsonl``.

``lost_state``
    A row that Spark's rules keep is not in Spark's state. The state is compared after up to four batches.
    Example: after batch 3 the state of the left side lacks i1, which batch 1 stored.
    Usual causes: files of the state store that were lost or cut; a row that was evicted too early.
    Next: ``tidemark check DIR --batches``; logs are in ``DIR/logs``.

``leaked_state``
    A row is in Spark's state that its rules have evicted, or never stored.
    Example: after batch 3 the state has i1, which batch 2 evicts.
    Usual causes: a state watermark that does not move (a known defect of Spark with a watermark on one side only); a
    state file of another batch.
    Next: ``tidemark contract PIPELINE``, which warns of joins whose state grows without end.

``wrong_flags``
    A row of a preserved side is marked as matched in Spark's state, and was not, or the reverse.
    Example: i1 joined c1 in batch 0, and the state after batch 1 has it as not matched.
    Usual causes: state of another batch, or restored from another version; a defect of the state format.
    Next: ``tidemark run PIPELINE`` with the same seed and another state format, by
    ``--conf spark.sql.streaming.join.stateFormatVersion=3`` and a RocksDB provider.

``wrong_counts``
    Beside the rows of its state Spark keeps how many rows each key has (``keyToNumValues``), and reads so many. That
    number is neither the one that its rules give nor that of the rows in the state: what is beyond a number that is too
    low is never joined. In state format 4 it is the number of entries of a key and time in the order of times
    (``tsWithKey``), by which that format evicts.
    Example: the state after batch 3 counts two rows of the left key u7, and has three.
    Usual causes: files of one state store that are of another batch than those of the others; a defect of the state
    format.
    Next: ``tidemark run PIPELINE`` with the same seed and another state format, as for ``wrong_flags``.

``wrong_metrics``
    Spark counts other rows stored, removed, dropped or kept than its rules give; of a chain, at one of its operators.
    Example: batch 2 reports ``numRowsDroppedByWatermark`` 3, and its input has 2 late rows.
    Usual causes: a filter upstream of the watermark that the contract does not have; tasks that ran again; a version of
    Spark that counts differently.
    Next: ``tidemark check DIR --json``; Spark's reports are in ``DIR/progress.jsonl``.

``oracles_disagree``
    Spark's rules, replayed, and SQL say different things of the same input: another watermark, late row, output row,
    batch or row of the state; or what is right differs from both, and no known defect explains it. This is the check on
    the oracle itself.
    Example: the rules give (i1, c1) in batch 3, SQL in batch 4.
    Usual causes: a defect of Spark that is not known yet; an error in tidemark's model.
    Next: ``tidemark check DIR --json``, and keep the run directory: it is all that a report needs.

``slow_recoveries``
    The batch in which a fault was injected was committed later than ``recover_within`` demands, an outage included; or
    it was not committed when the run was given up, later than that.
    Example: batch 4 was committed 37.5 s after its driver was killed, and 20 s are demanded.
    Usual causes: a driver takes that long to start; a state that is read anew; timeouts of Kafka's clients or of Spark
    that are longer than the demand; a busy machine.
    Next: ``tidemark report DIR``, which draws the fault and its recovery; then the logs in ``DIR/logs``.

``standstills``
    While a fault lasted, fewer batches were committed, or fewer input rows were in such batches, than
    ``progress_during_faults`` demands.
    Example: no batch was committed while a broker was paused for 5 s, and 1 is demanded.
    Usual causes: there is one of that component, and nothing takes over for it; clients that wait for longer than the
    fault lasts before they turn to another broker; a trace that was over.
    Next: ``tidemark check DIR --batches``, and compare with the times in ``DIR/faults.jsonl``.

``stalled_watermarks``
    The watermark of the query stood still for longer than ``watermark_stands_at_most`` demands, from the plan of the
    first batch that has it to that of the first with another, or to the last commit.
    Example: the watermark stood at 12:00:05 for 90 s (batches 3 to 9), and 60 s are demanded.
    Usual causes: an input that has no rows, or old ones only; a watermark that waits for an input after a restart; a
    batch that takes long.
    Next: ``tidemark check DIR --batches``, which says for which input the watermark waits.

``oversized_states``
    A batch left more rows in the state, of all operators of the query, than ``state_rows_at_most`` demands. One finding
    names the largest, and counts the others.
    Example: batch 7 left 1,200 rows in the state, and at most 1,000 are demanded.
    Usual causes: a watermark that stands, so that nothing is evicted; a longer time bound or delay than was planned
    for; a join whose state is never evicted.
    Next: ``tidemark contract PIPELINE``, which warns of joins whose state grows without end.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import msgspec

EXAMPLES_KEPT = 20

PROPERTIES = (
    "plan_differs",
    "missing_batches",
    "decoded_differently",
    "wrong_watermarks",
    "lost_rows",
    "missing_nulls",
    "duplicate_rows",
    "repeated_semi_rows",
    "phantom_rows",
    "premature_nulls",
    "nulls_for_matched_rows",
    "late_rows_joined",
    "misplaced_rows",
    "misordered_rows",
    "corrupt_rows",
    "lost_state",
    "leaked_state",
    "wrong_flags",
    "wrong_counts",
    "wrong_metrics",
    "oracles_disagree",
    "slow_recoveries",
    "standstills",
    "stalled_watermarks",
    "oversized_states",
)
"""In the order in which a reader should look at them."""


class Finding(msgspec.Struct, kw_only=True, frozen=True):
    """``message`` is one sentence that says what is wrong and why.

    ``row`` names the ids, ``written`` the input records (``topic/partition/offset``), ``read`` the output
    record (``partition/offset``; ``None``: it never came), ``defect`` a known defect of Spark.
    """

    property: str
    message: str
    row: dict[str, str | None] = {}
    written: list[str] = []
    read: str | None = None
    batch: int | None = None
    defect: str | None = None


class FindingLog:
    """All findings of a judgement: every one is counted, the first of each property are kept."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._unexplained: Counter[str] = Counter()
        self.defects: Counter[str] = Counter()
        self._kept: dict[tuple[str, str | None], list[Finding]] = {}
        self._rows: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        self._problems: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def wants(self, name: str, defect: str | None = None) -> bool:
        """Whether another example of this property would be kept: if not, ``count`` is enough."""
        return len(self._kept.get((name, defect), ())) < EXAMPLES_KEPT

    def count(self, name: str, defect: str | None = None) -> None:
        """Count a finding without an example."""
        self._totals[name] += 1
        if defect:
            self.defects[defect] += 1
        else:
            self._unexplained[name] += 1

    def add(self, finding: Finding) -> None:
        """Count a finding and keep it if there is room."""
        self.count(finding.property, finding.defect)
        if self.wants(finding.property, finding.defect):
            self._kept.setdefault((finding.property, finding.defect), []).append(finding)

    def withdraw(self, names: Collection[str]) -> int:
        """Take back the findings of these properties that no known defect explains; returns how many there were."""
        taken = {name: self._unexplained.pop(name, 0) for name in names}
        for name in names:
            self._kept.pop((name, None), None)
            self._rows.pop(name, None)
        self._totals -= Counter(taken)
        return sum(taken.values())

    def remember(self, name: str, identity: int, batch: int) -> None:
        """Keep which output row a finding is about, and its batch; of all, for their cause."""
        self._rows[name].extend((identity, batch))

    def remember_problem(self, name: str, problem: str) -> None:
        """Keep what is wrong with a record that is no row."""
        self._problems[name][problem] += 1

    def rows_of(self, name: str) -> Sequence[tuple[int, int]]:
        """The output rows of a property: identity and batch."""
        rows = self._rows[name]
        return list(zip(rows[::2], rows[1::2], strict=True))

    def problems_of(self, name: str) -> Counter[str]:
        """What is wrong with the records of a property that are no rows."""
        return self._problems[name]

    def totals(self) -> dict[str, int]:
        """How many findings there are of each property, in the order of ``PROPERTIES``."""
        return {name: self._totals[name] for name in PROPERTIES if name in self._totals}

    def unexplained(self) -> dict[str, int]:
        """As ``totals``, without those that a known defect explains."""
        return {name: self._unexplained[name] for name in PROPERTIES if name in self._unexplained}

    def findings(self) -> list[Finding]:
        """The kept findings, in the order of ``PROPERTIES``."""
        kept = [finding for findings in self._kept.values() for finding in findings]
        return sorted(kept, key=lambda finding: PROPERTIES.index(finding.property))
