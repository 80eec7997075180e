"""Recorded plans, and the contract that most of them were written for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.preflight import QueryPlan, read_plan

RECORDED = Path(__file__).parent / "recorded"
RANGE = Bound(lower_ms=-20_000, upper_ms=0)


def text(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def plan(name: str) -> QueryPlan:
    return read_plan(text(name))


def contract(kind: str = "inner", **changes: Any) -> Contract:
    """Changes of a side are given as ``left`` or ``right``: a dictionary."""
    given = Contract(
        name=kind,
        kind=JoinKind(kind),
        left=Side("impressions", "impression_id", ("user_id", "ad_id"), "impression_time", 10_000),
        right=Side("clicks", "click_id", ("user_id", "ad_id"), "click_time", 20_000),
        bound=RANGE,
        output=Output("impression_id", None if kind == "left_semi" else "click_id"),
    )
    for side in ("left", "right"):
        if side in changes:
            changes[side] = replace(getattr(given, side), **changes[side])
    return replace(given, **changes)
