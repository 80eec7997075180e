"""What a diagnosis should say of each mutant, written by hand from what the mutant does, not from what is said of it.

An entry holds for every join that a mutant is run on. Its *kind* says what can express the mutant: a changed *contract*
(or step, or reading), a *delivery* of a group of rows, *single rows* of the output (never came, came once more, in
another batch, or though not due), a known *defect*, or *nothing*. Names are those of the changes of
``tidemark.diagnosis``; two changes are joined by `` + ``, and ``*`` stands for any text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Kind = Literal["contract", "delivery", "single rows", "defect", "nothing"]
KINDS: tuple[Kind, ...] = ("contract", "delivery", "single rows", "defect", "nothing")
ONE = "single rows"


@dataclass(frozen=True)
class Expected:
    """``answers`` are the names that are right, each as good as the other; ``why`` there are several, or none."""

    kind: Kind
    answers: tuple[str, ...] = ()
    why: str = ""

    def is_right(self, changes: tuple[str, ...]) -> bool:
        """Whether an explanation of these changes is the true cause."""
        named = " + ".join(sorted(changes))
        return any(fnmatchcase(named, one) or _is_within(named, one) for one in self.answers)


def _is_within(named: str, answer: str) -> bool:
    """Whether ``NAME<=9409`` is said, and ``NAME=1000`` is true."""
    name, at_most, most = named.partition("<=")
    its, _, value = answer.partition("=")
    return bool(at_most) and name == its and int(value) <= int(most)


def _contract(*answers: str, why: str = "") -> Expected:
    return Expected("contract", answers, why)


def _rows(*answers: str, why: str = "") -> Expected:
    return Expected("single rows", (ONE, *answers), why)


def _nothing(why: str) -> Expected:
    return Expected("nothing", why=why)


_GROUP = "a group of one row is that row"
_RESTARTED = (
    "the batch was whole when the driver was killed, and came again whole; it may be the rows of one task"
)
_OF_A_TASK = "one task was hit at a step of the sink: its executor was killed, or a broker not reached"

PIPELINE = {
    "watermark delay cut short": _contract("right.watermark_delay_ms=1000"),
    "watermark delay drawn out": _contract("right.watermark_delay_ms=50000"),
    "watermark delay off by a millisecond": _contract("right.watermark_delay_ms=20001"),
    "watermarks left out": _contract("no watermarks"),
    "watermarks left out, Spark's check switched off": _contract("no watermarks"),
    "watermark on another column": _nothing(
        "the column is made in the query; the watermark is that of a delay of 17 s, but no state is ever removed"
    ),
    "time of arrival instead of event time": _nothing("the clock of the cluster is in no record"),
    "event time cut to seconds": _contract("right times cut to seconds"),
    "time zone shifted": _contract("right times 5:30:00*"),
    "the slower side's watermark overruled": _contract("policy=max"),
    "late by this batch's watermark": _nothing("a rule of Spark before 3.5, which the oracle does not have"),
    "time bound half as long": _contract("lower_ms=-10000"),
    "no upper time bound": _contract("lower_ms=None", why="left minus right: the end that is gone is the lower one"),
    "bound strict instead of inclusive": _contract("upper_strict"),
    "bound that reaches a millisecond further back": _contract("upper_ms=1"),
    "bound that Spark cannot read, its check switched off": _nothing(
        "pairs are those of the bound and state is kept as without one: a contract has one bound for both"
    ),
    "one key of two": _contract("keys without user_id"),
    "NULL keys joined": _contract("NULL keys joined"),
    "NULL keys made one key": _contract("NULL keys joined"),
    "NULL keys joined by the optimizer": _contract("NULL keys joined"),
    "inner instead of left outer": _contract("kind=inner"),
    "left outer instead of right outer": _contract("kind=left_outer"),
    "left outer instead of full outer": _contract("kind=left_outer"),
    "inner instead of left semi": _contract("kind=inner"),
    "left semi made of inner and deduplication": _contract(
        "kind=inner + output deduplicated", "output deduplicated",
        why="behind the deduplication both joins give the same rows; they differ in their state alone",
    ),
    "deduplicated before the join": _contract("left deduplicated"),
    "right rows dropped before the join": _nothing("rows are chosen by the hash of an id"),
    "right column asked for after a left outer join": _contract("kind=inner"),
    "event times that are missing filled in": _nothing("the query reads records that no contract describes"),
    "output ids exchanged": _contract("ids exchanged"),
    "refs missing": _contract("without places"),
    "refs of the next record": _contract("one further left"),
}  # fmt: skip

SINK = {
    "sink that drops": _nothing("rows are chosen by the hash of a value"),
    "sink that loses the last row it is given": _nothing("the last row of each task is no group of rows"),
    "sink that doubles": Expected("delivery", ("doubled: all rows",)),
    "sink that drops one row and doubles another": _nothing("rows are chosen by the hash of a value"),
    "sink that names another batch": Expected("delivery", ("moved: all rows",)),
    "sink that names another query": _contract("any query"),
    "sink that loses the headers": _nothing("without headers nothing says in which batch a row came"),
    "sink that cuts values short": _nothing("records are chosen by the hash of a value, and what is left is no row"),
    "sink that writes NULL as an empty text": _contract("empty text"),
    "sink that takes its ledger for a batch older": Expected(
        "delivery", ("doubled: batch", "doubled: task"), _RESTARTED
    ),
    "sink that doubles once it was started again": _nothing("rows are chosen by the hash of a key, from a restart on"),
    "sink that commits its rows before the ledger entry": Expected("delivery", ("doubled: task",), _OF_A_TASK),
    "sink that commits the ledger entry before its rows": Expected("delivery", ("missing: task",), _OF_A_TASK),
    **dict.fromkeys(
        (
            "sink that enters its batch when it has fenced earlier attempts",
            "sink that enters its batch when it has looked up its ledger",
            "sink that enters its batch before it begins its transaction",
            "sink that takes an unanswered commit for done",
        ),
        Expected("delivery", ("missing: task",), _OF_A_TASK),
    ),
    "sink that looks up its ledger for first attempts only": Expected("delivery", ("doubled: task",), _OF_A_TASK),
    "at-least-once sink that promises exactly-once": Expected(
        "delivery", ("doubled: batch", "doubled: task"), _RESTARTED
    ),
    "at-least-once sink that doubles the batch with which it recovers": Expected(
        "delivery", ("doubled: batch", "doubled: task"), _RESTARTED
    ),
    "sink that waits for no acknowledgement": _nothing("rows that were on their way to a broker are no group of rows"),
    "sink that waits for the leader alone": _nothing("rows that one broker had alone are no group of rows"),
}  # fmt: skip

_IN_TIME = "every row is right; the run did not keep what was demanded of it, which is in no contract"
_UNRUN = "a batch was not run: its rows are missing, and its events moved no watermark; no contract says that"

RECOVERY = {
    "batch taken for committed once it is planned": _nothing(_UNRUN),
    "batch taken for committed once a task of it is done": _nothing(
        "a task of a batch without input was not run: its NULL rows come a batch later"
    ),
    "watermark of a batch that reads nothing forgotten": _nothing(
        "the watermark of one batch is no delay, and no policy"
    ),
    "partition begun anew whose stores are not of one version": _nothing(
        "rows of one partition that were read before the restart are not there for the rest of the run"
    ),
    "snapshot taken for whole that is not finished": _nothing(
        "rows that one store had before the restart are not there for the rest of the run"
    ),
    "commit forgotten that is the last": Expected(
        "delivery", ("doubled: batch", "doubled: task"), _RESTARTED
    ),
    "at-least-once sink that promises exactly-once, its commit removed": Expected(
        "delivery", ("doubled: batch", "doubled: task"), _RESTARTED
    ),
}

STATE = {
    "left side of the state forgotten": _nothing(
        "rows read before the restart are not there for the rest of the run"
    ),
    "partitions of the state exchanged": _nothing(
        "two partitions of the state are exchanged from a restart on"
    ),
    "watermark of a planned batch raised": _nothing("the watermark of one batch is no delay, and no policy"),
    "row forgotten": _nothing("the output is right; what Spark says of its state is wrong"),
    "row never removed": _nothing("the output is right; what Spark says of its state is wrong"),
    "row stored twice": _nothing("the output is right; what Spark says of its state is wrong"),
    "row in the state of the other side": _nothing(
        "the output is right; what Spark says of its state is wrong"
    ),
    "event time in the state shifted": _nothing("the output is right; what Spark says of its state is wrong"),
    "record in the state that only the query reads": _nothing(
        "the query reads a record that no contract describes"
    ),
    "matched flag turned": _nothing("the output is right; what Spark says of its state is wrong"),
    "count of a key too high": _nothing("the output is right; what Spark counts is wrong"),
    "key without a count": _nothing("the output is right; what Spark counts is wrong"),
    "count of a key that is gone": _nothing("the output is right; what Spark counts is wrong"),
    "late row not counted": _nothing("the output is right; what Spark counts is wrong"),
    "stored row counted twice": _nothing("the output is right; what Spark counts is wrong"),
    "removed row not counted": _nothing("the output is right; what Spark counts is wrong"),
    "kept row not counted": _nothing("the output is right; what Spark counts is wrong"),
}

EVIDENCE = {
    "batch missing": _nothing("a batch of which nothing is known"),
    "batch written down twice": _nothing("a batch that is there twice"),
    "commit taken back": _nothing("a batch that was not committed, and one after it"),
    "offsets that go back": _nothing("offsets that no query plans"),
    "records read a batch late": _nothing("what the evidence says of its input is wrong; the rows are right"),
    "records published in another order": _nothing("what the evidence says of its input is wrong"),
    "watermark raised by a millisecond": _nothing("the watermark of one batch is no delay, and no policy"),
    "NULL row a batch early": _rows(),
    "NULL row a batch late": _rows(),
    "row a batch late": _rows(),
    "row of a batch that never was": _rows(),
    "row after a later batch": _nothing("each row came, once, in its batch; no contract says where in the topic"),
    "row deleted": _rows("missing: *", why=_GROUP),
    "NULL row deleted": _rows("missing: *", why=_GROUP),
    "transaction lost": Expected(
        "delivery", ("missing: task", "missing: batch"), "a task may have written all of its batch"
    ),
    "topic cut off": Expected(
        "delivery", ("missing: the end", "missing: batch*", "missing: task", ONE),
        "where the last partition of the topic ends with few rows, that is what is cut off",
    ),
    "row twice in its batch": _rows("doubled: *", why=_GROUP),
    "row again in the next batch": _rows(),
    "NULL row twice": _rows("doubled: *", why=_GROUP),
    "one row twice, another gone": _rows(),
    "NULL row for a matched row": _rows(),
    "NULL row of an inner join": _rows(),
    "ids exchanged": _nothing("two records are no rows of this run"),
    "left columns of another row": _rows(),
    "row of nothing": _nothing("a record that is made of no input"),
    "position of another record": _nothing("a record that is no row of this run"),
    "record that only the query reads": _nothing("the query reads a record that no contract describes"),
    "record of ids that only the query reads": _nothing("the query reads a record that no contract describes"),
    "late row joined": _rows(),
    "NULL row for a late row": _rows(),
    "delay promised shorter": _contract("right.watermark_delay_ms=20000"),
    "bound promised shorter": _contract("lower_ms=-20000"),
    "bound promised longer": _contract("lower_ms=-20000"),
    "recovery drawn out": _nothing(_IN_TIME),
    "recovery drawn out that only the commit shows": _nothing(_IN_TIME),
    "batch moved out of a fault": _nothing(_IN_TIME),
    "rows moved out of a fault": _nothing(_IN_TIME),
    "watermark that stands": _nothing(_IN_TIME),
    "state that grows": _nothing("the output is right; what Spark counts is wrong, and more than is demanded"),
    "state of a row less demanded": _nothing(_IN_TIME),
}  # fmt: skip

ENGINE = {
    "SPARK-26154": _rows(),
    "SPARK-32148": _rows(),
    "SPARK-38684": _rows("missing: *", why=_GROUP),
    "SPARK-38809": _rows(),
    "SPARK-49829": _rows(),
    "SPARK-28074": _rows("missing: *", "no rows", why="it is the only row of the run"),
    "SPARK-29438": _rows(),
    "SPARK-38204": _rows(),
}

DEFECTS = {
    "condition_bound": "condition-bounds-the-state",
    "left_semi_same_batch": "left-semi-loses-same-batch-rows",
    "left_semi_same_window": "left-semi-loses-same-batch-rows",
    "null_event_time": "null-event-time-never-evicted",
    "null_keys": "full-outer-joins-null-keys",
    "one_sided_equal": "one-sided-watermark",
    "one_sided_range": "one-sided-watermark",
    "state_format_4_eviction": "format-4-misses-rows",
    "state_format_4_range": "format-4-misses-rows",
    "unused_side": "unused-side-holds-the-watermark",
}
"""Recorded runs of ``tests/golden/evidence/defect_*``."""

EXPECTED: Mapping[str, Mapping[str, Expected]] = {
    "pipeline": PIPELINE,
    "sink": SINK,
    "state": STATE,
    "recovery": RECOVERY,
    "evidence": EVIDENCE,
    "engine": ENGINE,
    "defect": {name: Expected("defect", (defect,)) for name, defect in DEFECTS.items()},
}
_MIRRORED = {
    "right.watermark_delay_ms=1000": "left.watermark_delay_ms=1000",
    "right.watermark_delay_ms=20000": "left.watermark_delay_ms=20000",
    "lower_ms=-20000": "upper_ms=20000",
}
"""In the right outer join clicks are the left input."""


def expected(place: str, name: str, join: str) -> Expected:
    """What is expected of a mutant on a join; raises ``KeyError`` for one without an entry."""
    found = EXPECTED[place][name]
    if join != "right_outer":
        return found
    return Expected(found.kind, tuple(_MIRRORED.get(one, one) for one in found.answers), found.why)
