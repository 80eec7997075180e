"""A run directory with a finding, as what is to be made smaller.

Free of Kafka and Spark. The evidence says contract, trace and sentinels, its command the pipeline and the settings of
the session, and the faults.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from tidemark.campaigns.case import Case, RunMode
from tidemark.campaigns.chain_inputs import contract_of
from tidemark.campaigns.shrink.bug_signature import (
    BugSignature,
    chosen_finding,
    leaves_topic_unread,
    must_be_shown_by_runs,
    of_sentinels,
    signature_of,
)
from tidemark.campaigns.shrink.fault_passes import single_faults
from tidemark.campaigns.shrink.near_finding import FEW, guesses, row_of_each
from tidemark.campaigns.shrink.predicted_batches import records_by_batch
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.errors import UsageError
from tidemark.formats.chain import decoders_of, is_chain, read_contract
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory, open_run
from tidemark.formats.manifest import Manifest
from tidemark.formats.project_files import PROJECT
from tidemark.formats.trace import Record, TraceReader
from tidemark.oracle import judge
from tidemark.oracle.findings import Finding
from tidemark.runner.run_options import SINKS
from tidemark.runner.state_reader import BATCHES

OF_STATE = ("lost_state", "leaked_state", "wrong_flags", "wrong_counts")
OWN_PROGRAM = ("--app", "--py-files", "--jars", "--packages", "--functions", "--registry")
"""What a run was given that a warm driver cannot be given."""


@dataclass(frozen=True)
class RedRun:
    """``starts`` are cases of the run, most like it first: one of them has to show the bug, and is then made smaller.

    ``guesses`` are smaller ones of what the finding names, tried before them. ``python`` is the interpreter with the
    PySpark that ran, if it is not the harness's own.
    """

    directory: RunDirectory
    finding: Finding
    signature: BugSignature
    starts: tuple[Shrinkable, ...]
    guesses: tuple[Shrinkable, ...] = ()
    faults: tuple[str, ...] = ()
    python: Path | None = None
    is_unread: bool = False
    """Whether no record of a topic could be read in the run itself: else one is kept in each."""


def read_red_run(path: Path, number: int | None = None) -> RedRun:
    """The run in a directory, and its finding with a number (``chosen_finding``).

    Raises ``UsageError`` for a run without a finding, for one that cannot be run again on a warm driver, and for a
    finding that no smaller run shows.
    """
    directory = open_run(path)
    manifest, words = directory.manifest, shlex.split(directory.manifest.command or "")
    _must_be_possible(directory, manifest, words)
    contract = contract_of(manifest.contract)
    case = _case(directory, manifest, contract, words)
    verdict = judge(directory)
    finding = chosen_finding(verdict, number, of_sentinels(case.records))
    must_be_shown_by_runs(finding)
    case = replace(case, states=BATCHES if finding.property in OF_STATE else 0)
    faults = single_faults(",".join(_values_of(words, "--faults")))
    first = Shrinkable(case, faults, int(next(iter(_values_of(words, "--seed")), 1)))
    as_read = _as_read(directory, first)
    return RedRun(
        directory=directory,
        finding=finding,
        signature=signature_of(finding, contract, case.records),
        starts=tuple(_starts(directory, first, as_read, by_command=bool(words))),
        guesses=_guesses(directory, as_read, finding),
        faults=faults,
        python=next(map(Path, _values_of(words, "--spark")), None),
        is_unread=leaves_topic_unread(verdict),
    )


def red_run_of_case(directory: RunDirectory, case: Case, number: int | None = None) -> RedRun:
    """The run of a case on a warm driver, whose evidence is in a directory, and its finding with a number.

    Raises ``UsageError`` for a run without a finding.
    """
    verdict = judge(directory)
    finding = chosen_finding(verdict, number, of_sentinels(case.records))
    start = replace(case, states=BATCHES if finding.property in OF_STATE else 0, goals=())
    first = Shrinkable(start)
    guesses = _guesses(directory, _as_read(directory, first), finding)
    signature, is_unread = signature_of(finding, case.contract, case.records), leaves_topic_unread(verdict)
    return RedRun(directory, finding, signature, (first,), guesses, is_unread=is_unread)


def _must_be_possible(directory: RunDirectory, manifest: Manifest, words: Sequence[str]) -> None:
    where = str(directory.path)
    if manifest.audit is not None or manifest.redacted is not None:
        what = "redacted" if manifest.redacted is not None else "of a query that tidemark did not start"
        raise UsageError(
            f"the evidence in {where!r} is {what}",
            detail="the query cannot be run again from it",
            hint="make the evidence itself smaller: --offline; or shrink a run of its join by `tidemark run`",
        )
    if is_chain(manifest.contract) and "--faults" in words:
        raise UsageError(
            f"{where!r} is the run of a chain with faults",
            detail="runs of a chain are made smaller on a driver that is up, which is not killed",
            hint="see whether a run without --faults has the finding, too, and make that smaller",
        )
    given = [option for option in OWN_PROGRAM if option in words]
    if decoders_of(read_contract(manifest.contract)):
        given.append("decode")
    if given or (directory.path / PROJECT).is_dir():
        raise UsageError(
            f"the run in {where!r} needs {', '.join(given) or 'modules of a project'}",
            detail="its trials run on a driver that is up, which has the pipeline's file and nothing else",
            hint="put the join into one file, with records in JSON, and shrink a run of that",
        )


def _case(directory: RunDirectory, manifest: Manifest, contract: Contract, words: Sequence[str]) -> Case:
    with TraceReader(directory.file("trace")) as reader:
        partitions = max(topic.partitions for topic in reader.header.topics.values())
        # A trial may leave out any record: where there was none (`absent`) is one without a value.
        records = tuple(
            msgspec.structs.replace(record, transaction=None, absent=None, sent=None) for record in reader
        )
    flush: tuple[Record, ...] = ()
    if directory.file("flush").is_file():
        with TraceReader(directory.file("flush")) as reader:
            flush = tuple(reader)
    return Case(
        name=contract.name,
        contract=contract,
        records=records,
        flush=flush,
        sink=manifest.sink if manifest.sink in SINKS else SINKS[1],
        conf=dict(pair.split("=", 1) for pair in _values_of(words, "--conf")),
        pipeline=_pipeline(directory, words),
        partitions=partitions,
    )


def _starts(
    directory: RunDirectory, one: Shrinkable, as_read: Shrinkable, *, by_command: bool
) -> Iterator[Shrinkable]:
    """The case as it ran, and with the batches that were read as its slices; with faults in run modes of a run."""
    case, batches = one.case, directory.batches()
    pace = directory.manifest.pace
    starts_again = any(batch.restarted for batch in batches)
    first: RunMode = (
        "backlog" if pace == "backlog" else "stepped" if starts_again and not by_command else "followed"
    )
    if pace != "timed":
        yield replace(one, case=replace(case, mode=first))
    modes: tuple[RunMode, ...] = ("backlog", "followed", "stepped")
    for mode in sorted(modes[:2] if one.faults else modes, key=lambda one: one != first):
        yield replace(as_read, case=replace(as_read.case, mode=mode))


def _guesses(directory: RunDirectory, as_read: Shrinkable, finding: Finding) -> tuple[Shrinkable, ...]:
    """Smaller starts, in the run mode of the run's pace."""
    if not as_read.faults and len(as_read.case.records) <= FEW:
        return ()
    mode: RunMode = "backlog" if directory.manifest.pace == "backlog" else "followed"
    one = replace(as_read, case=replace(as_read.case, mode=mode))
    beside = row_of_each(directory.output(), one.case.contract, finding) if one.faults else ()
    return tuple(guesses(one, finding, beside, directory.faults()))


def _as_read(directory: RunDirectory, one: Shrinkable) -> Shrinkable:
    """The records in the order of the batches that read them, each with the number of its batch as its slice."""
    found = list(records_by_batch(one.case, directory.batches()))
    slices = {number: at for at, number in enumerate(sorted({at for _, at in found}))}
    in_order = sorted(found, key=lambda one: one[1])
    return one.with_records(
        tuple(msgspec.structs.replace(record, slice=slices[at]) for record, at in in_order)
    )


def _pipeline(directory: RunDirectory, words: Sequence[str]) -> str:
    """The copy of its file, the name of a bundled one, or nothing: then the contract is the query."""
    kept = directory.path / "pipeline.py"
    if kept.is_file():
        return str(kept.resolve())
    name = words[2] if len(words) > 2 else ""
    return name if name.isidentifier() else ""


def _values_of(words: Sequence[str], option: str) -> list[str]:
    """The values that an option has in a command."""
    return [value for word, value in itertools.pairwise(words) if word == option]
