"""What changed between two files of facts: names that were only renamed, and what judgements say.

A name (of a count, goal, property or defect) was renamed if an old one is gone, a new one has come, and both stand for
the same values in every directory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from tests.golden.judging import Expectations

Renamed = dict[str, dict[str, str]]
"""Kind of name -> old name -> new name."""

KINDS = ("counts", "goals", "totals", "known_defects")


def renamed(old: Expectations, new: Expectations) -> Renamed:
    """The names that differ and nothing else, in the directories that both have."""
    both = [name for name in old if name in new]
    found: Renamed = {}
    for kind in KINDS:
        before, after = _meanings(old, both, kind), _meanings(new, both, kind)
        free = [name for name in after if name not in before]
        pairs = found.setdefault(kind, {})
        for name in (name for name in before if name not in after):
            same = next((other for other in free if after[other] == before[name]), None)
            if same is not None:
                pairs[name] = same
                free.remove(same)
    return found


def _meanings(facts: Expectations, cases: list[str], kind: str) -> dict[str, list[Hashable]]:
    """Name -> what it stands for in each directory, in which names stand at the same place of a case's list."""
    meanings: defaultdict[str, list[Hashable]] = defaultdict(list)
    for case in cases:
        for name, value in _named(facts[case], kind):
            meanings[name].append((case, value))
    return dict(meanings)


def _named(case: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Hashable]]:
    if kind == "known_defects":
        for defect in case.get(kind, ()):
            yield defect, tuple(n for n, one in enumerate(case["findings"]) if one["defect"] == defect)
    else:
        yield from case.get(kind, {}).items()


def with_new_names(facts: Expectations, names: Renamed) -> Expectations:
    """The old facts, by the new names."""
    return {name: _case(case, names) for name, case in facts.items()}


def _case(case: dict[str, Any], names: Renamed) -> dict[str, Any]:
    if "verdict" not in case:
        return case
    counts, goals, properties, defects = (names[kind] for kind in KINDS)
    return case | {
        "counts": _keys(case["counts"], counts),
        "goals": _keys(case["goals"], goals),
        "goals_asked": [goals.get(goal, goal) for goal in case["goals_asked"]],
        "totals": _keys(case["totals"], properties),
        "known_defects": sorted(defects.get(defect, defect) for defect in case["known_defects"]),
        "findings": [
            one
            | {
                "property": properties.get(one["property"], one["property"]),
                "defect": defects.get(one["defect"], one["defect"]),
            }
            for one in case["findings"]
        ],
    }


def _keys(values: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What differs between the facts of one directory, a line each."""
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from (f"{key}.{line}" for line in changed(before, after))
        elif isinstance(before, list) and isinstance(after, list):
            yield from (f"{key}: gone {item}" for item in before if item not in after)
            yield from (f"{key}: new {item}" for item in after if item not in before)
            if all(item in after for item in before) and all(item in before for item in after):
                yield f"{key}: in another order, or another number of times"
        else:
            yield f"{key}: {before} became {after}"
