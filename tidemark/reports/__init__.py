"""A verdict for people: a table of what happened, the findings, the verdict, and how to see it again.

Free of work: prints what the judge said. Plain text where the output is no terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tidemark.errors import BrokenEvidence
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import Fault, overlaps
from tidemark.formats.manifest import Manifest
from tidemark.formats.run_notes import CHECKPOINT, GAPS, MADE_SMALLER, NOT_COMPARED, split_slice
from tidemark.oracle import Verdict
from tidemark.oracle.audit_account import AuditAccount
from tidemark.oracle.causes.cause_lines import first_read
from tidemark.oracle.model.sample import Sampled
from tidemark.reports.audit_lines import audit_lines, audited_batches, notes, repeats
from tidemark.reports.liveness_lines import (
    availability_line,
    demanded,
    hang_note,
    measured_line,
    recovery_lines,
)
from tidemark.reports.state_lines import state_lines
from tidemark.reports.timeline import waits

SHOWN = 5
"""Findings shown of each property; the rest is in ``verdict.json``."""

REDACTED = "ids and keys are salted hashes, other values are left out"
"""What is said of evidence that was redacted."""

COLOURS = {"VALID": "bold green", "INVALID": "bold red", "UNKNOWN": "bold yellow"}


def print_verdict(
    verdict: Verdict, run_dir: Path, faults: Sequence[Fault], *, trace_sha256: str = "", command: str = ""
) -> None:
    """Print a verdict to standard output.

    The first line of an ``INVALID`` one is its cause, the last the command that reproduces the run, where it is known.
    """
    console = Console(soft_wrap=True, highlight=False)
    for line in _causes(verdict):
        console.print(line)
    for number, sentence in enumerate(verdict.diagnosed):
        console.print(f"{'' if number else 'diagnosis':<15}{sentence}", markup=False)
    for name, value in summary_lines(verdict, faults):
        console.print(Text(f"{name:<15}").append(value, style="bold"))
    for name, value in _demands_of(run_dir, verdict):
        console.print(Text(f"{name:<15}").append(value, style="bold"))
    for value in () if isinstance(verdict.audit, AuditAccount) else watermark_waits(run_dir):
        console.print(Text(f"{'watermark':<15}").append(value, style="bold"))
    for line in _findings(verdict):
        console.print(line)
    for note in (*notes(verdict), *_notes_of_the_run(run_dir)):
        console.print(f"  {note}", markup=False)
    for reason in verdict.inconclusive:
        console.print(Text(f"  inconclusive because {reason}", style="yellow"))
    if verdict.modelled is not None:
        console.print(f"{'judged by':<15}{oracles_line(verdict.modelled)}", markup=False)
    if verdict.waived:
        console.print(f"{'not exercised':<15}{', '.join(verdict.waived)} (waived)", markup=False)
    if trace_sha256:
        console.print(f"{'trace':<15}sha256:{trace_sha256}", markup=False)
    if (run_dir / "verdict.json").is_file():  # else it is a copy that is not kept
        console.print(f"{'evidence':<15}{run_dir}", markup=False)
    if (run_dir / "report.html").is_file():
        console.print(f"{'report':<15}{run_dir / 'report.html'}", markup=False)
    if verdict.redacted is True:
        console.print(f"{'redacted':<15}{REDACTED}", markup=False)
    if verdict.sealed is not None:
        seal = (
            "intact" if verdict.sealed else "unsealed: nothing shows that the evidence is as a run wrote it"
        )
        console.print(f"{'seal':<15}{seal}", markup=False)
    title = Text(verdict.verdict, style=COLOURS[verdict.verdict])
    accepted = f"; accepted: {', '.join(verdict.accepted_total)}" if verdict.accepted_total else ""
    console.print(
        title.append(f"  {verdict.pipeline}, judged as {verdict.delivery}{accepted}", style="default")
    )
    if command:
        console.print(f"reproduce: {command}", markup=False)


def summary_lines(verdict: Verdict, faults: Sequence[Fault]) -> Iterable[tuple[str, str]]:
    """The rows of the table, in the order in which a run happens."""
    n = dict.fromkeys(_COUNTED, 0) | verdict.counts
    topics = [
        name.removesuffix("_in") for name in verdict.counts if name.endswith("_in") and name != "rows_in"
    ]
    is_audit = isinstance(verdict.audit, AuditAccount)
    share = 100 * n["late"] / n["rows_in"] if n["rows_in"] else 0.0
    yield from audited_batches(verdict)
    yield "rows in", _list([(n["rows_in"], ""), *((n[f"{topic}_in"], topic) for topic in topics)])
    yield "late", f"{n['late']:,} ({share:.1f} %), dropped by the watermark"
    yield "unreadable", f"{n['unreadable']:,}, filtered out upstream of the watermark"
    yield "without a key", f"{n['null_key']:,}"
    yield "sent twice", f"{n['duplicate_events']:,} by their producer"
    if verdict.kind == "chain":
        yield "rows out", f"{n['joined_rows'] + n['null_rows']:,} of {n['expected_rows']:,} predicted rows"
    elif verdict.kind == "left_semi":
        yield "semi rows", f"{n['semi_rows']:,}"
    else:
        yield "matched", f"{n['joined_rows']:,} joined rows of {n['matched']:,} matched left rows"
    if "null_row_after_eviction" in verdict.goals or (is_audit and "outer" in verdict.kind):
        yield "NULL rows", f"{n['null_rows']:,}"
    totals = verdict.findings_total
    permitted = n["duplicates_permitted"]
    not_permitted = totals.get("duplicate_rows", 0) + totals.get("repeated_semi_rows", 0)
    yield "duplicates", repeats(verdict) if is_audit else f"{permitted:,} permitted, {not_permitted:,} not"
    batches = [(n["data_batches"], "with data"), (n["no_data_batches"], "without")]
    batches += [(n["batches_run_again"], "run again")] if n["batches_run_again"] else []
    yield "batches", _list([(n["batches"], ""), *batches])
    yield from audit_lines(verdict)
    if is_audit:
        done = sum(fault.injected for fault in faults)
        yield from [("faults", _list([(done, ""), *_by_fault(faults)]))] if faults else []
    else:
        done, failed = n["faults_done"], n["failed_tasks"]
        yield "faults", _list([(done, ""), *_by_fault(faults)]) + f"; failed tasks: {failed:,}"
        yield from state_lines(verdict.spark_account)
    if faults:
        yield "recovery", "; ".join(recovery_lines(faults)) or "none seen"
    if together := overlaps(faults):
        yield (
            "at once",
            "; ".join(f"{group[0].together} for {group[0].overlap_s:.1f} s" for group in together),
        )
    if faults and (available := availability_line(n)):
        yield "availability", available


def demand_lines(manifest: Manifest, verdict: Verdict) -> list[tuple[str, str]]:
    """What was demanded in time, and what was measured then; nothing if nothing was."""
    if manifest.demands is None:
        return []
    lines = [("demanded", demanded(manifest.demands)), ("measured", measured_line(verdict.counts))]
    return [(name, value) for name, value in lines if value]


def _demands_of(run_dir: Path, verdict: Verdict) -> list[tuple[str, str]]:
    try:
        return demand_lines(RunDirectory(run_dir).manifest, verdict)
    except (BrokenEvidence, OSError):
        return []


def oracles_line(modelled: Sampled) -> str:
    """Which oracles judged how much, where the model judged a sample."""
    return (
        f"SQL; the model judged a sample of {modelled.rows:,} of {modelled.of_rows:,} rows,"
        f" {modelled.keys:,} of {modelled.of_keys:,} keys (seed {modelled.seed})"
    )


def watermark_waits(run_dir: Path) -> Iterator[str]:
    """For which input the watermark waited after a restart, and in which batches."""
    run = RunDirectory(run_dir)
    try:
        found = waits(run.batches()) if run.file("batches").is_file() else {}
    except BrokenEvidence:
        return  # what is broken the verdict says
    for topics, batches in groupby(found, key=lambda batch: " and ".join(found[batch])):
        numbers = ", ".join(map(str, batches))
        yield f"stood in batch {numbers}: after a restart it waits until there are rows of {topics}"


_COUNTED = (
    "rows_in", "late", "unreadable", "null_key", "duplicate_events", "semi_rows", "joined_rows", "matched",
    "null_rows", "duplicates_permitted", "data_batches", "no_data_batches", "batches", "batches_run_again",
    "faults_done", "failed_tasks", "expected_rows",
)  # fmt: skip
"""Counts that a table shows: 0 where a judgement did not get as far as counting."""


def _by_fault(faults: Sequence[Fault]) -> list[tuple[int, str]]:
    kinds = Counter(
        f"{fault.label} {'at' if fault.injected else 'not injected at'} {_where(fault)}" for fault in faults
    )
    return [(count, what) for what, count in sorted(kinds.items())]


def _where(fault: Fault) -> str:
    """The point, and for a fault that was not injected the batches in which it was tried."""
    tried = "; ".join(f"{one['batch']} for {one['seconds']:.1f} s" for one in fault.proof.get("tried", []))
    return f"{fault.point}{f' (tried in batch {tried})' if tried else ''}"


def _list(numbers: Sequence[tuple[int, str]]) -> str:
    """``12 (10 of this, 2 of that)``."""
    (total, _), *parts = numbers
    inside = ", ".join(f"{number:,} {what}" for number, what in parts)
    return f"{total:,} ({inside})" if inside else f"{total:,}"


def failure_lines(verdict: Verdict, run_dir: Path, command: str = "") -> Iterator[str]:
    """What a test that failed prints: the cause first, then totals, where the evidence is, and the command."""
    first, *others = [*_what_is_wrong(verdict), *verdict.inconclusive] or [""]
    yield f"{verdict.pipeline} is {verdict.verdict}, judged as {verdict.delivery}: {first}"
    yield from (f"  {line}" for line in others)
    yield from (
        f"  {'' if number else 'diagnosis':<11}{line}" for number, line in enumerate(verdict.diagnosed)
    )
    yield from (f"  {note}" for note in _notes_of_the_run(run_dir))
    if verdict.findings_total:
        totals = ", ".join(f"{name} {total:,}" for name, total in verdict.findings_total.items())
        yield f"  findings   {totals}"
    yield f"  evidence   {run_dir}"
    if (run_dir / "report.html").is_file():
        yield f"  report     {run_dir / 'report.html'}"
    if command:
        yield f"  reproduce  {command}"


def _notes_of_the_run(run_dir: Path) -> list[str]:
    """What of the plan was not compared with the contract, for a filter there may be why rows are wrong; and slices of
    the trace that one batch each was meant to read.
    """
    try:
        return notes_of_a_run(RunDirectory(run_dir).manifest)
    except (BrokenEvidence, OSError):
        return []


def notes_of_a_run(manifest: Manifest) -> list[str]:
    """The notes of a manifest that a reader needs, as lines."""
    found = manifest.notes
    split = [number for note in found if (number := split_slice(note)) is not None]
    told = [
        f"note: {note}" for note in found if note.startswith((CHECKPOINT, GAPS, MADE_SMALLER, NOT_COMPARED))
    ]
    if split:
        which = f"slice {split[0]} was" if len(split) == 1 else f"slices {', '.join(map(str, split))} were"
        told.append(
            f"note: {which} split into two batches, so the batches of a replay, and what is late in them, may differ"
        )
    return [*told, *hang_note(manifest)]


def _what_is_wrong(verdict: Verdict) -> list[str]:
    """The causes, that which explains most first; then the known defects of Spark that are not accepted."""
    if verdict.verdict != "INVALID":
        return []
    defects = [name for name in verdict.defects_total if name not in verdict.accepted_total]
    return [
        *(cause.message for cause in first_read(verdict.causes)),
        *(f"{verdict.defects_total[name]:,} findings of the known defect {name}" for name in defects),
    ]


def _causes(verdict: Verdict) -> Iterable[Text]:
    for number, message in enumerate(_what_is_wrong(verdict)):
        title = Text(f"{'' if number else verdict.verdict:<15}", style=COLOURS[verdict.verdict])
        yield title.append(message, style="default" if number else "bold")


def _findings(verdict: Verdict) -> Iterable[Text]:
    for name, total in verdict.findings_total.items():
        yield Text(f"{name}: {total:,}", style="bold red")
        examples = [finding for finding in verdict.findings if finding.property == name]
        for finding in examples[:SHOWN]:
            yield Text(f"  {finding.message}")
        if total > min(len(examples), SHOWN):
            yield Text(
                f"  … and {total - min(len(examples), SHOWN):,} more; verdict.json has {len(examples)}"
            )
    for name, text in verdict.known_defects.items():
        count = verdict.accepted_total.get(name, 0)
        accepted, style = (f", accepted ({count:,} findings)", "yellow") if count else ("", "red")
        yield Text(f"known defect {name}{accepted}: {text}", style=style)
