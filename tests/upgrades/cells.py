"""The cells of the upgrade table: a join, a state, how the older Spark ended, and a pair of Sparks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tidemark.campaigns.state_stores import HDFS, STATES, states_of
from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.sparkfiles.checkpoint import CHANGELOG, STATE_FORMAT, STATE_PROVIDER

PAIRS = (
    ("3.5.7", "4.0.5"),
    ("4.0.5", "4.1.4"),
    ("4.1.4", "4.2.0"),
    ("4.2.0", "4.3.0"),
    ("3.5.7", "4.3.0"),
)
"""Older and newer Spark: each step, and all steps at once."""
ENDS = ("stopped", "killed")
"""How the older Spark ends: between two batches, or in the middle of one."""
OLD_FORMAT = {"HDFS, 1": {STATE_PROVIDER: HDFS, STATE_FORMAT: "1"}}
"""The format of Spark 2, in which a new query of any of these Sparks can still be started, by those who ask for it."""
OF_OLD_FORMAT = (JoinKind.INNER, JoinKind.LEFT_OUTER)
FIRST = ("HDFS, 2", "RocksDB, 2", "RocksDB, 3", "RocksDB, 4")
"""The states that are tried first."""


@dataclass(frozen=True)
class Group:
    """Cells whose queries run together: in one session of the older Spark, then in one of the newer."""

    old: str
    new: str
    cells: tuple[tuple[JoinKind, str, str], ...]

    def __str__(self) -> str:
        states = ", ".join(dict.fromkeys(f"[{state}] {ended}" for _, state, ended in self.cells))
        return f"{self.old} to {self.new}: {states}"


def conf_of(state: str) -> Mapping[str, str]:
    """The settings that ask for a state; none of them is left to a Spark's own choice."""
    if state in OLD_FORMAT:
        return OLD_FORMAT[state]
    asked = {STATE_PROVIDER: HDFS, STATE_FORMAT: "2", **STATES[state]}
    return {**asked, CHANGELOG: "false", **STATES[state]} if asked[STATE_PROVIDER] == ROCKSDB else asked


def states_of_pair(old: str, new: str) -> list[str]:
    """The states that both Sparks have."""
    known = [state for state in states_of(old) if state in states_of(new) and state != "HDFS, 3"]
    return [
        *(state for state in FIRST if state in known),
        *(one for one in known if one not in FIRST),
        *OLD_FORMAT,
    ]


def groups(pairs: Sequence[tuple[str, str]] = PAIRS) -> list[Group]:
    """All, those first that matter most: of two states the one is stopped and the other is killed, then vice versa."""
    found: list[Group] = []
    for is_first, ends in product((True, False), (ENDS, ENDS[::-1])):
        for old, new in (*pairs[-1:], *pairs[:-1]):
            states = [one for one in states_of_pair(old, new) if (one in FIRST) == is_first]
            for two in (states[at : at + 2] for at in range(0, len(states), 2)):
                cells = [
                    (kind, state, ended)
                    for state, ended in zip(two, ends, strict=False)
                    for kind in JoinKind
                    if state not in OLD_FORMAT or kind in OF_OLD_FORMAT
                ]
                found.append(Group(old, new, tuple(cells)))
    return found
