"""A contract with the names that a plan has for what it names: paths, without the quotes of a contract.

Free of I/O.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.formats.contract import Contract, Filter, Side
from tidemark.formats.record_fields import Field, Path, text_of_path


def named_by_paths(contract: Contract) -> Contract:
    """The contract whose names are paths into the record."""
    if contract.left.is_plain and contract.right.is_plain:
        return contract
    values = contract.values
    names = [
        {name: name_in_plan(field.path) for name, field in of_side.items()}
        | {side.time: name_in_plan(side.time_field.path)}
        for of_side, side in zip(values, (contract.left, contract.right), strict=True)
    ]
    left, right = (
        _side(side, of_side, of_names)
        for side, of_side, of_names in zip((contract.left, contract.right), values, names, strict=True)
    )
    condition, where = (
        tuple(
            replace(
                term,
                left=None if term.left is None else names[0][term.left],
                right=None if term.right is None else names[1][term.right],
            )
            for term in terms
        )
        for terms in (contract.condition, contract.where)
    )
    return replace(contract, left=left, right=right, condition=condition, where=where)


def _side(side: Side, values: dict[str, Field], names: dict[str, str]) -> Side:
    fields = [*values.values(), side.time_field]
    return replace(
        side,
        id=names[side.id],
        keys=tuple(names[key] for key in side.keys),
        time=names[side.time],
        filters=tuple(Filter(names[one.field], one.op, one.value) for one in side.filters),
        fields=tuple(
            replace(field, name=name_in_plan(field.path), column=text_of_path(field.path)) for field in fields
        ),
    )


def name_in_plan(path: Path) -> str:
    """A path as the columns of a plan have it: ``meta.id``, ``items[0].sku``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
