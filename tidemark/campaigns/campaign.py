"""A campaign: many items, each run once, and the outcome of each; fuzz, soak, matrix, versions, mutants, long, chaos.

An outcome is a ``msgspec.Struct`` of the campaign's own. It is appended to the journal, a JSON Lines file, as soon as
it is there, so that neither Ctrl-C nor a crash loses it. With ``resume`` an item whose outcome is in the journal is
not run again. All outcomes of a journal are of one campaign, one code and the same packages: another one is refused,
never mixed in::

    {"campaign": "matrix", "key": "inner, equal time, ...", "code_sha256": "...", "elapsed_s": 12.5, "outcome": {...}}

Free of Kafka and Spark; how a progress is shown is the caller's (``report`` and ``say``).
"""

from __future__ import annotations

import hashlib
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from tidemark import paths
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID, UsageError
from tidemark.runner.run_options import Report, Say, report_nothing, say_nothing

EVERY = 20
"""A log says one outcome in so many, and each that does not hold."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome", bound=msgspec.Struct)


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a journal; ``elapsed_s`` is how long the campaign had run by then."""

    campaign: str
    key: str
    code_sha256: str
    elapsed_s: float
    outcome: msgspec.Raw


@dataclass
class Campaign(Generic[Item, Outcome]):
    """``name`` says what was asked for, ``kind`` is the type of outcomes, ``holds`` whether nothing is wrong with one.

    ``key`` names an item, the same in every process. ``keep_going``: also after an outcome that does not hold.
    ``keep_failures``: those are journalled, too, and not run again. ``what`` is the plural of the items and ``line`` an
    outcome in a line, for ``report`` and ``say``. ``ended`` hears of every outcome, also of an earlier one.

    Raises ``UsageError`` if the journal is not one to go on from.
    """

    name: str
    kind: type[Outcome]
    holds: Callable[[Outcome], bool]
    key: Callable[[Item], str] = str
    journal: Path | None = None
    resume: bool = False
    keep_going: bool = True
    keep_failures: bool = True
    what: str = "items"
    line: Callable[[Outcome], str] | None = None
    every: int = EVERY
    total: int | None = None
    report: Report = report_nothing
    say: Say = say_nothing
    ended: Callable[[Outcome], None] | None = None
    outcomes: dict[str, Outcome] = field(default_factory=dict, init=False)
    earlier: dict[str, Outcome] = field(default_factory=dict, init=False)
    interrupted: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._before_s, self._start_s = 0.0, -1.0
        self._begins_anew = not self.resume
        self._code = code_sha256() if self.journal is not None else ""
        if self.resume:
            self._read()

    @property
    def seconds(self) -> float:
        """How long it has run, in all processes."""
        return self._before_s + (time.monotonic() - self._start_s if self._start_s >= 0 else 0.0)

    @property
    def failures(self) -> list[Outcome]:
        """The outcomes that do not hold."""
        return [one for one in self.outcomes.values() if not self.holds(one)]

    @property
    def exit_code(self) -> int:
        """1 if something does not hold, 130 after Ctrl-C, else 0."""
        if self.failures:
            return EXIT_INVALID
        return EXIT_INTERRUPTED if self.interrupted else EXIT_VALID

    def run(
        self, items: Iterable[Item], run_one: Callable[..., Outcome], workers: WarmWorkers | None = None
    ) -> None:
        """Run the items that have no outcome: one after the other, or by ``workers``, which hand a warm driver to it.

        May be called for some of the items, and then for others. Ctrl-C ends it with the outcomes that are there.
        """
        if self._start_s < 0:
            self._start_s = time.monotonic()
        if self.total is None and isinstance(items, Sized):
            self.total = len(items)

        def work(item: Item, *warm: object) -> bool:
            return self.record(self.key(item), run_one(item, *warm))

        try:
            if workers is not None:
                workers.run(self._waiting(items), work)
                return
            for item in self._waiting(items):
                if not work(item):
                    return
        except KeyboardInterrupt:
            self.interrupted = True

    def record(self, key: str, outcome: Outcome) -> bool:
        """Journal and show an outcome; whether to go on. May be called by threads."""
        with self._lock:
            holds = self.holds(outcome)
            if self.journal is not None and (holds or self.keep_failures):
                self._append(self.journal, key, outcome)
            return self._take(key, outcome)

    def finish(self, document: Path | None, text: Callable[[], str]) -> int:
        """Write the document, if all was run and everything holds; returns the exit code."""
        if document is not None and self.exit_code == EXIT_VALID:
            document.write_text(text(), encoding="utf-8")
            self.say(f"written: {document}")
        return self.exit_code

    def _waiting(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            key = self.key(item)
            if key in self.outcomes:
                continue
            if key not in self.earlier:
                yield item
            elif not self._take(key, self.earlier[key]):
                return

    def _take(self, key: str, outcome: Outcome) -> bool:
        self.outcomes[key] = outcome
        done, holds = len(self.outcomes), self.holds(outcome)
        self.report(self.what, done, self.total or 0)
        if self.line is not None and (not holds or done % self.every == 0):
            self.say(f"{done} of {self.total} {self.what}: {self.line(outcome)}")
        if self.ended is not None:
            self.ended(outcome)
        return holds or self.keep_going

    def _append(self, journal: Path, key: str, outcome: Outcome) -> None:
        entry = JournalEntry(
            campaign=self.name, key=key, code_sha256=self._code, elapsed_s=round(self.seconds, 1),
            outcome=msgspec.Raw(msgspec.json.encode(outcome)),
        )  # fmt: skip
        journal.parent.mkdir(parents=True, exist_ok=True)
        if self._begins_anew and journal.exists():
            kept = journal.with_name(f"{journal.name}.old")
            journal.replace(kept)
            self.say(f"{journal} has the outcomes of this campaign; those that it had are in {kept}")
        self._begins_anew = False
        with journal.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def _read(self) -> None:
        if self.journal is None:
            raise UsageError(
                "there is nothing to resume", hint="name the file of the outcomes, for example: --log FILE"
            )
        if not self.journal.exists():
            return
        for number, (entry, outcome) in enumerate(read_journal(self.journal, self.kind), 1):
            for wanted, found in ((self.name, entry.campaign), (self._code, entry.code_sha256)):
                if wanted != found:
                    raise UsageError(
                        f"line {number} of {str(self.journal)!r} is of other code, packages or arguments",
                        detail=f"it says {found!r}, this is {wanted!r}",
                        hint="begin anew without --resume",
                    )
            self.earlier[entry.key] = outcome
            self._before_s = entry.elapsed_s
        end_with_whole_line(self.journal)


def read_journal(path: Path, kind: type[Outcome]) -> list[tuple[JournalEntry, Outcome]]:
    """The lines of a journal, without one that was cut off.

    Raises ``FileNotFoundError``, and ``UsageError`` for one that cannot be read.
    """
    try:
        entries = msgspec.json.Decoder(JournalEntry).decode_lines(whole_lines(path.read_bytes()))
        return [(entry, msgspec.json.decode(entry.outcome, type=kind)) for entry in entries]
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{str(path)!r} cannot be read", detail=str(error), hint="begin anew without --resume"
        ) from error


def whole_lines(text: bytes) -> bytes:
    """Without an outcome at the end that a crash or a full disk has cut off; of which there is nothing else, all."""
    end = text.rfind(b"\n") + 1
    try:
        msgspec.json.decode(text[end:] or b"{}")
    except msgspec.DecodeError:
        return text[:end] or text
    return text if text.endswith(b"\n") or not text else text + b"\n"


def end_with_whole_line(journal: Path) -> None:
    """Remove what was cut off, so that the next outcome has a line of its own; its item is run again."""
    text = journal.read_bytes()
    whole = whole_lines(text)
    if whole != text:
        with journal.open("r+b") as file:
            file.truncate(min(len(whole), len(text)))
            file.seek(0, 2)
            file.write(whole[len(text) :])


def free_directory(path: Path) -> Path:
    """The path, or ``path-2``, ``path-3``, …: the first that is not there, or is an empty directory.

    The evidence of an item that was interrupted stays where it is, and the item is run again beside it.
    """
    tried, number = path, 2
    while tried.exists() and (not tried.is_dir() or any(tried.iterdir())):
        tried, number = path.with_name(f"{path.name}-{number}"), number + 1
    return tried


def journalled_folder(journal: Path | None, kind: type[Outcome], depth: int = 0) -> Path | None:
    """The folder that has the evidence of a journal's latest outcome with a ``run_dir``, which lies ``depth`` deeper.

    ``None`` without such an outcome. Raises ``UsageError`` for a journal that cannot be read.
    """
    if journal is None or not journal.exists():
        return None
    dirs = [str(getattr(outcome, "run_dir", "") or "") for _, outcome in read_journal(journal, kind)]
    return next((Path(one).parents[depth] for one in reversed(dirs) if one), None)


def code_sha256() -> str:
    """The SHA-256 of the code, of its tests where they are, of Python, and of the versions of all packages."""
    digest = hashlib.sha256(f"{paths.code_sha256()}\0{platform.python_version()}\0".encode())
    packages = {f"{one.name}=={one.version}" for one in metadata.distributions()}
    digest.update("\n".join(sorted(packages)).encode())
    for path in sorted(paths.root().glob("tests/**/*.py")) if paths.is_checkout() else ():
        digest.update(f"\0{path.relative_to(paths.root())}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
