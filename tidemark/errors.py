"""Every error that tidemark reports to its user.

An error says what happened (with the value), why (``detail``) and what to do (``hint``), and has the
exit code of the command line:

    TidemarkError
    ├── UsageError          2   wrong usage or input: the caller can correct it
    │   ├── BrokenTrace         a line of a trace cannot be read
    │   ├── BrokenEvidence      a file of a run directory cannot be read
    │   ├── BrokenContract      a pipeline's contract contradicts itself
    │   ├── BrokenTable         a table that a query wrote cannot be read, or not as its log says
    │   └── SinkRefused         the exactly-once sink refuses to write: settings, checkpoint and ledger do not match
    └── TestbedError        4   there is no verdict: the testbed failed, or the query under test did
        ├── JavaError           no Java, or one that Spark cannot use
        ├── FetchError          a jar could not be fetched, or does not have the locked checksum
        ├── ContainerEngineError    no container engine, an unsuitable one, or a failed request to it
        ├── UnknownStack        another version of tidemark started the stack; this one can only end it
        ├── DaemonDied          a process of the stack ended by itself; the detail is the end of its log
        ├── PortTaken           the requested port is in use by another program
        ├── KafkaRefused        Kafka does not let a client in (login, certificate), or it lacks a right
        ├── PipelineFailed      the query under test ended with an error of its own
        ├── SinkFailed          Kafka did not accept a batch of the exactly-once sink; none of it is visible
        └── DeadlineExceeded    a condition did not come true in time
            ├── OpenTransaction     the committed records of a topic do not end, and its broker answers
            └── QueryHung           it commits nothing more; a run raises none of these, but ends UNKNOWN (3)
                ├── StartHung           it does not start
                ├── DrainHung           it is done, and its output is not complete
                └── StopHung            it does not stop
"""

from __future__ import annotations

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_TESTBED = 4
EXIT_INTERRUPTED = 130


class TidemarkError(Exception):
    """An error with ``message`` (what happened, with the value), ``detail`` (why) and ``hint`` (what to do).

    Its notes (``add_note``) are errors that followed from it, or occurred while it was handled; its text includes them.
    """

    exit_code = EXIT_TESTBED

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"  why:  {_indented(self.detail)}")
        if self.hint:
            lines.append(f"  hint: {_indented(self.hint)}")
        lines += [f"  also: {_indented(note)}" for note in getattr(self, "__notes__", ())]
        return "\n".join(lines)


class UsageError(TidemarkError):
    """Wrong usage or wrong input."""

    exit_code = EXIT_USAGE


class BrokenTrace(UsageError):
    """A line of a trace cannot be read."""


class BrokenEvidence(UsageError):
    """A file of a run directory is missing or cannot be read."""


class BrokenContract(UsageError):
    """A contract contradicts itself."""


class BrokenTable(UsageError):
    """A table that a query wrote cannot be read, or not as its log says."""


class SinkRefused(UsageError):
    """The exactly-once sink refuses to write, because it could not guarantee exactly-once delivery."""


class TestbedError(TidemarkError):
    """There is no verdict, because the testbed failed or the query under test did."""

    __test__ = False  # the name starts with "Test"; pytest must not collect it


class JavaError(TestbedError):
    """No Java, or one that Spark cannot use."""


class FetchError(TestbedError):
    """A jar could not be fetched, or does not have the locked checksum."""


class ContainerEngineError(TestbedError):
    """There is no container engine, it is unsuitable, or a request to it failed."""


class UnknownStack(TestbedError):
    """Another version of tidemark started the stack, or its record is damaged."""


class DaemonDied(TestbedError):
    """A process of the stack ended by itself."""


class PortTaken(TestbedError):
    """The requested port is in use."""


class KafkaRefused(TestbedError):
    """Kafka does not let a client in, because of its login or of a certificate; or the client lacks a right."""


class PipelineFailed(TestbedError):
    """The query under test ended with an error of its own."""


class SinkFailed(TestbedError):
    """Kafka did not accept a batch of the exactly-once sink; the batch is retried."""


class DeadlineExceeded(TestbedError):
    """A condition did not come true in time."""


class OpenTransaction(DeadlineExceeded):
    """The committed records of a topic do not end, and its broker answers: an unfinished transaction blocks readers."""


class QueryHung(DeadlineExceeded):
    """The query under test committed nothing more in time, or answers no more (``is_answering``).

    ``waited_for`` is what the run waited for, for ``timeout_s``. It ends no run: the run keeps thread stacks, and is
    judged as it is.
    """

    phase = "run"
    said = "the query committed nothing more"

    def __init__(
        self, waited_for: str, timeout_s: float, *, detail: str = "", hint: str, is_answering: bool = True
    ) -> None:
        message = f"{self.said}: timed out after {timeout_s:g} s waiting for {waited_for}"
        super().__init__(message, detail=detail, hint=hint)
        self.waited_for = waited_for
        self.timeout_s = timeout_s
        self.is_answering = is_answering


class StartHung(QueryHung):
    """The query, or a user's job, was asked to start, and did not."""

    phase = "start"
    said = "the query did not start"


class DrainHung(QueryHung):
    """All batches are committed, and the output that a reader sees does not end: a transaction is open, say."""

    phase = "drain"
    said = "the output of the query is not complete"


class StopHung(QueryHung):
    """The query was asked to stop, and did not."""

    phase = "stop"
    said = "the query did not stop"


def _indented(text: str) -> str:
    return text.strip("\n").replace("\n", "\n        ")
