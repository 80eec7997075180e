"""What can be asked of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.errors import UsageError
from tidemark.faults.schedule import FaultSpec, read_schedule
from tidemark.formats.faults import FaultComponent
from tidemark.formats.liveness import Demands, read_progress
from tidemark.formats.project_files import PROJECT, path_in_package
from tidemark.formats.storage import Storage
from tidemark.runner.pipeline_code import PipelineCode

if TYPE_CHECKING:
    from tidemark.runner.run_watch import RunWatch

Report = Callable[[str, int, int], None]
"""Progress: ``report(what, done, total)``; called from one thread, cheap to call."""


Say = Callable[[str], None]
"""Something that the user should know while a run goes on, in lines of text; called from any thread."""

Watch = Callable[["RunWatch"], None]
"""Called before the query of a run is started, with what shows the run from then on, to be looked at by one thread."""

SINKS = ("exactly-once", "spark")
"""Who writes the output, the default first; each run is judged by its own sink's promise."""

OWN_SINK = "own"
"""The sink of a pipeline that starts its own query."""

HUNG_AFTER_S = 300.0
"""Calibration: a batch takes about 1 s; after a killed executor up to 30 s, on a busy machine a few times that."""
MORE_THAN_FAULT_S = 60.0
"""A fault and a recovery count from the injection, a hang from the last commit, which was before that."""

EVIDENCE_FORMATS = ("auto", "jsonl", "parquet")
"""How the large files of the evidence are stored, the default first: each by the number of its records."""

PARQUET_RECORDS = 500_000
"""A file of more records is Parquet, if nothing else is asked for. Calibration: as JSON Lines that many records of a
trace take 220 MB, as Parquet 22 MB; to convert them and read them back takes some seconds of a run of minutes."""

BATCHES_KEPT = "spark.sql.streaming.minBatchesToRetain"
"""How many batches of its checkpoint a query keeps; a run keeps all of them."""


def report_nothing(_what: str, _done: int, _total: int) -> None:
    """The ``Report`` of a quiet run."""


def say_nothing(_text: str) -> None:
    """The ``Say`` of a quiet run; the manifest's notes have it all."""


def watch_nothing(_watch: RunWatch) -> None:
    """The ``Watch`` of a quiet run."""


@dataclass(frozen=True)
class RunOptions:
    """One run. ``trace`` outranks what would generate one (``seed``, ``impressions``, ``generator``).

    ``faults`` is a schedule (:mod:`tidemark.faults.schedule`). ``driver`` names a driver of the stack that no other run
    uses: it is harmed, and there for the next run; if none is named, a run with faults starts one of its own, and one
    without takes the stack's. ``accept`` names known defects of Spark that are accepted, besides those that the
    contract accepts. ``waive`` names coverage goals that the run need not meet. ``project`` is the folder in which the
    pipeline's modules are found first; ``py_files`` are packages that its functions need on driver and executors,
    ``send_modules`` sends them the project's modules, ``jars`` and ``packages`` (Maven coordinates) go on their class
    path: with any of these a run has a driver of its own. ``app`` is the command of a job that is run in the place of
    the pipeline, of which only the contract is read (:mod:`tidemark.runner.app_command`). ``functions`` is the file or
    the module that has the functions which the contract names (``decode``), if the pipeline has not. ``registry`` asks
    for a schema registry on the stack. ``kafka_conf`` is a file with the settings of Kafka's clients (a login); if it
    is not said, the stack's own, or for an external stack without one that which ``TIDEMARK_KAFKA_CONF`` names.
    ``evidence_format`` is how trace, output and state are stored (:data:`EVIDENCE_FORMATS`). ``redact`` keeps redacted
    evidence only: pseudonyms for ids and keys, no other values; ``redact_salt`` is a file with the salt of these.
    ``keep_checkpoint`` copies the checkpoint into the run directory at the end. ``standby`` keeps a second driver
    ready, with executors of its own, on which the query goes on when its driver dies.
    ``diagnosis``: of an ``INVALID`` run it is asked which other contract or delivery explains it, for up to 5 seconds.
    ``conf`` has settings of Spark's session, ``NAME=VALUE``; :data:`BATCHES_KEPT` is refused (``UsageError``).

    Demands of time, each of which makes a run that breaks it ``INVALID``, and one that does not show it ``UNKNOWN``:
    ``recover_within_s`` from the injection of a fault to the commit of its batch; ``progress_during_faults``, so many
    batches (``"1"``) or input rows (``"500rows"``) committed while a fault lasts; ``watermark_stands_at_most_s``;
    ``state_rows_at_most``. A query that commits nothing for ``hung_after_s`` while the run waits for it has hung: the
    run ends, with thread stacks, and is ``UNKNOWN``; a fault that lasts, and a recovery that is demanded,
    have their time and a minute more.
    """

    pipeline: str
    seed: int = 1
    impressions: int = 2_000
    pace: str | None = None
    trace: Path | None = None
    generator: tuple[str, ...] = ()
    faults: str = ""
    sink: str = SINKS[0]
    speed: float = 1.0
    python: Path | None = None
    run_dir: Path | None = None
    driver: str = ""
    conf: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    project: Path | None = None
    py_files: tuple[Path, ...] = ()
    send_modules: bool = False
    app: str = ""
    functions: str = ""
    jars: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()
    registry: bool = False
    evidence_format: str = EVIDENCE_FORMATS[0]
    kafka_conf: Path | None = None
    redact: bool = False
    redact_salt: Path | None = None
    keep_checkpoint: bool = False
    standby: bool = False
    diagnosis: bool = True
    recover_within_s: float | None = None
    progress_during_faults: str = ""
    watermark_stands_at_most_s: float | None = None
    state_rows_at_most: int | None = None
    hung_after_s: float = HUNG_AFTER_S
    report: Report = field(default=report_nothing, compare=False)
    say: Say = field(default=say_nothing, compare=False)
    watch: Watch = field(default=watch_nothing, compare=False)

    def __post_init__(self) -> None:
        self._must_keep_all_batches()

    @property
    def fault_specs(self) -> tuple[FaultSpec, ...]:
        """The faults that are asked for; raises ``UsageError`` for a word of the schedule that is none."""
        return read_schedule(self.faults)

    @property
    def demands(self) -> Demands | None:
        """What has to happen in time; raises ``UsageError`` for an amount that is none."""
        batches, rows = read_progress(self.progress_during_faults)
        demands = Demands(
            recover_within_s=self.recover_within_s,
            progress_batches=batches,
            progress_rows=rows,
            watermark_stands_at_most_s=self.watermark_stands_at_most_s,
            state_rows_at_most=self.state_rows_at_most,
        )
        if problem := demands.problem():
            raise UsageError(
                problem, hint="demand a number of seconds, batches or rows: docs/howto/demand-progress.md"
            )
        return demands if demands.are_any else None

    @property
    def given_up_after_s(self) -> float:
        """After so many seconds without a commit a query has hung: not while a fault lasts, nor before it broke a
        recovery that is demanded.
        """
        parts = [part for spec in self.fault_specs for part in spec.parts]
        lasts_s = [part.duration_s for part in parts if part.duration_s > FaultSpec.duration_s]
        asked_s = [*lasts_s, *([] if self.recover_within_s is None else [self.recover_within_s])]
        return max([self.hung_after_s, *(seconds + MORE_THAN_FAULT_S for seconds in asked_s)])

    @property
    def needs_proxied_registry(self) -> bool:
        """Whether the query has to reach the schema registry through the network proxy; else it does not."""
        return any(spec.disturbs(FaultComponent.REGISTRY) for spec in self.fault_specs)

    def storage_of(self, records: int) -> Storage:
        """How a file with this many records is stored; raises ``UsageError`` for a format that is none."""
        if self.evidence_format not in EVIDENCE_FORMATS:
            raise UsageError(
                f"{self.evidence_format!r} is no format of evidence",
                hint=f"one of {', '.join(EVIDENCE_FORMATS)}",
            )
        is_large = self.evidence_format == "auto" and records > PARQUET_RECORDS
        return "parquet" if is_large or self.evidence_format == "parquet" else "jsonl"

    @property
    def code(self) -> PipelineCode:
        """What the pipeline's program needs."""
        return PipelineCode(
            self.pipeline, self.python, self.project, self.py_files, self.jars, self.packages, bool(self.app)
        )

    @property
    def sends_code(self) -> bool:
        """Whether the driver and its executors are sent modules or packages."""
        return self.send_modules or bool(self.py_files)

    @property
    def has_own_driver(self) -> bool:
        """Whether the run starts a driver that no other run uses, if none is named."""
        needs_one = self.fault_specs or self.sends_code or self.jars or self.packages or self.standby
        return not self.driver and bool(needs_one)

    def kept_pipeline(self, run_dir: Path) -> Path | None:
        """The copy of a pipeline file in a run directory; ``None`` for a bundled pipeline."""
        suffix = Path(self.pipeline).suffix
        return run_dir / f"pipeline{suffix}" if suffix in (".py", ".json") else None

    def command(self, run_dir: Path | None = None) -> str:
        """The command that reproduces this run, with the copy of its pipeline file in the run directory."""
        kept = self.pipeline if run_dir is None else self._kept_reference(run_dir)
        parts = ["tidemark", "run", kept, "--seed", str(self.seed)]
        if self.trace is not None:
            parts += ["--trace", str(self.trace)]
        else:
            parts += ["--impressions", str(self.impressions)]
            parts += ["--generate", shlex.join(self.generator)] if self.generator else []
        parts += ["--app", self.app] if self.app else []
        parts += ["--functions", self.functions] if self.functions else []
        parts += ["--registry"] if self.registry else []
        parts += ["--kafka-conf", str(self.kafka_conf)] if self.kafka_conf else []
        parts += ["--pace", self.pace] if self.pace else []
        parts += ["--speed", f"{self.speed:g}"] if self.speed != 1.0 else []
        parts += ["--sink", self.sink] if self.sink not in (SINKS[0], OWN_SINK) else []
        parts += ["--faults", self.faults] if self.faults else []
        parts += ["--spark", str(self.python)] if self.python else []
        project = self.project if run_dir is None or not (run_dir / PROJECT).is_dir() else run_dir / PROJECT
        parts += ["--project", str(project)] if project else []
        for package in self.py_files:
            parts += ["--py-files", str(package)]
        for jar in self.jars:
            parts += ["--jars", str(jar)]
        for coordinate in self.packages:
            parts += ["--packages", coordinate]
        if self.evidence_format != EVIDENCE_FORMATS[0]:
            parts += ["--evidence-format", self.evidence_format]
        for pair in self.conf:
            parts += ["--conf", pair]
        parts += ["--redact"] if self.redact else []
        parts += ["--keep-checkpoint"] if self.keep_checkpoint else []
        parts += ["--standby"] if self.standby else []
        parts += [] if self.diagnosis else ["--no-diagnosis"]
        parts += ["--redact-salt", str(self.redact_salt)] if self.redact_salt else []
        for defect in self.accept:
            parts += ["--accept", defect]
        for goal in self.waive:
            parts += ["--waive", goal]
        return shlex.join([*parts, *self.words_of_time()])

    def words_of_time(self) -> list[str]:
        """The words of the command that demand something in time."""
        seconds = {
            "--recover-within": self.recover_within_s,
            "--watermark-stands-at-most": self.watermark_stands_at_most_s,
            "--hung-after": None if self.hung_after_s == HUNG_AFTER_S else self.hung_after_s,
        }
        words = [
            word for option, many in seconds.items() if many is not None for word in (option, f"{many:g}s")
        ]
        progress, rows = self.progress_during_faults, self.state_rows_at_most
        words += ["--progress-during-faults", progress] if progress else []
        return words + (["--state-rows-at-most", str(rows)] if rows is not None else [])

    def _must_keep_all_batches(self) -> None:
        """Refuse a setting with which the checkpoint, and so ``batches.jsonl``, may lack the first batches.

        A job has a session of its own and gets no ``conf``: all of it is refused, when the run is checked.
        """
        given = [pair for pair in self.conf if pair.partition("=")[0].strip() == BATCHES_KEPT]
        if given and not self.app:
            raise UsageError(
                f"a run cannot have the setting {given[0]}",
                detail="it is judged from its first batch on, so its checkpoint keeps all batches",
                hint=f"leave out --conf {given[0]}; a query that deletes old batches is run as a job that sets this"
                " itself (--app), or judged by `tidemark audit`",
            )

    def _kept_reference(self, run_dir: Path) -> str:
        """The pipeline as the evidence has it: a file in a package by its place in the copy of that package."""
        kept = self.kept_pipeline(run_dir)
        if kept is None:
            return self.pipeline
        in_package = run_dir / PROJECT / path_in_package(Path(self.pipeline))
        return str(in_package if in_package.is_file() else kept)


PATHS = ("trace", "python", "run_dir", "project", "kafka_conf", "redact_salt")
LISTS = ("generator", "conf", "accept", "waive", "packages")
FILES = ("py_files", "jars")
"""Options that may be given as text, and as any sequence."""


def options_of(pipeline: str | Path, options: Mapping[str, Any]) -> RunOptions:
    """The options of a run as Python callers give them; raises ``TypeError`` for one that there is not."""
    given = dict(options)
    for name in PATHS:
        if given.get(name) is not None:
            given[name] = Path(given[name])
    for name in FILES:
        if name in given:
            files = given[name]
            given[name] = tuple(map(Path, [files] if isinstance(files, str | Path) else files))
    for name in LISTS:
        if name in given:
            given[name] = names_of(given[name])
    return RunOptions(str(pipeline), **given)


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """A sequence of texts as a tuple; a single text stands for itself."""
    return (names,) if isinstance(names, str) else tuple(names)
