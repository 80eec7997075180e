"""What redacted evidence keeps of a manifest, of headers, of the journal of faults and of Spark's reports.

Free of I/O. Kept is what is named here: what the judge reads, numbers, times, and names that tidemark, Spark or Kafka
gave (ids of queries, topics, operators). All else is left out, so that what is added to a format is not shown by
accident. Sentences are replaced by others that say what they were about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.chain import is_chain
from tidemark.formats.faults import Fault
from tidemark.formats.liveness import Hang
from tidemark.formats.manifest import Manifest, StateInfo
from tidemark.formats.redacted_evidence import Redaction
from tidemark.formats.run_notes import CHECKPOINT, GAPS, MADE_SMALLER, NOT_COMPARED, split_slice
from tidemark.formats.trace import Base64, HeaderValue
from tidemark.redaction.join_redaction import REDACTED
from tidemark.redaction.pseudonyms import Pseudonyms

HEADERS = ("query", "batch", "partition", "attempt")
"""Those that tidemark's sinks write; others are left out."""
VERSIONS = ("java", "kafka", "spark", "connector", "python", "tidemark", "registry", "backend")
_LEFT_OUT = "what it was is left out of redacted evidence"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII).fullmatch
_EXECUTOR = re.compile(r"\d+(?::\d+)?", re.ASCII).fullmatch
_ASPECT = re.compile(r"[a-z][a-z ]*", re.ASCII).match
_IDS = ("id", "runId")
_NUMBERS = ("batchId", "batchDuration", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")
_OF_SOURCE = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")
_OFFSETS = ("startOffset", "endOffset", "latestOffset")
_PROOF = ("planned", "committed", "ends", "ends_before", "ends_after", "ledger", "rows", "tried", "pid")


def kept_manifest(manifest: Manifest, contract: dict[str, Any], redaction: Redaction) -> Manifest:
    """A manifest without paths, commands, digests of code, and sentences; ``contract`` is that of the records."""
    return msgspec.structs.replace(
        manifest,
        contract=contract,
        redacted=redaction,
        trace_sha256=None,
        flush_sha256=None,
        parquet_sha256={},
        pipeline_sha256=None,
        project_sha256=None,
        command=None,
        versions={name: text for name, text in manifest.versions.items() if name in VERSIONS},
        notes=[*_notes(manifest.notes), *_state_left_out(manifest, contract)],
        plan_differs=[
            f"{_aspect(text)}: what each of them says is left out" for text in manifest.plan_differs
        ],
        state=None if manifest.state is None else _state(manifest.state, of_chain=is_chain(contract)),
        audit=None if manifest.audit is None else _audit(manifest.audit),
        hang=None if manifest.hang is None else _hang(manifest.hang),
    )


def kept_headers(
    headers: Sequence[tuple[str, HeaderValue]], query: str | None, pseudonyms: Pseudonyms
) -> list[tuple[str, HeaderValue]]:
    """The headers of an output record that name its query, batch and task."""
    return [(name, _header(name, value, query, pseudonyms)) for name, value in headers if name in HEADERS]


def kept_fault(fault: Fault) -> Fault:
    """A line of the journal without names of machines, processes and applications."""
    return msgspec.structs.replace(fault, proof=_proof(fault.proof))


def kept_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """A progress report of Spark with its numbers, times and offsets."""
    kept: dict[str, Any] = {name: report[name] for name in _NUMBERS if _is_number(report.get(name))}
    kept |= {name: report[name] for name in _IDS if _is_match(_UUID, report.get(name))}
    if _is_match(_TIME, report.get("timestamp")):
        kept["timestamp"] = report["timestamp"]
    for name in ("durationMs", "eventTime"):
        if isinstance(report.get(name), Mapping):
            kept[name] = _scalars(report[name])
    for name, keep in (("stateOperators", _operator), ("sources", _source)):
        if name in report:
            parts = report[name]
            kept[name] = [keep(one) for one in parts] if isinstance(parts, list) else REDACTED
    if isinstance(report.get("sink"), Mapping):
        kept["sink"] = _scalars(report["sink"])
    return kept


def _notes(notes: Sequence[str]) -> list[str]:
    kept = [note for note in notes if split_slice(note) is not None or note.startswith(MADE_SMALLER)]
    for begin in (NOT_COMPARED, GAPS, CHECKPOINT):
        kept += [f"{begin}a part of it; {_LEFT_OUT}" for note in notes if note.startswith(begin)]
    return kept


def _aspect(difference: str) -> str:
    """What contract and plan differ in (``keys``, ``bound``): the word in front of the sentence."""
    found = _ASPECT(difference)
    return found[0] if found and difference[found.end() :].startswith(": the contract says") else REDACTED


def _state_left_out(manifest: Manifest, contract: Mapping[str, Any]) -> list[str]:
    """Of a chain whose state was read, that it is left out."""
    has_state = manifest.state is not None and manifest.state.batches
    return [f"{NOT_COMPARED}the state: of a chain it is left out"] if is_chain(contract) and has_state else []


def _state(info: StateInfo, *, of_chain: bool) -> StateInfo:
    """What is said of a state; that of a chain is left out, for nobody knows which of its texts are times."""
    return msgspec.structs.replace(
        info,
        batches=[] if of_chain else info.batches,
        provider=info.provider if info.provider is None or info.provider.isidentifier() else REDACTED,
        problem=info.problem and _LEFT_OUT,
        note=info.note and _LEFT_OUT,
    )


def _audit(audit: AuditedQuery) -> AuditedQuery:
    return msgspec.structs.replace(
        audit,
        output_table=audit.output_table and REDACTED,
        output_removals=[f"rows may be gone from it: {_LEFT_OUT}" for _ in audit.output_removals],
        output_notes=[],
    )


def _hang(hang: Hang) -> Hang:
    """Times and batches; what was waited for may name topics, and thread stacks are not kept."""
    what = "more batches" if hang.owes_batches else "the end of the query"
    return msgspec.structs.replace(hang, waited_for=f"{what} ({_LEFT_OUT})", stacks=[])


def _header(name: str, value: HeaderValue, query: str | None, pseudonyms: Pseudonyms) -> HeaderValue:
    if value is None:
        return None
    text = value.base64.decode(errors="backslashreplace") if isinstance(value, Base64) else value
    if name == "query":
        return text if text == query or _UUID(text) else pseudonyms.of(text)
    return text if text.isascii() and text.isdecimal() and len(text) < 19 else REDACTED


def _proof(proof: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: _figures(proof[name]) for name in _PROOF if name in proof}
    if _is_match(_EXECUTOR, proof.get("executor_id")):
        kept["executor_id"] = proof["executor_id"]
    if isinstance(proof.get("executor_ids"), list):
        kept["executor_ids"] = [one for one in proof["executor_ids"] if _is_match(_EXECUTOR, one)]
    for name in ("in_effect", "overlap"):
        if isinstance(proof.get(name), Mapping):
            kept[name] = _scalars(proof[name])
    if isinstance(proof.get("again"), Mapping):
        kept["again"] = _proof(proof["again"])
    return kept


def _figures(value: Any) -> Any:
    """Numbers and what is true or false, in lists and by names; other text is replaced."""
    if isinstance(value, Mapping):
        return {name: _figures(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_figures(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else REDACTED


def _operator(operator: Any) -> Any:
    if not isinstance(operator, Mapping):
        return REDACTED
    kept = {
        name: value if _is_number(value) else REDACTED
        for name, value in operator.items()
        if name.startswith(("num", "all", "commitTime", "memory"))
    }
    text = operator.get("operatorName")
    if isinstance(text, str):
        kept["operatorName"] = text if text.isidentifier() else REDACTED
    custom = operator.get("customMetrics")
    return kept | ({"customMetrics": _scalars(custom)} if isinstance(custom, Mapping) else {})


def _source(source: Any) -> Any:
    if not isinstance(source, Mapping):
        return REDACTED
    kept: dict[str, Any] = {name: source[name] for name in _OF_SOURCE if _is_number(source.get(name))}
    return kept | {name: _offsets(source[name]) for name in _OFFSETS if name in source}


def _offsets(value: Any) -> Any:
    """Topic -> partition -> offset, as Spark reports it: as an object, or as the JSON of one."""
    try:
        ends = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return REDACTED
    kept = _figures(ends)
    return json.dumps(kept) if isinstance(value, str) else kept


def _scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and times of an object, by their names."""
    return {name: one for name, one in values.items() if _is_number(one) or _is_match(_TIME, one)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_match(pattern: Any, value: Any) -> bool:
    return isinstance(value, str) and pattern(value) is not None
