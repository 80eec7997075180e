"""Which contract, or which delivery, makes the output of a run right: one change first, then two together.

Free of I/O and of any clock: ``is_over`` says whether the time for it is over. Rules of an answer:

* it explains *all* findings: watermarks, every output row, and Spark's state and metrics, by the model and by SQL; what
  no contract or delivery changes (the order of rows, demands in time) is left over, and then nothing is an answer;
* it has the fewest changes; what is not that simple is not looked at once something simpler explains all;
* all that explain equally well are named. Where few rows are wrong, and a number was taken from them, that these rows
  alone are wrong is named, too: anything explains two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from tidemark.diagnosis.asking import UNCHANGED, Answer, Asker
from tidemark.diagnosis.contract_changes import contract_changes, output_changes
from tidemark.diagnosis.deliveries import ALL_ELSE, RowDelivery, deliveries, is_little, single_rows
from tidemark.diagnosis.fitted_changes import fitted_changes
from tidemark.diagnosis.setting import Change
from tidemark.formats.run_diagnosis import Diagnosis, Explanation
from tidemark.oracle.causes.cause_lines import first_read
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.verdict import Verdict

BEGINNINGS = 8
"""So many single changes are the first of two: those that leave least unexplained."""
MOST = 5
"""So many explanations are named; of more there is no telling."""

_OF_SPARK = ("lost_state", "leaked_state", "wrong_flags", "wrong_counts", "wrong_metrics")
_BESIDE_ROWS = {
    "plan_differs": "the plan of the query, which is not that of the contract's join",
    "decoded_differently": "that the query reads records which the judge cannot read",
    "misordered_rows": "the order of rows, some of which came after rows of a later batch",
    **dict.fromkeys(_OF_SPARK, "what Spark says of its state and itself"),
    "oracles_disagree": "that the oracles disagree about it",
    "slow_recoveries": "how long it took to recover",
    "standstills": "that too little was done during a fault",
    "stalled_watermarks": "how long the watermark stood",
    "oversized_states": "how large the state was",
}
"""What is wrong where watermarks and rows are right: it completes "wrong is"."""


def diagnose_join(run: Evidence, verdict: Verdict, is_over: Callable[[], bool]) -> Diagnosis:
    """The diagnosis of a run of one join, whose verdict is known."""
    asker = Asker(run)
    found = _Search(asker, verdict, is_over).run()
    found.asked, found.sampled = asker.asked, asker.sampled
    return found


def of_defects(verdict: Verdict, spark: str | None) -> Diagnosis:
    """Every finding is of a known defect: the output is exactly what this Spark gives. Of a chain, too."""
    names = list(verdict.defects_total)
    said = " and ".join(f"`{name}`" for name in names)
    ran = f"Spark {spark}" if spark else "Spark"
    many = "defects" if len(names) > 1 else "defect"
    message = f"the output is exactly what {ran} gives with its known {many} {said}"
    return Diagnosis(outcome="defects", explanations=[Explanation(changes=names, message=message)])


class _Search:
    """One search: what it found out is kept, and how near it came."""

    def __init__(self, asker: Asker, verdict: Verdict, is_over: Callable[[], bool]) -> None:
        self._asker = asker
        self._verdict = verdict
        self._is_over = is_over
        self._promised = asker.promised
        self._tried: list[tuple[Change, Answer]] = []
        self._nearest: tuple[int, str] | None = None
        self._is_cut_short = False

    def run(self) -> Diagnosis:
        """Look for it."""
        if self._asker.base.gaps:
            return self._unexplained(["batches are missing, and rows of those that follow were not compared"])
        if self._promised.explains:
            return self._rows_are_right()
        found = self._singles() or self._pairs() or self._alone()
        if not found or len(found) > MOST:
            many = [f"{len(found)} pairs of changes would explain it, so none is named"] if found else []
            return self._unexplained(many)
        notes = [_CUT_SHORT] if self._is_cut_short else []
        return Diagnosis(
            outcome="explained" if len(found) == 1 else "several", explanations=found, notes=notes
        )

    def _rows_are_right(self) -> Diagnosis:
        """Watermarks and rows are those of the contract: no change is asked about."""
        wrong = self._verdict.unexplained_total.keys()
        if unseen := [name for name in wrong if name not in _BESIDE_ROWS]:
            return self._unexplained([f"nothing that was asked about shows {', '.join(unseen)}"])
        if "plan_differs" in wrong and wrong <= {"plan_differs", *_OF_SPARK}:
            return Diagnosis(outcome="not asked", notes=[_said_of_right_rows(wrong), _OF_PLAN])
        return self._unexplained([_said_of_right_rows(wrong)])

    def _unexplained(self, notes: Sequence[str]) -> Diagnosis:
        causes = [one.message for one in first_read(self._verdict.causes)][:3]
        nearest = "" if self._nearest is None else self._nearest[1]
        cut = [_CUT_SHORT] if self._is_cut_short else []
        return Diagnosis(outcome="unexplained", common=causes, nearest=nearest, notes=[*notes, *cut])

    # One change

    def _singles(self) -> list[Explanation]:
        promised = self._promised
        found = self._of_rows(deliveries(self._asker, promised))
        changes: list[Change] = []
        self._tried = list(self._answers(promised, self._changes(promised)))
        for change, answer in self._tried:
            if answer.explains and self._is_confirmed([change], answer):
                changes.append(change)
        changes = _simplest(changes)
        found = [*[_explained([change]) for change in changes], *found]
        is_doubtful = any(change.is_fitted for change in changes) or promised.wrong == 1
        if found and is_doubtful and is_little(promised):
            found += self._alone()
        return found

    def _changes(self, answer: Answer) -> list[Change]:
        spark = self._asker.manifest.versions.get("spark", "")
        fixed = contract_changes(answer.setting, self._asker.base, spark)
        came = self._asker.observed(answer.setting.reading).rows.total()
        of_output = output_changes(answer.setting, answer.strange.total(), came) if answer.strange else []
        return [*of_output, *fixed, *fitted_changes(self._asker, answer)]

    def _answers(self, answer: Answer, changes: Sequence[Change]) -> Iterator[tuple[Change, Answer]]:
        """What each change gives, until the time is over."""
        for change in changes:
            if self._is_over():
                self._is_cut_short = True
                return
            said = self._asker.ask(change.apply(answer.setting))
            if said is not None and said is not answer:
                yield change, said

    def _is_confirmed(self, changes: Sequence[Change], answer: Answer) -> bool:
        """Whether state and metrics are explained, too; if not, it is the nearest."""
        left = self._asker.confirmed(answer, self._verdict.unexplained_total)
        if left:
            said = f"nearest: {_gives(changes)} explains output and watermarks, but not {', '.join(left)}"
            self._is_near(len(changes), said)
        return not left

    def _is_near(self, changes: int, said: str) -> None:
        """Keep what explains output and watermarks alone, if nothing with fewer changes does."""
        if self._nearest is None or changes < self._nearest[0]:
            self._nearest = changes, said

    # Two changes

    def _pairs(self) -> list[Explanation]:
        if self._nearest and {*UNCHANGED} & {*self._verdict.unexplained_total}:
            return []  # no pair explains all, and none is nearer
        found: list[tuple[list[Change], list[RowDelivery]]] = []
        seen: set[frozenset[str]] = set()
        for first, answer in self._beginnings():
            if self._is_all_but_the_plan(answer):
                continue
            of_rows = [one for one in deliveries(self._asker, answer) if not one.is_fitted]
            if of_rows and self._is_confirmed([first], answer):
                found += [([first], [one]) for one in of_rows]
            for second, both in self._answers(answer, self._changes(answer)):
                names = frozenset((first.name, second.name))
                if first.of_family == second.of_family or names in seen:
                    continue
                seen.add(names)
                if both.explains and self._is_confirmed([first, second], both):
                    found.append(([first, second], []))
        return [_explained(changes, some) for changes, some in _simplest_pairs(found)]

    def _is_all_but_the_plan(self, answer: Answer) -> bool:
        """Whether only a plan that differs is left: a second change that changes no row would seem to explain it."""
        wrong = self._verdict.unexplained_total
        if "plan_differs" not in wrong or not answer.explains:
            return False
        return self._asker.confirmed(answer, wrong) == ["plan_differs"]

    def _beginnings(self) -> list[tuple[Change, Answer]]:
        """The single changes that leave least unexplained, and less than none does."""
        if self._is_over():
            self._is_cut_short = True
            return []
        least = _left(self._promised)
        better = [(change, answer) for change, answer in self._tried if _left(answer) < least]
        return sorted(better, key=lambda one: _left(one[1]))[:BEGINNINGS]

    # Rows alone

    def _alone(self) -> list[Explanation]:
        delivery = single_rows(self._promised)
        return self._of_rows([] if delivery is None else [delivery])

    # Deliveries

    def _of_rows(self, found: Sequence[RowDelivery]) -> list[Explanation]:
        """Deliveries as explanations, if nothing but output rows is wrong; if what no delivery changes is, too, the
        first of them is the nearest.
        """
        left = self._beside_rows if found else []
        if left and {*left} <= {"plan_differs", *UNCHANGED}:
            said, names = found[0].said.removesuffix(ALL_ELSE), ", ".join(left)
            self._is_near(1, f"nearest: {said}; that explains output and watermarks, but not {names}")
        return [] if left else [_delivered(one) for one in found]

    @cached_property
    def _beside_rows(self) -> list[str]:
        """What is wrong but output rows: of state and metrics if the query did not read and keep what it had to."""
        return self._asker.confirmed(self._promised, self._verdict.unexplained_total)


_OF_PLAN = (
    "no row shows in what the plan differs, so no other contract was asked about: `plan_differs` says it"
)
_CUT_SHORT = "the time for it was over before all was asked; a longer --budget asks about more"


def _said_of_right_rows(wrong: Iterable[str]) -> str:
    """What is wrong but the rows; ``wrong`` are names of ``_BESIDE_ROWS``."""
    *some, last = dict.fromkeys(_BESIDE_ROWS[name] for name in wrong)
    said = f"{', '.join(some)} and {last}" if some else last
    return f"the rows are exactly those that the contract gives, each in its batch; wrong is {said}"


def _left(answer: Answer) -> tuple[bool, int]:
    """How much an answer leaves unexplained."""
    return not answer.watermarks_fit, answer.wrong


def _simplest(changes: Sequence[Change]) -> list[Change]:
    """Of each family the simplest: one without a number from the evidence, if there is one; then the first."""
    best: dict[str, Change] = {}
    for change in changes:
        known = best.get(change.of_family)
        if known is None:
            best[change.of_family] = change
        elif not known.is_fitted and change.is_fitted and change.also:
            best[change.of_family] = _with_also(known, change)
    if len(best) > 1:
        best.pop("places", None)  # where another column explains it, that says more
    return sorted(best.values(), key=lambda one: one.is_fitted)


def _with_also(known: Change, other: Change) -> Change:
    """A change, with what else of its family would give the same."""
    return known if known.also else replace(known, also=other.also)


def _simplest_pairs(
    found: Sequence[tuple[list[Change], list[RowDelivery]]],
) -> list[tuple[list[Change], list[RowDelivery]]]:
    """Of pairs of the same two families the first; those with fewer numbers from the evidence first."""
    best: dict[frozenset[str], tuple[list[Change], list[RowDelivery]]] = {}
    order = sorted(found, key=lambda one: sum(change.is_fitted for change in one[0]))
    for changes, some in order:
        families = frozenset([*(change.of_family for change in changes), *(one.name for one in some)])
        best.setdefault(families, (changes, some))
    fewest = min((sum(change.is_fitted for change in changes) for changes, _ in best.values()), default=0)
    return [one for one in best.values() if sum(change.is_fitted for change in one[0]) == fewest]


def _gives(changes: Sequence[Change]) -> str:
    first, *others = changes
    return " and ".join(
        [first.gives.removesuffix(" gives"), *(one.gives.removesuffix(" gives") for one in others)]
    )


def _explained(changes: Sequence[Change], some: Sequence[RowDelivery] = ()) -> Explanation:
    if len(changes) == 1:
        [change] = changes
        message = f"the output is exactly what {change.gives}: {change.meaning}"
    else:
        meanings = "; and ".join(one.meaning for one in changes)
        message = f"the output is exactly what the contract gives with two changes: {meanings}"
    message += "".join(f"; and {one.said}" for one in some)
    names = [*(one.name for one in changes), *(one.name for one in some)]
    return Explanation(changes=names, message=message, also=[one.also for one in changes if one.also])


def _delivered(delivery: RowDelivery) -> Explanation:
    return Explanation(changes=[delivery.name], message=f"the contract's rows, but {delivery.said}")
