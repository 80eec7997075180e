"""The columns of a query's output where its records are JSON: what ``to_json(struct(...))`` is made of.

Free of I/O. A plan of Spark 4 prints ``invoke(StructsToJsonEvaluator(...).evaluate(struct(a, a#1, b, b#2)))``, an older
one ``to_json(struct(a, a#1, b, b#2), Some(UTC))``.
"""

from __future__ import annotations

import re

from tidemark.preflight.plan_expressions import bare, call, split

_EVALUATED = re.compile(r"invoke\(StructsToJsonEvaluator\(.*?\)\.evaluate\((.*)\)\)", re.DOTALL)


def json_columns(text: str) -> dict[str, str]:
    """The fields of a JSON object that an expression writes: name -> expression; empty if it writes none."""
    text = bare(text)
    cast = call(text, "cast")
    if cast is not None:
        text = cast.rpartition(" as ")[0]
    found = _EVALUATED.fullmatch(text)
    written = found[1] if found is not None else split(call(text, "to_json") or "", ", ")[0]
    parts = split(call(written, "struct") or call(written, "named_struct") or "", ", ")
    return dict(zip(parts[::2], parts[1::2], strict=True)) if len(parts) % 2 == 0 else {}
