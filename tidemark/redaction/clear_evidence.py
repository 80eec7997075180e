"""Evidence with values in it, for as long as a command needs it before it is redacted; and errors without values.

A command that redacts writes the clear evidence into a hidden folder beside the place of the redacted one, which nobody
else may read, and which is deleted however the command ends, Ctrl-C and SIGTERM included. After a SIGKILL it is left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import (
    ContainerEngineError,
    FetchError,
    JavaError,
    KafkaRefused,
    PipelineFailed,
    PortTaken,
    TestbedError,
    TidemarkError,
    UnknownStack,
    UsageError,
)
from tidemark.oracle.verdict import Verdict

_OF_NO_RECORD = (KafkaRefused, JavaError, FetchError, ContainerEngineError, UnknownStack, PortTaken)
"""Errors that know no record."""
_LEFT_OUT = "left out because of --redact: it may quote records"


@contextmanager
def clear_evidence(target: Path) -> Iterator[Path]:
    """A folder for the clear evidence of what is redacted to ``target``; it is deleted at the end.

    Errors of the block lose what may quote values. Raises ``UsageError`` if the folder cannot be made.
    """
    folder = target.with_name(f".{target.name}.{os.getpid()}.clear")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise UsageError(
            f"the evidence cannot be written beside {str(target)!r}",
            detail=str(error),
            hint="name a place in which you may write",
        ) from error
    try:
        yield folder
    except TidemarkError as error:
        raise without_values(error) from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 (its text may quote a record)
        raise TestbedError(
            f"it ended with an unexpected {type(error).__name__}",
            detail=_LEFT_OUT,
            hint="repeat it without --redact, and report what it says",
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def without_values(error: TidemarkError) -> TidemarkError:
    """The same error without its detail and its notes, and without what a failed query said."""
    if isinstance(error, _OF_NO_RECORD):
        return error
    is_of_query = isinstance(error, PipelineFailed)
    message = error.message.partition(":")[0] if is_of_query else error.message
    told = type(error)(
        message,
        detail=_LEFT_OUT if error.detail or is_of_query else "",
        hint="run it without --redact to see why: no evidence was kept" if is_of_query else error.hint,
    )
    return told.with_traceback(None)


@contextmanager
def judged_alike(clear: Verdict, target: Path) -> Iterator[list[Verdict]]:
    """The block appends the verdict of the redacted evidence at ``target``, which has to be that of the clear evidence.

    Raises ``TestbedError`` if it is not. After any error ``target`` is deleted.
    """
    verdicts: list[Verdict] = []
    try:
        yield verdicts
        for redacted in verdicts:
            _must_be_alike(clear, redacted)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _must_be_alike(clear: Verdict, redacted: Verdict) -> None:
    # The state of a chain is left out, and so is what is wrong in it alone.
    of_state = ("lost_state", "leaked_state") if clear.kind == "chain" else ()
    told = [
        ({name: count for name, count in one.findings_total.items() if name not in of_state}, one.counts)
        for one in (clear, redacted)
    ]
    is_other = clear.verdict != redacted.verdict and not any(
        name in clear.findings_total for name in of_state
    )
    if told[0] != told[1] or is_other:
        raise TestbedError(
            f"the evidence is {clear.verdict}, and redacted it is judged {redacted.verdict}",
            detail=f"findings {clear.findings_total or 'none'}; of the redacted evidence"
            f" {redacted.findings_total or 'none'}",
            hint="this is an error of the redaction, and nothing was kept: run it without --redact",
        )
