"""Two judges as most tests have them, to see what they miss.

``equality``   after the run, the ids of all output rows, sorted, are those of a batch join of all input.
``count``      the output topic is polled until it holds as many records as that join has rows; the poll looks after
               every record, so it ends at the right number, if that is ever there, and sees nothing of what follows.

Neither knows batches, watermarks, headers or positions. Both reject the output of a sound pipeline as soon as a row was
late; then what they say of a mutant is worth nothing, and is called ``false positive``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import duckdb

from tidemark.formats.contract import Contract, JoinKind
from tidemark.formats.events import read_event
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import LEFT, first_of, read_history, right_of
from tidemark.oracle.sql.join_answer import ask

Ids = tuple[str | None, str | None]
"""Left id and right id of an output row; of a semi row the right one is ``None``, too."""

KILLED, SURVIVED, FALSE_POSITIVE = "killed", "survived", "false positive"
_JOINS = {
    JoinKind.INNER: "inner join",
    JoinKind.LEFT_OUTER: "left join",
    JoinKind.RIGHT_OUTER: "right join",
    JoinKind.FULL_OUTER: "full join",
    JoinKind.LEFT_SEMI: "semi join",
}


def outcomes(run: RunDirectory, sound: Sequence[Ids]) -> dict[str, str]:
    """What either judge says of a run, by its name; ``sound`` are the rows that nothing is wrong with."""
    expected = batch_join(run)
    came = ids(run.output(), Contract.from_json(run.manifest.contract))
    judges = {
        "equality": lambda rows: sorted(rows, key=str) == sorted(expected, key=str),
        "count": lambda rows: len(rows) >= len(expected),
    }
    return {
        name: (SURVIVED if accepts(came) else KILLED) if accepts(sound) else FALSE_POSITIVE
        for name, accepts in judges.items()
    }


def batch_join(run: RunDirectory) -> list[Ids]:
    """The ids of a plain SQL join over all input, as if nothing could be late."""
    contract = Contract.from_json(run.manifest.contract)
    sides: dict[str, list[tuple[str | None, int, str | None]]] = {
        contract.left.topic: [],
        contract.right.topic: [],
    }
    for record in run.inputs():
        event = read_event(record.value, contract.side(record.topic))
        if event is not None and not record.is_sentinel:
            key = None if None in event.key else json.dumps(event.key)
            sides[record.topic].append((key, event.time_us, event.id))
    bound = contract.bound
    assert bound.lower_ms is not None
    assert bound.upper_ms is not None
    right_id = "NULL" if contract.output.right_id is None else "r.id"
    question = (
        f"select l.id, {right_id} from lefts l {_JOINS[contract.kind]} rights r on l.key = r.key and"
        f" l.time_us - r.time_us between {1000 * bound.lower_ms} and {1000 * bound.upper_ms}"
    )
    with duckdb.connect(":memory:") as sql:
        for name, rows in zip(("lefts", "rights"), sides.values(), strict=True):
            sql.execute(f"create table {name} (key varchar, time_us bigint, id varchar)")
            sql.executemany(f"insert into {name} values (?, ?, ?)", rows)
        return sql.execute(question).fetchall()


def ids(output: Sequence[OutputRecord], contract: Contract) -> list[Ids]:
    """The ids of output records; of one that cannot be read, question marks."""
    found: list[Ids] = []
    for record in output:
        try:
            value = json.loads(record.value or "")
        except ValueError:
            found.append(("?", "?"))
            continue
        names = contract.output.left_id, contract.output.right_id
        left, right = (value.get(name) if name else None for name in names)
        found.append((left, right))
    return found


def sound_rows(run: RunDirectory) -> list[Ids]:
    """What a sound pipeline gives over the batches of a run, by the rules of Spark."""
    history = read_history(run)
    found: list[Ids] = []
    for identity in prediction_of(history, ask(history)).batch_of:
        first, right = first_of(identity), right_of(identity)
        if history.is_sentinel(first):
            continue
        name = history.rows.id[first]
        if right is not None:
            found.append((name, history.rows.id[right]))
        else:
            found.append((name, None) if history.rows.side[first] == LEFT else (None, name))
    return found
