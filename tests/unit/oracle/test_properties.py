"""Each property of a finding is explained where it is defined, in a form that a page can be made from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.oracle import findings
from tidemark.oracle.findings import PROPERTIES

LABELS = ("Example", "Usual causes", "Next")


def entries() -> dict[str, str]:
    """Property -> its entry in the docstring."""
    parts = re.split(r"^``(\w+)``\n", findings.__doc__ or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_property_has_an_entry_in_the_order_of_reading() -> None:
    assert tuple(entries()) == PROPERTIES


@pytest.mark.parametrize("name", PROPERTIES)
def test_an_entry_has_meaning_example_causes_and_next_command(name: str) -> None:
    lines = [line for line in entries()[name].rstrip().split("\n") if line]
    assert all(line.startswith("    ") for line in lines)
    text = "\n".join(line.strip() for line in lines)
    assert re.match(r"[A-Z][^:]+", text), "an entry starts with the meaning"
    assert tuple(re.findall(r"^(Example|Usual causes|Next|[A-Z]\w+): ", text, flags=re.MULTILINE)) == LABELS
    assert "``tidemark " in text.rpartition("Next: ")[2]


def test_no_property_of_the_judge_is_missing() -> None:
    """What the package calls a property in any finding that it makes."""
    made = set()
    for path in sorted(Path(findings.__file__).parent.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        made |= set(
            re.findall(r"""(?:property=|_add\(\s*|\.add\(\s*|count\(\s*)"([a-z]+_[a-z_]+)\"""", source)
        )
    assert made <= set(PROPERTIES)
    assert len(made) >= 10
