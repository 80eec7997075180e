"""``report.html``: one file that shows a verdict and its run, and opens without a network, with scripts or without.

Free of judgement. The static part is what ``verdict_page`` says, in HTML; the picture of the run is drawn by the script
of the folder ``view``, where it was built (``make view``), from the data of ``run_view``. Text of the evidence is
escaped by the template; what the script reads is compressed (zlib, base64) in a ``<template>``, and never stands in a
``<script>``. The page lets no script run but this one (its digest is in the page's policy), and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

import tidemark
from tidemark.atomic_files import write_atomically
from tidemark.errors import UsageError
from tidemark.formats.events import write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import Verdict
from tidemark.oracle.audit_account import AuditAccount
from tidemark.reports import watermark_waits
from tidemark.reports.row_life import FollowedFinding, RowLives
from tidemark.reports.run_view import BatchView, RunView, thinned, without_details
from tidemark.reports.verdict_page import verdict_page
from tidemark.reports.viewed_run import run_view

NAME = "report.html"
LARGEST_DATA_BYTES = 18_000_000
"""A page whose data would be larger leaves out what is least asked for, and says so: no page is larger than 20 MB."""
SHOWN_BATCHES = 200
"""So many batches are in the static table."""
PAGE = Path(__file__).parent / "page"
BUNDLE = PAGE / "bundle"
"""What ``make view`` makes: the script of the picture, and the licences of what is in it."""
_CODE = re.compile(r"``([^`]+)``|`([^`\n]+)`")


def write_report(run: RunDirectory, verdict: Verdict, to: Path | None = None) -> Path:
    """Write the page of a run that was judged, by default as ``report.html`` beside the evidence; gives its path.

    Raises ``BrokenEvidence`` if the evidence cannot be read, and ``UsageError`` if the file cannot be written.
    """
    path = run.path / NAME if to is None else to
    return write_file(path, html_page(run, verdict), "report")


def write_file(path: Path, data: bytes, what: str, option: str = "--to") -> Path:
    """Write a file that a user may have named; gives its path. Raises ``UsageError`` if it cannot be written."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise UsageError(
            f"the {what} {str(path)!r} cannot be written",
            detail=str(error),
            hint=f"name another file, in a folder that is there: {option} FILE",
        ) from error
    return path


def report_beside(run: RunDirectory, verdict: Verdict) -> None:
    """Write the page beside ``verdict.json``; one that cannot be made is not there, and hides no verdict."""
    try:
        write_report(run, verdict)
    except Exception:  # noqa: BLE001 (the verdict is what was asked for; `tidemark report` says what is wrong)
        with suppress(OSError):
            (run.path / NAME).unlink(missing_ok=True)


def html_page(run: RunDirectory, verdict: Verdict, largest: int = LARGEST_DATA_BYTES) -> bytes:
    """The page in UTF-8; beyond ``largest`` bytes its data leaves out details of batches, and then batches."""
    view, data = _limited(run_view(run, verdict), largest)
    manifest = run.manifest
    waits = [] if isinstance(verdict.audit, AuditAccount) else list(watermark_waits(run.path))
    return rendered(
        NAME,
        _script(),
        page=verdict_page(verdict, manifest, run.faults(), waits),
        life_of=_lives_by_finding(verdict, view.lives).get,
        identity=id,
        view=view,
        batches=_listed(view.batches),
        has_nulls=any(batch.nulls for batch in view.batches),
        left_out=max(0, len(view.batches) - SHOWN_BATCHES),
        data=data,
        licences=_licences(),
    )


def rendered(name: str, script: str, **values: Any) -> bytes:
    """A page in UTF-8, of the template of this name and the one script that may run in it."""
    text = _template(name).render(
        values,
        style=Markup((PAGE / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=tidemark.__version__,
    )
    return text.encode("utf-8", "backslashreplace")


def _lives_by_finding(verdict: Verdict, lives: RowLives) -> dict[int, FollowedFinding]:
    """What was followed of each finding, by the identity of the object."""
    return {id(verdict.findings[one.finding]): one for one in lives.findings}


def _listed(batches: Sequence[BatchView]) -> list[BatchView]:
    """The batches of the static table: those that something sets apart, then the first ones, in their order."""
    ordered = sorted(batches, key=lambda batch: not _marks(batch))[:SHOWN_BATCHES]
    return sorted(ordered, key=lambda batch: batch.batch)


def _limited(view: RunView, largest: int) -> tuple[RunView, str]:
    """A view with what its data may hold, and that data."""
    data = _packed(view)
    if len(data) <= largest:
        return view, data
    whole = without_details(view)
    less, data, most = whole, _packed(whole), len(whole.batches)
    while len(data) > largest and most > 1:
        most = most * largest // (2 * len(data))
        less = thinned(whole, most)
        data = _packed(less)
    return less, data


def _packed(view: RunView) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(view), 9)).decode()


def _script() -> str:
    """The script of the picture; empty where it was not built."""
    path = BUNDLE / "view.js"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return "" if "</script" in text.lower() or "<!--" in text else text


def _licences() -> str:
    path = BUNDLE / "licences.txt"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@cache
def _template(name: str) -> jinja2.Template:
    """A template of the folder ``page``, in which every value is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "code": _with_code,
        "moment": _moment,
        "number": _number,
        "marks": _marks,
    }
    environment.filters.update(filters)
    return environment.get_template(name)


def _with_code(text: str) -> Markup:
    """Text in which what stands between backticks is code; all of it is escaped."""
    parts = _CODE.split(text)
    shown = Markup()
    for plain, double, single in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        code = double or single
        shown += escape(plain) + (Markup("<code>{}</code>").format(code) if code else Markup())
    return shown


def _moment(time_ms: int | None) -> str:
    """A time of the evidence, in UTC; nothing for none."""
    return write_time(time_ms * 1000) if time_ms else ""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _marks(batch: BatchView) -> str:
    """What sets a batch apart, in words."""
    marks = [f"{number:,} × {name}" for name, number in batch.findings.items()]
    if batch.runs > 1:
        marks.append(f"ran {batch.runs} times")
    elif batch.restarted:
        marks.append("after a restart")
    if batch.failed_tasks:
        marks.append(f"{batch.failed_tasks:,} failed tasks")
    if not batch.committed:
        marks.append("not committed")
    return ", ".join(marks)
