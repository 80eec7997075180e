"""What an audit says beside what every verdict says: what was judged, what could not be, and why.

Free of work: words for numbers that the judge counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.formats.contract import Delivery
from tidemark.oracle import Verdict
from tidemark.oracle.audit_account import AuditAccount, RowOfTable

SHOWN = 3
"""Examples of rows shown; the tables beside the verdict have more."""
LEVELS = {
    "batches": "row by row and batch by batch",
    "rows": "row by row; the output names no batch",
    "ids": "as a multiset of ids; the output names no batch and no input record",
}


def audit_lines(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """The rows of the table that only an audit has."""
    audit = verdict.audit
    if not isinstance(audit, AuditAccount):
        return
    n = verdict.counts
    yield "judged", LEVELS[audit.level]
    yield "not due yet", f"{n.get('not_due', 0):,} NULL rows"
    open_rows = n.get("undetermined", 0), n.get("undetermined_absent", 0)
    yield "undetermined", f"{open_rows[0]:,} rows that came, {open_rows[1]:,} that did not"
    earlier = n.get("earlier_rows", 0), n.get("earlier_rows_absent", 0)
    if any(earlier):
        yield (
            "earlier rows",
            (
                f"{earlier[0]:,} rows that came, {earlier[1]:,} that did not, of batches before {audit.first_batch}"
            ),
        )
    if deleted := n.get("deleted_records", 0):
        yield "deleted", f"{deleted:,} records that the query read"
    if removed := n.get("removed_records", 0):
        yield "compacted", f"{removed:,} offsets that the query read have no record, and may have had one"


def audited_batches(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """From which batch on the query could be audited, and which batches were: the first that a reader has to know."""
    audit = verdict.audit
    if not isinstance(audit, AuditAccount):
        return
    trimmed = f"auditable from batch {audit.first_batch}; " if audit.first_batch else ""
    owed = "" if audit.owed_to == audit.to_batch else f"; rows are owed up to batch {audit.owed_to}"
    yield "audited", f"{trimmed}batch {audit.from_batch} to batch {audit.to_batch}{owed}"


def repeats(verdict: Verdict) -> str:
    """How many rows of the output came again, and how many of them are findings, and permitted."""
    totals = verdict.findings_total
    found = totals.get("duplicate_rows", 0) + totals.get("repeated_semi_rows", 0)
    came = verdict.counts.get("duplicates", 0)
    permitted = verdict.counts.get("permitted_duplicates", 0)
    more = f" and {permitted:,} are permitted" if permitted else ""
    return f"{came:,}, of which {found:,} are findings{more}"


def notes(verdict: Verdict) -> Iterator[str]:
    """Examples of rows that cannot be judged, and what could not be known, and did not have to be for this verdict."""
    audit = verdict.audit
    if not isinstance(audit, AuditAccount):
        return
    for row in audit.undetermined[:SHOWN]:
        yield f"undetermined: {_named(row)}: {row.why}"
    if verdict.delivery == Delivery.AT_LEAST_ONCE:
        for row in audit.repeated[:SHOWN]:
            yield f"duplicate: {_named(row)} {row.why}"
    for note in audit.notes:
        yield f"note: {note}"


def _named(row: RowOfTable) -> str:
    """A row by its ids and its place in the output."""
    ids = ", ".join("NULL" if value is None else value for value in row.row.values())
    return f"output {row.read} ({ids})" if ids else f"output {row.read}"
