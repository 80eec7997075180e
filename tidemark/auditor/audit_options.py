"""What can be asked of an audit, and the files that it is asked with."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.chain import Chain
from tidemark.formats.client_settings import broker_settings, conf_from_environment
from tidemark.formats.contract import Contract, Delivery
from tidemark.formats.contract_files import contract_of_file
from tidemark.formats.events import read_time_us
from tidemark.runner.pipeline_code import PipelineCode, described_without_session
from tidemark.runner.project_path import is_python

Report = Callable[[str, int, int], None]
"""Progress: ``report(what, done, total)``; cheap to call."""
DELIVERIES = tuple(str(delivery) for delivery in Delivery)


def report_nothing(_what: str, _done: int, _total: int) -> None:
    """The ``Report`` of a quiet audit."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """One audit.

    ``checkpoint`` is a folder or, in a store that fsspec reads, a URL.
    ``output`` is a topic or, if there is a ``/`` in it, the folder of a table.
    ``contract`` is a file in JSON, or a pipeline that has it: ``FILE.py``, ``PACKAGE.MODULE:CONTRACT``.
    ``functions`` is the file or the module with the functions that the contract names (``decode``), if that pipeline
    has not; ``python`` is the interpreter that imports them, ``project`` and ``py_files`` are where their modules are.
    ``topics`` has the Kafka topic of a topic of the contract, where it has another name.
    ``kafka_conf`` is a file with settings of Kafka's client, a line each (``NAME=VALUE``); if it is not said, the one
    that ``TIDEMARK_KAFKA_CONF`` names. ``batches`` is ``A:B``, both in it, either left out. ``delivery`` is what the
    query's sink promises; empty: what the contract says, or else ``at-least-once`` for a topic, and for a table what
    its log promises. ``deleted_until`` is an event time: the caller states that no deleted record has a later one.
    ``spark_version`` names the Spark that ran the query, whose known defects explain findings; of a query that was
    upgraded, the Spark of each range of batches (``auditor.spark_ranges``).
    ``progress`` are files and folders with progress reports of Spark, or event logs.
    ``read_state``: where the log was trimmed, the state that is left of the batches before is read, too.
    ``redact`` keeps redacted evidence only, with pseudonyms of the salt in the file ``redact_salt``, or a random one.
    ``may_create_offsets_topic``: reads also where that makes the cluster create its topic for the offsets of groups.
    """

    checkpoint: str
    contract: str
    bootstrap: str
    output: str
    kafka_conf: Path | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    batches: str = ""
    delivery: str = ""
    deleted_until: str = ""
    spark_version: str = ""
    run_dir: Path | None = None
    accept: tuple[str, ...] = ()
    progress: tuple[Path, ...] = ()
    read_state: bool = False
    functions: str = ""
    python: Path | None = None
    project: Path | None = None
    py_files: tuple[Path, ...] = ()
    may_create_offsets_topic: bool = False
    redact: bool = False
    redact_salt: Path | None = None
    report: Report = field(default=report_nothing, compare=False)

    def command(self) -> str:
        """The command that does this audit again."""
        parts = ["tidemark", "audit", "--checkpoint", self.checkpoint, "--contract", self.contract]
        parts += ["--bootstrap", self.bootstrap, "--output", self.output]
        parts += ["--kafka-conf", str(conf)] if (conf := self.client_conf) else []
        for name, topic in self.topics.items():
            parts += ["--topic", f"{name}={topic}"]
        for option, value in (
            ("--batches", self.batches),
            ("--delivery", self.delivery),
            ("--deleted-until", self.deleted_until),
            ("--spark-version", self.spark_version),
            ("--functions", self.functions),
            ("--spark", str(self.python or "")),
            ("--project", str(self.project or "")),
        ):
            parts += [option, value] if value else []
        for defect in self.accept:
            parts += ["--accept", defect]
        for package in self.py_files:
            parts += ["--py-files", str(package)]
        for path in self.progress:
            parts += ["--progress", str(path)]
        parts += ["--read-state"] if self.read_state else []
        parts += ["--may-create-offsets-topic"] if self.may_create_offsets_topic else []
        parts += ["--redact"] if self.redact else []
        parts += ["--redact-salt", str(self.redact_salt)] if self.redact_salt else []
        return shlex.join(parts)

    @property
    def code(self) -> PipelineCode:
        """What the program needs that imports the contract, or its functions."""
        return PipelineCode(self.contract, self.python, self.project, self.py_files, contract_only=True)

    @property
    def deleted_until_ms(self) -> int | None:
        """``deleted_until`` in milliseconds since the epoch; raises ``UsageError`` for what is no time."""
        if not self.deleted_until:
            return None
        time_us = read_time_us(self.deleted_until)
        if time_us is None:
            raise UsageError(
                f"--deleted-until {self.deleted_until!r} is no event time",
                hint="write it as in the records: 2026-01-31T12:00:00Z",
            )
        return time_us // 1000

    @property
    def output_folder(self) -> Path | None:
        """The folder of the table that is the output; ``None`` if it is a topic, whose name has no ``/``."""
        return Path(self.output) if "/" in self.output else None

    @property
    def client_conf(self) -> Path | None:
        """The file with settings of Kafka's client, if there is one."""
        return self.kafka_conf or conf_from_environment()

    @property
    def broker(self) -> dict[str, str]:
        """The settings of Kafka's client; raises ``UsageError``."""
        return broker_settings(self.bootstrap, self.client_conf)


def read_single_join(options: AuditOptions) -> Contract:
    """The contract of one join; raises ``UsageError`` for a chain, and for what is no contract."""
    name = options.contract
    contract = _imported(options) if is_python(name) else contract_of_file(Path(name))
    if isinstance(contract, Chain):
        raise UsageError(
            f"{name!r} is the contract of a chain",
            detail="only single joins are audited so far",
            hint="run it as a pipeline (`tidemark run`), or audit a query that is one join",
        )
    return contract


def _imported(options: AuditOptions) -> Contract | Chain:
    """The contract of a pipeline, as its program says it."""
    described = described_without_session(options.code)
    if described is None:
        raise UsageError(
            f"the contract of {options.contract!r} can be imported only where a Spark session is",
            detail="an audit has none",
            hint="write the contract as JSON, or into a module of its own",
        )
    return described.contract


def delivery_of(
    options: AuditOptions, contract: Contract, of_output: Delivery = Delivery.AT_LEAST_ONCE
) -> Delivery:
    """The promise that the query is judged by: the contract's, the caller's, or else that of its output.

    Raises ``UsageError`` where option and contract contradict.
    """
    asked = options.delivery
    if asked and asked not in DELIVERIES:
        raise UsageError(f"there is no delivery {asked!r}", hint=f"choose one of {', '.join(DELIVERIES)}")
    if asked and contract.delivery is not None and asked != str(contract.delivery):
        raise UsageError(
            f"the contract promises {contract.delivery}, and --delivery says {asked}",
            hint="leave out --delivery, or change the contract",
        )
    return contract.delivery or (Delivery(asked) if asked else of_output)


def range_of(text: str, option: str = "--batches") -> tuple[int | None, int | None]:
    """The first and the last batch of ``A:B``; raises ``UsageError``."""
    first, colon, last = text.partition(":")
    numbers = [part.strip() for part in (first, last)]
    if text and (not colon or not all(not part or (part.isdecimal() and len(part) < 19) for part in numbers)):
        raise UsageError(
            f"{option} {text!r} is no range of batches",
            hint="write A:B, the first and the last batch; either may be left out: 120:, :250",
        )
    begin, end = (int(part) if part else None for part in numbers)
    if begin is not None and end is not None and begin > end:
        raise UsageError(f"{option} {text!r} ends before it begins", hint="write the smaller batch first")
    return begin, end
