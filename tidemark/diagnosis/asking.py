"""Asks the judge about a setting: what its query would have given, and how that differs from what came.

Free of I/O and of any clock. The model answers, because it is quick (a run of some hundred rows takes it milliseconds);
what explains everything is asked of SQL, too, and compared with Spark's own account of state and metrics
(``confirmed``). Of evidence with more than ``WHOLE`` rows a sample of keys is asked about: those of wrong rows, which
SQL names, and others, drawn with the run's seed.
"""

from __future__ import annotations

import copy
from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from tidemark.diagnosis.observed import Came, Identities, Observed, observe
from tidemark.diagnosis.setting import NullKeys, OutputReading, Setting
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, OutputRecord, StateKey, StateRow
from tidemark.formats.faults import Fault
from tidemark.formats.manifest import Manifest, StateInfo
from tidemark.oracle.compare.spark_account import check_spark_account
from tidemark.oracle.delivery import deaths_alone, most_copies, resent
from tidemark.oracle.demand_check import OF_TIME
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.findings import FindingLog
from tidemark.oracle.input.history import (
    NO_KEY,
    ROW_BITS,
    ROW_MASK,
    Disposition,
    Evidence,
    History,
    Rows,
    read_history,
    under_contract,
)
from tidemark.oracle.model.join_replay import Replay, replay
from tidemark.oracle.model.sample import Sample
from tidemark.oracle.spark.time_ranges import NULL_TIME_US
from tidemark.oracle.sql.join_answer import ask

WHOLE = 20_000
"""Up to so many input rows all are asked about. Calibration: the model takes 5 µs a row."""
SAMPLED = 5_000
"""Of more rows so many are asked about: half of them of keys of wrong rows; more if no key has so few."""
UNCHANGED = ("misordered_rows", *OF_TIME)
"""What is wrong under every contract and delivery: the order in which right rows came, and what is demanded in time."""


class KeptEvidence:
    """Evidence that is read once: a setting is asked about without reading files again."""

    def __init__(self, run: Evidence) -> None:
        self.manifest: Manifest = run.manifest
        self._inputs, self._batches, self._output = (
            list(run.inputs()),
            list(run.batches()),
            list(run.output()),
        )
        self._faults, self._progress = list(run.faults()), list(run.progress())
        state = run.state()
        self._state = None if state is None else list(state)
        keys = run.state_keys()
        self._state_keys = None if keys is None else list(keys)
        self._assignments = list(run.executor_assignments())

    def inputs(self) -> list[InputRecord]:
        """As ``Evidence``."""
        return self._inputs

    def batches(self) -> list[Batch]:
        """As ``Evidence``."""
        return self._batches

    def output(self) -> list[OutputRecord]:
        """As ``Evidence``."""
        return self._output

    def faults(self) -> list[Fault]:
        """As ``Evidence``."""
        return self._faults

    def progress(self) -> list[dict[str, Any]]:
        """As ``Evidence``."""
        return self._progress

    def state(self) -> list[StateRow] | None:
        """As ``Evidence``."""
        return self._state

    def state_keys(self) -> list[StateKey] | None:
        """As ``Evidence``."""
        return self._state_keys

    def executor_assignments(self) -> list[ExecutorAssignment]:
        """As ``Evidence``."""
        return self._assignments

    def under(self, manifest: Manifest) -> KeptEvidence:
        """The same, with another manifest."""
        other = KeptEvidence.__new__(KeptEvidence)
        other.__dict__.update(self.__dict__)
        other.manifest = manifest
        return other


@dataclass
class Answer:
    """What a setting gives, compared with what came.

    ``watermarks_fit``: they are those of the checkpoint. ``missing`` and ``extra`` count rows that are due, or not.
    ``due`` are the rows that committed batches owe, ``strange`` records that are no rows. ``is_blind``: rows are wrong
    under the contract, and none of them is in the sample.
    """

    setting: Setting
    history: History
    replayed: Replay
    watermarks_fit: bool
    due: Counter[Came] = field(default_factory=Counter)
    missing: Counter[Came] = field(default_factory=Counter)
    extra: Counter[Came] = field(default_factory=Counter)
    strange: Counter[str] = field(default_factory=Counter)
    is_blind: bool = False

    @property
    def wrong(self) -> int:
        """How many rows differ."""
        return self.missing.total() + self.extra.total() + self.strange.total()

    @property
    def explains(self) -> bool:
        """Whether nothing differs, in a sample that can show it."""
        return self.watermarks_fit and not self.wrong and not self.is_blind


class Asker:
    """Asks about one run of one join."""

    def __init__(self, run: Evidence) -> None:
        self.evidence = KeptEvidence(run)
        self.manifest = self.evidence.manifest
        self.contract = Contract.from_json(self.manifest.contract)
        self.asked = 0
        self.sampled: tuple[int, int] | None = None
        self._wrong_rows: np.ndarray | None = None
        self._bases: dict[object, History] = {}
        self._observed: dict[OutputReading | None, Observed] = {}
        self._answers: dict[Setting, Answer | None] = {}
        faults = self.evidence.faults()
        self._copies = resent(self.manifest, faults, self.evidence.output())
        self.base = self._base(self.contract)
        plans = [batch.plan for batch in self.base.batches]
        self._planned_ms = [plan.watermark_ms for plan in plans]
        self._owing = [plan.committed for plan in plans]
        deaths = deaths_alone(faults)
        self._most = [most_copies(self.manifest, plan, deaths) for plan in plans]
        self.promised = self._first()

    def _first(self) -> Answer:
        """What the contract itself gives, of a large run for a sample of keys."""
        setting = Setting(self.contract)
        if len(self.base.rows) > WHOLE:
            self._wrong_rows = self._rows_that_differ(setting)
        return self._answer(setting)

    def _rows_that_differ(self, setting: Setting) -> np.ndarray:
        """The input rows of all output rows that differ, by SQL: the model takes long where keys have many rows."""
        history = self.history(setting)
        said = prediction_of(history, ask(history))
        given = Replay(
            Sample(np.ones(len(history.rows), dtype=bool)),
            np.frombuffer(said.disposition, dtype=np.uint8),
            np.frombuffer(said.stored, dtype=np.int32),
            np.frombuffer(said.removed, dtype=np.int32),
            said.watermarks_ms,
            said.batch_of,
        )
        answer = Answer(setting, history, given, watermarks_fit=True)
        self._compare(answer, self.observed(setting.reading))
        rows = {one for identity, _ in (*answer.missing, *answer.extra) for one in made_of(identity)}
        return np.array(sorted(rows), dtype=np.int64)

    def observed(self, reading: OutputReading | None = None) -> Observed:
        """What came out."""
        if reading not in self._observed:
            self._observed[reading] = observe(self.base, self.evidence.output(), self._copies, reading)
        return self._observed[reading]

    def ask(self, setting: Setting) -> Answer | None:
        """What a setting gives; ``None``: no contract can say it."""
        if setting not in self._answers:
            self.asked += 1
            try:
                self._answers[setting] = self._answer(setting)
            except TidemarkError:
                self._answers[setting] = None
        return self._answers[setting]

    def history(self, setting: Setting) -> History:
        """The rows of the run as a setting has them."""
        history = self._base(setting.contract)
        history = replace(history, rows=_edited(history, setting), manifest=self._manifest(setting))
        return replace(
            under_contract(history, setting.contract) if history.read_as is None else history,
            manifest=self._manifest(setting),
        )

    def confirmed(self, answer: Answer, wrong: Collection[str] = ()) -> list[str]:
        """What else is wrong under a setting that explains the output: properties of state and metrics; whether SQL
        gives other rows; and of the properties ``wrong`` of the verdict those that the setting does not change.
        """
        history, finding_log = answer.history, FindingLog()
        said = ask(history)
        prediction = prediction_of(history, said)
        found = []
        if self.sampled is None:
            ours, theirs = answer.replayed.batch_of, prediction.batch_of
            if not history.optional and (
                ours != theirs or said.watermarks_ms != answer.replayed.watermarks_ms
            ):
                found.append("oracles_disagree")
        check_spark_account(history, prediction, self.evidence, self.evidence.progress(), finding_log)
        unchanged = self._unchanged(answer.setting, wrong)
        return list(dict.fromkeys([*found, *finding_log.totals(), *unchanged]))

    def _unchanged(self, setting: Setting, wrong: Collection[str]) -> Iterator[str]:
        """The findings that are none of rows, state and metrics, and are there under this setting, too.

        Another query has another plan; other rules of Spark, or another reading of the output, have not. Where columns
        of the output are read otherwise, a row may be of another record than of one that the judge cannot read.
        """
        of_run = replace(setting, spark=None, state_format=None, reading=None)
        is_this_query = of_run == Setting(self.contract)
        for name in wrong:
            if (
                name in UNCHANGED
                or (name == "plan_differs" and is_this_query)
                or (name == "decoded_differently" and setting.reading is None)
            ):
                yield name

    def _manifest(self, setting: Setting) -> Manifest:
        """The manifest of a run of a setting."""
        state = self.manifest.state
        if setting.state_format is not None:
            state = msgspec.structs.replace(state or StateInfo(), format=setting.state_format)
        versions = dict(self.manifest.versions)
        if setting.spark is not None:
            versions["spark"] = setting.spark
        return msgspec.structs.replace(
            self.manifest,
            contract=setting.contract.to_json(),
            state=state,
            versions=versions,
            plan_differs=[],
        )

    def _base(self, contract: Contract) -> History:
        """The rows as a contract reads them: read anew only where it reads other fields."""
        reads = [
            replace(side, watermark_delay_ms=None, filters=()) for side in (contract.left, contract.right)
        ]
        key: tuple[object, ...] = (*reads, contract.bound.window_ms, contract.compared)
        if any(side.fields for side in reads) or any(contract.compared):
            key = (*key, contract)
        if key not in self._bases:
            manifest = msgspec.structs.replace(self.manifest, contract=contract.to_json())
            self._bases[key] = read_history(self.evidence.under(manifest))
        return self._bases[key]

    def _answer(self, setting: Setting) -> Answer:
        history = self.history(setting)
        sample = self._sample(history)
        replayed = replay(history, sample)
        planned = self._planned_ms
        answer = Answer(setting, history, replayed, replayed.watermarks_ms[: len(planned)] == planned)
        wrong = self._wrong_rows
        answer.is_blind = wrong is not None and len(wrong) > 0 and not sample.rows[wrong].any()
        self._compare(answer, self.observed(setting.reading))
        return answer

    def _sample(self, history: History) -> Sample:
        """All rows, or those of some keys."""
        count = len(history.rows)
        if self._wrong_rows is None:
            return Sample(np.ones(count, dtype=bool))
        keys, of_row, sizes = np.unique(
            np.frombuffer(history.rows.key, dtype=np.int64), return_inverse=True, return_counts=True
        )
        order = np.random.default_rng(abs(self.manifest.seed or 0)).permutation(len(keys))
        is_wrong = np.zeros(len(keys), dtype=bool)
        is_wrong[of_row[self._wrong_rows]] = True
        chosen = np.zeros(len(keys), dtype=bool)
        for drawn in (order[is_wrong[order]], order[~is_wrong[order]]):
            chosen[_few(drawn, sizes)] = True
        self.sampled = int(chosen.sum()), len(keys)
        return Sample(chosen[of_row])

    def _compare(self, answer: Answer, observed: Observed) -> None:
        history, setting = answer.history, answer.setting
        predicted = self._predicted(answer)
        if setting.first_of_output:
            predicted = _first_of_ids(predicted, observed.rows, history)
        in_sample = answer.replayed.sample.rows
        everything = bool(in_sample.all())
        for row in predicted.keys() | observed.rows.keys():
            (identity, batch), due, came = row, predicted[row], observed.rows[row]
            if not everything and not any(in_sample[one] for one in made_of(identity)):
                continue
            owed = batch < len(self._owing) and self._owing[batch]
            if due and owed:
                answer.due[row] = due
            if came < due and owed:
                answer.missing[row] = due - came
            elif came > due * (self._most[batch] if due else 1):
                answer.extra[row] = came - due
        answer.strange = observed.strange

    def _predicted(self, answer: Answer) -> Counter[Came]:
        """The rows of a setting as the output of the run's own contract would show them."""
        first_sentinel = answer.history.rows.first_sentinel
        has_right = self.contract.output.right_id is not None
        by_ids = not self.contract.output.has_refs or answer.setting.reading is OutputReading.WITHOUT_PLACES
        identities = Identities(answer.history, by_ids=by_ids)
        found: Counter[Came] = Counter()
        for identity, batch in answer.replayed.batch_of.items():
            left, right = identity >> ROW_BITS, identity & ROW_MASK
            if left >= first_sentinel or right > first_sentinel:
                continue
            found[identities.of(identity if has_right else left << ROW_BITS), batch] += 1
        return found


def _few(drawn: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Of keys in the order in which they were drawn the first that fit a half of ``SAMPLED``; if each of them is too
    large, the smallest. ``sizes`` has the rows of every key.
    """
    fitting = drawn[sizes[drawn] <= SAMPLED // 2]
    smallest: np.ndarray = drawn[np.argsort(sizes[drawn], kind="stable")[:1]]
    few: np.ndarray = fitting[np.cumsum(sizes[fitting]) <= SAMPLED // 2]
    return few if len(fitting) else smallest


def made_of(identity: int) -> tuple[int, ...]:
    """The input rows of an output row."""
    right = identity & ROW_MASK
    return (identity >> ROW_BITS, right - 1) if right else (identity >> ROW_BITS,)


def _first_of_ids(predicted: Counter[Came], came: Counter[Came], history: History) -> Counter[Came]:
    """Of each left id the first row: of several of one batch one that came."""
    ids, first = history.rows.id, dict[str | None, Came]()
    for row in sorted(predicted, key=lambda one: (one[1], not came[one], one[0])):
        first.setdefault(ids[row[0] >> ROW_BITS], row)
    return Counter(dict.fromkeys(first.values(), 1))


def _edited(history: History, setting: Setting) -> Rows:
    """The columns of the rows, with what the setting changes in them."""
    rows = _copied(history)
    if setting.null_keys is NullKeys.JOINED:
        rows.key = array("q", [~key if NO_KEY < key < 0 else key for key in rows.key])
    elif setting.null_keys is NullKeys.APART:
        rows.key = array("q", [~row if NO_KEY < key < 0 else key for row, key in enumerate(rows.key)])
    if setting.readings:
        was_same = rows.event_us is rows.time_us
        rows.event_us = array("q", rows.event_us)
        for reading in setting.readings:
            for row in range(len(rows)):
                if rows.side[row] == reading.side and rows.event_us[row] != NULL_TIME_US:
                    rows.event_us[row] = reading.of(rows.event_us[row])
        if was_same:
            rows.time_us = rows.event_us
    for row in _dropped(history, setting):
        rows.disposition[row] = Disposition.UNREADABLE
    return rows


def _copied(history: History) -> Rows:
    """The same columns, and dispositions that can be changed."""
    rows = copy.copy(history.rows)
    rows.disposition = bytearray(rows.disposition)
    return rows


def _dropped(history: History, setting: Setting) -> list[int]:
    """The rows that never reach the join."""
    rows = history.rows
    dropped: list[int] = []
    if setting.first_of_id:
        for side in setting.first_of_id:
            seen: set[str | None] = set()
            for batch in history.batches:
                for row in batch.rows[side]:
                    if rows.disposition[row] == Disposition.UNREADABLE:
                        continue
                    if rows.id[row] in seen:
                        dropped.append(row)
                    seen.add(rows.id[row])
    return dropped
