"""Every error that a user of tidemark can meet.

Free of everything: imports nothing. An error says what happened (with the value), why (``detail``) and what
to do (``hint``), and knows the exit code of the command line:

    TidemarkError
    ├── UsageError          2   wrong usage or input: the caller can mend it by calling differently
    │   ├── BrokenTrace         a line of a trace cannot be read
    │   ├── BrokenEvidence      a file of a run directory cannot be read
    │   ├── BrokenContract      a pipeline's contract contradicts itself
    │   └── SinkRefused         the exactly-once sink will not write: settings, checkpoint and ledger do not fit
    └── TestbedError        4   the testbed itself failed: the machine has to be mended
        ├── JavaError           no Java, or one that Spark cannot use
        ├── FetchError          a jar could not be fetched, or is not the one that was locked
        ├── ContainerEngineError         no container engine, one that will not do, or one that failed
        ├── UnknownStack        a stack is there that this version of tidemark cannot use, only end
        ├── DaemonDied          a process of the stack ended by itself; its last log lines are the detail
        ├── PortTaken           a port that was asked for belongs to somebody else
        ├── PipelineFailed      the query under test ended with an error of its own
        ├── SinkFailed          Kafka did not take a batch of the exactly-once sink; nothing of it is visible
        └── DeadlineExceeded    a condition did not come true in time
"""

from __future__ import annotations

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_TESTBED = 4
EXIT_INTERRUPTED = 130


class TidemarkError(Exception):
    """One clear error: ``message`` (what, with the value), ``detail`` (why), ``hint`` (what to do).

    Its notes (``add_note``) are errors that followed from it, or came while it was handled; its text has them.
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


class SinkRefused(UsageError):
    """The exactly-once sink will not write, because it could not keep its promise."""


class TestbedError(TidemarkError):
    """The testbed itself failed."""

    __test__ = False  # the name starts with "Test"; pytest must not collect it


class JavaError(TestbedError):
    """No Java, or one that Spark cannot use."""


class FetchError(TestbedError):
    """A jar could not be fetched, or has another checksum than the lock names."""


class ContainerEngineError(TestbedError):
    """There is no container engine, it will not do, or it did not do what it was asked."""


class UnknownStack(TestbedError):
    """A stack is there that another version of tidemark started, or whose record is damaged."""


class DaemonDied(TestbedError):
    """A process of the stack ended by itself."""


class PortTaken(TestbedError):
    """A port that was asked for is in use."""


class PipelineFailed(TestbedError):
    """The query under test ended with an error of its own."""


class SinkFailed(TestbedError):
    """Kafka did not take what the exactly-once sink wrote; the batch is run again."""


class DeadlineExceeded(TestbedError):
    """A condition did not come true in time."""


def _indented(text: str) -> str:
    return text.strip("\n").replace("\n", "\n        ")
