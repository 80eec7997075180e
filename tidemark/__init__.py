"""tidemark: checks every output row of a Spark stream-stream join, and shows the row that is wrong.

This module is the public interface: what ``__all__`` names is kept (``docs/reference/python-api.md``), what other
modules hold is not. Names are imported when they are first used, so that ``import tidemark`` and the types of a
contract need the standard library only, :func:`read_json` needs PySpark, and :func:`run` and :func:`check` everything.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.auditor.one_audit import AuditResult
    from tidemark.errors import BrokenContract, TestbedError, TidemarkError, UsageError
    from tidemark.formats.avro_records import avro_pair
    from tidemark.formats.chain import (
        Aggregate,
        Chain,
        Deduplicate,
        Join,
        Limit,
        Source,
        Value,
        Where,
        Window,
    )
    from tidemark.formats.contract import (
        Bound,
        Contract,
        Delivery,
        Filter,
        JoinKind,
        Output,
        Side,
        Term,
        WatermarkPolicy,
    )
    from tidemark.formats.csv_records import csv_pair
    from tidemark.formats.json_reader import read_json
    from tidemark.formats.json_schema_records import json_schema_pair
    from tidemark.formats.kafka_record import KafkaRecord
    from tidemark.formats.protobuf_records import protobuf_pair
    from tidemark.formats.record_fields import Field
    from tidemark.formats.run_io import RunIO
    from tidemark.oracle.findings import Finding
    from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS
    from tidemark.oracle.verdict import Verdict
    from tidemark.public_api import audit, check, diagnose, report, run
    from tidemark.runner.one_run import RunResult
    from tidemark.runner.run_options import RunOptions

__version__ = "0.1.0"
DISTRIBUTION = "tidemark-spark"
"""What pip calls this package; a ``tidemark`` of a registry is another one (``tidemark.installation``)."""

__all__ = [
    "KNOWN_DEFECTS",
    "Aggregate",
    "AuditResult",
    "Bound",
    "BrokenContract",
    "Chain",
    "Contract",
    "Deduplicate",
    "Delivery",
    "Field",
    "Filter",
    "Finding",
    "Join",
    "JoinKind",
    "KafkaRecord",
    "Limit",
    "Output",
    "RunIO",
    "RunOptions",
    "RunResult",
    "Side",
    "Source",
    "Term",
    "TestbedError",
    "TidemarkError",
    "UsageError",
    "Value",
    "Verdict",
    "WatermarkPolicy",
    "Where",
    "Window",
    "__version__",
    "audit",
    "avro_pair",
    "check",
    "csv_pair",
    "diagnose",
    "json_schema_pair",
    "protobuf_pair",
    "read_json",
    "report",
    "run",
]

_MODULES = {
    "tidemark.auditor.one_audit": ("AuditResult",),
    "tidemark.errors": ("BrokenContract", "TestbedError", "TidemarkError", "UsageError"),
    "tidemark.formats.avro_records": ("avro_pair",),
    "tidemark.formats.chain": (
        "Aggregate", "Chain", "Deduplicate", "Join", "Limit", "Source", "Value", "Where", "Window",
    ),
    "tidemark.formats.contract": (
        "Bound", "Contract", "Delivery", "Filter", "JoinKind", "Output", "Side", "Term", "WatermarkPolicy",
    ),
    "tidemark.formats.csv_records": ("csv_pair",),
    "tidemark.formats.json_reader": ("read_json",),
    "tidemark.formats.json_schema_records": ("json_schema_pair",),
    "tidemark.formats.kafka_record": ("KafkaRecord",),
    "tidemark.formats.protobuf_records": ("protobuf_pair",),
    "tidemark.formats.record_fields": ("Field",),
    "tidemark.formats.run_io": ("RunIO",),
    "tidemark.oracle.findings": ("Finding",),
    "tidemark.oracle.verdict": ("Verdict",),
    "tidemark.oracle.spark.known_defects": ("KNOWN_DEFECTS",),
    "tidemark.public_api": ("audit", "check", "diagnose", "report", "run"),
    "tidemark.runner.one_run": ("RunResult",),
    "tidemark.runner.run_options": ("RunOptions",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def _warn_of_another_distribution() -> None:
    """Warn if a distribution called ``tidemark`` is in the same folder: each has overwritten files of the other."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        names = os.listdir(folder)
    except OSError:
        return  # inside of a zip
    if others := [name for name in names if name.startswith("tidemark-") and name.endswith(".dist-info")]:
        warnings.warn(
            f"another distribution has files in {os.path.join(folder, 'tidemark')}: {', '.join(others)};"
            f" make an environment with {DISTRIBUTION} and without it",
            RuntimeWarning,
            stacklevel=2,
        )


_warn_of_another_distribution()


def __getattr__(name: str) -> Any:
    """A public name, from its module on first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, and what a module has of its own."""
    return sorted({*globals(), *__all__})
