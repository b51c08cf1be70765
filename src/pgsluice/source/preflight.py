"""
``pgsluice check`` of a source: everything that would stop a run or make it lose rows, before it starts.

Each concern has its module: :mod:`~pgsluice.source.check_server`, :mod:`~pgsluice.source.check_rights`,
:mod:`~pgsluice.source.check_contents`. ``init`` runs the same checks and raises the first error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import (
    ConfigError,
    MissingRightError,
    PoolerError,
    SluiceError,
    SourceError,
    UnsafePublicationError,
    UnsupportedServerError,
    WalLevelError,
)
from pgsluice.schema.migrate import installed_version, refuse_newer
from pgsluice.source.check_contents import (
    check_encoding,
    check_event_triggers,
    check_existing_publication,
    check_never_streamed,
    check_plan,
)
from pgsluice.source.check_rights import check_replication, check_rights
from pgsluice.source.check_server import check_server
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.finding import Finding
from pgsluice.source.identity import SourceTable, read_tables
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.source.publication import read_publication
from pgsluice.source.records import Names, resolve_names
from pgsluice.source.selection import Selection
from pgsluice.source.slot import read_slot, require_usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg

_ERRORS: Final[Mapping[str, type[SluiceError]]] = {
    "create-right": MissingRightError,
    "encoding": SourceError,
    "failover": UnsupportedServerError,
    "ownership": MissingRightError,
    "pooler": PoolerError,
    "row-security": MissingRightError,
    "select-right": MissingRightError,
    "standby": UnsupportedServerError,
    "unsafe-publication": UnsafePublicationError,
    "wal-level": WalLevelError,
}
"""Which error ``init`` raises for a finding; a plain SourceError for others."""

_ORDER: Final = {"error": 0, "warning": 1, "info": 2}


def check_source(
    url: str,
    selection: Selection | None = None,
    *,
    name: str = DEFAULT_PIPELINE,
    slot: str | None = None,
    publication: str | None = None,
    failover: bool = False,
) -> list[Finding]:
    """Everything about a source that stands in the way, worst first; never raises for what it finds."""
    try:
        with source_errors(url, "check the database"), connect(url) as conn:
            refuse_newer(installed_version(conn) or 0)
            names = resolve_names(conn, name, slot, publication)
            return check_connection(conn, url, selection or Selection(), names, failover=failover)
    except (SourceError, ConfigError) as exc:
        return [Finding("connection", "error", exc.message, exc.remedy, {"error": exc.code, **exc.fields})]


def check_connection(
    conn: psycopg.Connection[Any],
    url: str,
    selection: Selection,
    names: Names,
    *,
    failover: bool,
) -> list[Finding]:
    """The checks over a connection that is already open."""
    findings = list(check_server(conn, slot=names.slot, failover=failover))
    findings += check_replication(conn, url)
    findings += _check_slot(conn, names.slot)
    tables = read_tables(conn)
    existing = read_publication(conn, names.publication)
    if existing is None:
        plan, of_plan = check_plan(tables, selection, conn.info.server_version)
        findings += of_plan
        chosen: Sequence[SourceTable] = plan.published if plan else ()
        entries: Sequence[SourceTable] = plan.entries if plan else ()
    else:
        published = _published(conn, existing.name)
        chosen = [table for table in tables if table.relid in published]
        entries = ()
        findings += check_existing_publication(tables, published)
        if names.selection is not None:
            _, of_plan = check_plan(tables, names.selection, conn.info.server_version)
            findings += [each for each in of_plan if each.code == "identity"]
    findings += check_rights(conn, chosen, entries)
    findings += check_encoding(conn, chosen)
    findings += check_never_streamed(conn)
    findings += check_event_triggers(conn)
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def _check_slot(conn: psycopg.Connection[Any], name: str) -> Iterator[Finding]:
    state = read_slot(conn, name)
    if not state.exists:
        return
    try:
        require_usable(state, conn.info.dbname)
    except SourceError as exc:
        yield Finding("slot", "error", exc.message, exc.remedy, {"error": exc.code, **exc.fields})


def raise_first_error(findings: Sequence[Finding]) -> None:
    """Raise the error that belongs to the first finding that would stop a run."""
    for finding in findings:
        if finding.severity == "error":
            kind = _ERRORS.get(finding.code) or _by_code(finding.fields.get("error", ""))
            fields = {name: value for name, value in finding.fields.items() if name != "error"}
            raise kind(finding.what, remedy=finding.remedy, **fields)


def _by_code(code: str) -> type[SluiceError]:
    kinds: list[type[SluiceError]] = [SluiceError]
    for kind in kinds:
        if kind.code == code:
            return kind
        kinds += kind.__subclasses__()
    return SourceError


def _published(conn: psycopg.Connection[Any], name: str) -> set[int]:
    rows = conn.execute(
        "SELECT c.oid FROM pg_catalog.pg_publication_tables t"
        " JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname"
        " JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename"
        " WHERE t.pubname = %s AND n.nspname <> 'pgsluice'",
        (name,),
    )
    return {row[0] for row in rows}
