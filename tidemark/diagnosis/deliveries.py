"""Other deliveries: rows of a task, a batch, a partition, an executor, a key or a time range, missing or doubled.

Free of I/O. A *group* is all rows that a setting owes and that have one thing in common. A delivery explains the rows
that differ if they are exactly the rows of a group: all of them are missing, or each came once more, or came in a batch
that is as far from its own. Groups are taken from the rows that differ, so that few are asked about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import comb
from typing import TypeVar, cast
from zlib import crc32

from tidemark.diagnosis.asking import Answer, Asker, made_of
from tidemark.diagnosis.key_hashes import murmur2, partition_of
from tidemark.diagnosis.observed import Came
from tidemark.formats.events import write_time
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, History
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US

T = TypeVar("T")
NOWHERE = -1
"""Where a record without a key is put: anywhere."""
FEWEST = 3
"""Fewer rows are said to be single rows, not a range."""
ALL_ELSE = ", and all else is right"
"""How a sentence ends that is the whole explanation."""


@dataclass(frozen=True)
class RowDelivery:
    """What happened to ``many`` rows; ``group`` names what they have in common, ``is_fitted``: by a range."""

    name: str
    said: str
    many: int
    is_fitted: bool = False


@dataclass(frozen=True)
class _Group:
    name: str
    said: str
    is_fitted: bool = False


def deliveries(asker: Asker, answer: Answer) -> list[RowDelivery]:
    """What could have been done to the rows of an answer, so that they are those that came; none if nothing fits."""
    if not answer.watermarks_fit or answer.strange or not answer.wrong:
        return []
    if answer.missing and not answer.extra:
        return list(_missing(asker, answer))
    if answer.extra and not answer.missing:
        return list(_doubled(asker, answer))
    return list(_moved(answer))


def single_rows(answer: Answer) -> RowDelivery | None:
    """A few rows alone: what is left where so few are wrong that anything explains them; ``None``: there are many."""
    if not answer.watermarks_fit or answer.strange or not 0 < answer.wrong <= 2 * FEWEST:
        return None
    moved = _pairs_of_batches(answer)
    lost, came = answer.missing.total() - len(moved), answer.extra.total() - len(moved)
    twice = sum(many for row, many in answer.extra.items() if answer.due[row])
    if max(lost, came, len(moved)) > FEWEST:
        return None
    said = []
    if lost:
        said.append(f"{_rows(lost)} never came")
    if twice:
        said.append(f"{_rows(twice)} came once more")
    if came - twice > 0:
        said.append(f"{_rows(came - twice)} came that {'are' if came - twice > 1 else 'is'} not due")
    if moved:
        said.append(f"{_rows(len(moved))} came in another batch")
    return RowDelivery("single rows", f"{' and '.join(said)}{ALL_ELSE}", answer.wrong)


def is_little(answer: Answer) -> bool:
    """Whether so few rows are wrong, of so few, that they may be wrong in this way by chance."""
    many = answer.wrong
    return many <= FEWEST and comb(max(answer.due.total(), many), many) < 1000


def _rows(many: int) -> str:
    return f"{many:,} row{'' if many == 1 else 's'}"


def _missing(asker: Asker, answer: Answer) -> Iterator[RowDelivery]:
    if set(answer.missing) == set(answer.due):
        yield RowDelivery("no rows", "no row came at all", answer.wrong)
        return
    for group in _groups(asker, answer, answer.missing):
        text = f"{_all(answer.missing.total())} {group.said} are missing{ALL_ELSE}"
        yield RowDelivery(f"missing: {group.name}", text, answer.missing.total(), group.is_fitted)


def _doubled(asker: Asker, answer: Answer) -> Iterator[RowDelivery]:
    extra = answer.extra
    if any(not answer.due[row] for row in extra):
        return
    times = {many // answer.due[row] + 1 for row, many in extra.items()}
    if len(times) > 1 or any(many % answer.due[row] for row, many in extra.items()):
        return
    often = {2: "twice", 3: "three times"}.get(times.pop(), "several times")
    everything = answer.due.keys() == extra.keys()
    if everything:
        yield RowDelivery("doubled: all rows", f"all {extra.total():,} rows came {often}", extra.total())
        return
    for group in _groups(asker, answer, extra):
        text = f"{_all(len(extra))} {group.said} came {often}{ALL_ELSE}"
        yield RowDelivery(f"doubled: {group.name}", text, len(extra), group.is_fitted)


def _all(many: int) -> str:
    return f"all {many:,} rows" if many > 1 else "the one row"


def _moved(answer: Answer) -> Iterator[RowDelivery]:
    """All rows, or all of a batch, came in another batch."""
    moved = _pairs_of_batches(answer)
    if len(moved) != answer.missing.total() or len(moved) != answer.extra.total() or len(moved) < FEWEST:
        return
    by = {came - due for _, due, came in moved}
    if len(by) == 1 and len(moved) == answer.due.total():
        far = by.pop()
        text = f"all {len(moved):,} rows name a batch that is {abs(far)} {'after' if far > 0 else 'before'} their own"
        yield RowDelivery("moved: all rows", text, len(moved))
        return
    batches = {(due, came) for _, due, came in moved}
    of_batch = Counter(batch for (_, batch), many in answer.due.items() for _ in range(many))
    if len(batches) == 1:
        [(due, came)] = batches
        if of_batch[due] == len(moved):
            text = f"all {len(moved):,} rows of batch {due} came in batch {came}"
            yield RowDelivery("moved: batch", text, len(moved))


def _pairs_of_batches(answer: Answer) -> list[tuple[int, int, int]]:
    """Each row that came in another batch than it is due in: identity, due, came."""
    due: defaultdict[int, list[int]] = defaultdict(list)
    came: defaultdict[int, list[int]] = defaultdict(list)
    for found, rows in ((due, answer.missing), (came, answer.extra)):
        for (identity, batch), many in rows.items():
            found[identity] += [batch] * many
    return [
        (identity, *pair)
        for identity in due
        for pair in zip(sorted(due[identity]), sorted(came[identity]), strict=False)
    ]


# Groups


def _groups(asker: Asker, answer: Answer, wrong: Mapping[Came, int]) -> Iterator[_Group]:
    """The groups whose rows are exactly these; ranges only if nothing else is, and of some rows."""
    found = list(_by_value(asker, answer, wrong))
    if found:
        yield from found
    elif len(wrong) >= FEWEST:
        ends = [*_by_range(answer, wrong)]
        yield from ends or _end_of_partition(asker, answer, wrong)


def _by_value(asker: Asker, answer: Answer, wrong: Mapping[Came, int]) -> Iterator[_Group]:
    history, tasks = answer.history, tasks_of(asker, answer)
    executors = {one.batch: one.executors for one in asker.evidence.executor_assignments()}

    def executor(row: Came) -> str | None:
        task = tasks(row)
        return None if task is None else executors.get(row[1], {}).get(task)

    single: list[tuple[str, Callable[[Came], object], Callable[[object], str]]] = [
        ("task", lambda row: None if tasks(row) is None else (row[1], tasks(row)), _task),
        ("batch", lambda row: row[1], lambda batch: f"of batch {batch}"),
        (
            "executor of a batch",
            lambda row: None if executor(row) is None else (row[1], executor(row)),
            _executor,
        ),
        ("executor", executor, lambda name: f"whose task ran on executor {name}"),
        ("partition", tasks, lambda task: f"written by task {task} of any batch"),
    ]
    for side, topic in enumerate((history.contract.left.topic, history.contract.right.topic)):
        single.append(
            (
                f"partition of {topic}",
                lambda row, side=side: _input_partition(history, row, side),  # type: ignore[misc]
                lambda number, topic=topic: f"of partition {number} of {topic}",  # type: ignore[misc]
            )
        )
    single.append(
        (
            "key", lambda row: history.rows.key[made_of(row[0])[0]],
            lambda _: f"of the key {_shown_key(history, next(iter(wrong)))}",
        )
    )  # fmt: skip
    for name, value_of, said in single:
        values = {value_of(row) for row in wrong}
        value = values.pop() if len(values) == 1 else None
        if value is None or any(row not in wrong and value_of(row) == value for row in answer.due):
            continue
        if name == "key" and len(wrong) < FEWEST:
            continue  # a key of a row or two is those rows
        yield _Group(name, said(value))
        if name in ("task", "batch"):
            return  # what else is true of all rows of a task, or a batch, follows


def _task(value: object) -> str:
    batch, task = cast("tuple[int, str]", value)
    return f"written by task {task} of batch {batch}"


def _executor(value: object) -> str:
    batch, name = cast("tuple[int, str]", value)
    return f"of batch {batch} whose task ran on executor {name}"


def _shown_key(history: History, row: Came) -> str:
    return ", ".join("NULL" if part is None else repr(part) for part in history.key_of(made_of(row[0])[0]))


def _input_partition(history: History, row: Came, side: int) -> int | None:
    for one in made_of(row[0]):
        if history.rows.side[one] == side:
            return history.position(one)[0]
    return None


def _by_range(answer: Answer, wrong: Mapping[Came, int]) -> Iterator[_Group]:
    """Batches in a row, from one on or up to one; event times in a row."""
    batches = sorted({batch for _, batch in answer.due})
    of_wrong = sorted({batch for _, batch in wrong})
    first, last = of_wrong[0], of_wrong[-1]
    if all(row in wrong for row in answer.due if first <= row[1] <= last) and len(of_wrong) > 1:
        yield _Group("batches", f"of batches {first} to {last}", is_fitted=True)
        return
    if (
        last == batches[-1]
        and all(row in wrong for row in answer.due if row[1] > first)
        and len(of_wrong) > 1
    ):
        yield _Group("the end", f"after some of batch {first}: the end of the output", is_fitted=True)
        return
    history = answer.history
    for side, of in ((LEFT, history.contract.left), (1 - LEFT, history.contract.right)):
        known = {row: _time(history, row, side) for row in answer.due}
        times = [at for row in wrong if (at := known.get(row)) is not None]
        if len(times) < len(wrong):
            continue
        low, high = min(times), max(times)
        inside = [row for row, at in known.items() if at is not None and low <= at <= high]
        if len(inside) == len(wrong):
            said = f"with {of.topic}.{of.time} from {write_time(low)} to {write_time(high)}"
            yield _Group("time range", said, is_fitted=True)
            return


def _end_of_partition(asker: Asker, answer: Answer, wrong: Mapping[Came, int]) -> Iterator[_Group]:
    """All that one partition of the output topic has from some row on, which is at the end of a batch's rows or not."""
    place_of = places_of(asker, answer)
    found = {place_of(row) for row in wrong}
    place = found.pop() if len(found) == 1 else None
    if place is None:
        return
    first = min(batch for _, batch in wrong)
    if all(row in wrong for row in answer.due if row[1] > first and place_of(row) == place):
        said = f"of partition {place} of the output after some of batch {first}: the end of that partition"
        yield _Group("the end", said, is_fitted=True)


def _time(history: History, row: Came, side: int) -> int | None:
    for one in made_of(row[0]):
        if history.rows.side[one] == side:
            time_us = history.rows.event_us[one]
            return None if time_us == NULL_TIME_US else time_us
    return None


# Where rows are written


def tasks_of(asker: Asker, answer: Answer) -> Callable[[Came], str | None]:
    """Which partition of the query wrote a row, or would have written it; ``None``: that is not known.

    A sink that shuffles by the key of its records puts them where Spark's hash says.
    """
    observed = asker.observed(answer.setting.reading)
    known = {row: set(tasks) for row, tasks in observed.tasks.items()}
    computed = _computed(
        answer.history, observed.keys, known, lambda key, many: str(partition_of(key, many)),
        max((int(task) for tasks in known.values() for task in tasks if task.isdecimal()), default=0),
    )  # fmt: skip
    return lambda row: _only(known[row]) if row in known else computed(row)


def places_of(asker: Asker, answer: Answer) -> Callable[[Came], int | None]:
    """Which partition of the output topic a row is in, or would be in; ``None``: that is not known.

    librdkafka's default puts a key where its CRC-32 says, the Java producer where its murmur2 hash says.
    """
    observed = asker.observed(answer.setting.reading)
    last = max((place for places in observed.places.values() for place in places), default=0)
    computed = [
        _computed(answer.history, observed.keys, observed.places, of, last)
        for of in (_crc_place, _murmur_place)
    ]

    def place(row: Came) -> int | None:
        if row in observed.places:
            return _only(observed.places[row])
        return next((found for of in computed if (found := of(row)) is not None), None)

    return place


def _crc_place(key: str | None, partitions: int) -> int:
    return NOWHERE if key is None else crc32(key.encode()) % partitions


def _murmur_place(key: str | None, partitions: int) -> int:
    return NOWHERE if key is None else (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _only(values: set[T]) -> T | None:
    return next(iter(values)) if len(values) == 1 else None


def _computed(
    history: History,
    keys: Mapping[Came, str | None],
    known: Mapping[Came, AbstractSet[T]],
    of: Callable[[str | None, int], T],
    last: int,
) -> Callable[[Came], T | None]:
    """Where a row without a record would be.

    That is taken only if all rows that came are where ``of`` says of their key, and the key of all of them is one and
    the same id of the row. ``last`` is the highest number that was seen.
    """
    ids: list[Callable[[int], str | None]] = [
        lambda identity: history.rows.id[identity >> ROW_BITS],
        lambda identity: history.rows.id[(identity & ROW_MASK) - 1] if identity & ROW_MASK else None,
    ]
    id_of = next((one for one in ids if keys and all(one(row[0]) == key for row, key in keys.items())), None)
    counts = range(last + 1, last + 9)
    fitting = [n for n in counts if all(known[row] == {of(key, n)} for row, key in keys.items())]
    many = max(fitting, default=0)  # where all rows of the others are missing, fewer fit as well

    def where(row: Came) -> T | None:
        return None if id_of is None or not many else of(id_of(row[0]), many)

    return where
