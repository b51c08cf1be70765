"""The records that ``init`` keeps on the source in schema ``pgsluice``: what it made for each pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError, NotInitializedError
from pgsluice.schema.migrate import installed_version, require_current
from pgsluice.source.names import default_name, require_slot_name
from pgsluice.source.publication import Publication, came_back, verify_publication
from pgsluice.source.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg


_JOINED: Final = "joined"


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """What ``init`` made, or found and uses, for one pipeline."""

    name: str
    slot: str
    slot_made: bool
    publication: str
    publication_oid: int
    publication_made: bool
    definition: dict[str, Any]
    selection: Selection
    slot_lsn: Lsn | None = None  # where the slot stood when we made it
    joined: Mapping[int, Lsn] = field(default_factory=dict)  # tables that came later, and where


@dataclass(frozen=True, slots=True)
class IdentityChange:
    """A table that got REPLICA IDENTITY FULL from us."""

    relid: int
    previous: str  # pg_class.relreplident


@dataclass(frozen=True, slots=True)
class Names:
    """What a pipeline's objects on the source are called."""

    slot: str
    publication: str
    selection: Selection | None = None  # what a publication of ours was made for


def resolve_names(
    conn: psycopg.Connection[Any], pipeline: str, slot: str | None, publication: str | None
) -> Names:
    """The names from an earlier init, else the given ones, else the defaults."""
    record = read_record(conn, pipeline) if installed_version(conn) is not None else None
    if record is None:
        default = default_name(pipeline, conn.info.dbname)
        return Names(require_slot_name(slot or default), publication or default)
    given = (("slot", slot, record.slot), ("publication", publication, record.publication))
    for what, wanted, kept in given:
        if wanted and wanted != kept:
            raise ConfigError(
                f"pipeline {pipeline} already has the {what} {kept}, not {wanted}",
                remedy="Run pgsluice destroy first, or give another --name",
            )
    return Names(record.slot, record.publication, record.selection if record.publication_made else None)


def read_record(conn: psycopg.Connection[Any], pipeline: str) -> PipelineRecord | None:
    """The record of a pipeline; None when ``init`` has not run for it."""
    row = conn.execute(
        "SELECT name, slot, slot_made, publication, publication_oid, publication_made,"
        " publication_definition, selection, slot_lsn::text FROM pgsluice.pipeline WHERE name = %s",
        (pipeline,),
    ).fetchone()
    if row is None:
        return None
    name, slot, slot_made, publication, oid, made, definition, selection, lsn = row
    joined = {int(relid): Lsn.parse(at) for relid, at in definition.pop(_JOINED, {}).items()}
    return PipelineRecord(
        name, slot, slot_made, publication, oid, made, definition, Selection.from_dict(selection),
        Lsn.parse(lsn) if lsn else None, joined,
    )  # fmt: skip


def require_pipeline(conn: psycopg.Connection[Any], name: str) -> PipelineRecord:
    """The record of a pipeline that is ready to run: installed, and its publication unchanged."""
    require_current(conn)
    record = read_record(conn, name)
    if record is None:
        raise NotInitializedError(
            f"there is no pipeline {name!r} in database {conn.info.dbname}", remedy=_init_line(conn, name)
        )
    verify_publication(conn, record.publication, record.definition)
    return record


def pipeline_names(conn: psycopg.Connection[Any]) -> tuple[str, ...]:
    """The pipelines of this database."""
    return tuple(row[0] for row in conn.execute("SELECT name FROM pgsluice.pipeline ORDER BY name"))


def write_record(conn: psycopg.Connection[Any], record: PipelineRecord) -> None:
    """Keep a new record."""
    conn.execute(
        "INSERT INTO pgsluice.pipeline"
        " (name, slot, slot_made, publication, publication_oid, publication_made,"
        " publication_definition, selection)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            record.name, record.slot, record.slot_made, record.publication, record.publication_oid,
            record.publication_made, Jsonb(record.definition), Jsonb(record.selection.as_dict()),
        ),
    )  # fmt: skip


def update_record(
    conn: psycopg.Connection[Any], record: PipelineRecord, publication: Publication, selection: Selection
) -> None:
    """Keep the publication's present definition, what it was made from, and since when it has its tables."""
    now = conn.execute("SELECT pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
    assert now is not None
    definition = publication.definition()
    joined = {}
    known = record.definition["tables"]
    for relid, table in definition["tables"].items():
        if relid not in known or came_back(known[relid], table):
            joined[relid] = now[0]
        elif int(relid) in record.joined:
            joined[relid] = str(record.joined[int(relid)])
    conn.execute(
        "UPDATE pgsluice.pipeline SET publication_definition = %s, selection = %s,"
        " updated_at = pg_catalog.now() WHERE name = %s",
        (Jsonb({**definition, _JOINED: joined}), Jsonb(selection.as_dict()), record.name),
    )


def write_slot_lsn(conn: psycopg.Connection[Any], slot: str, lsn: Lsn) -> None:
    """Keep where a slot that we made began."""
    conn.execute("UPDATE pgsluice.pipeline SET slot_lsn = %s WHERE slot = %s AND slot_made", (str(lsn), slot))


def delete_record(conn: psycopg.Connection[Any], name: str) -> None:
    """Forget a pipeline, and its identity changes."""
    conn.execute("DELETE FROM pgsluice.pipeline WHERE name = %s", (name,))


def write_identity_changes(
    conn: psycopg.Connection[Any], pipeline: str, changes: Iterable[IdentityChange]
) -> None:
    """Keep which tables got FULL."""
    for change in changes:
        conn.execute(
            "INSERT INTO pgsluice.identity_change (pipeline, relid, previous) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (pipeline, change.relid, change.previous),
        )


def read_identity_changes(conn: psycopg.Connection[Any], pipeline: str) -> tuple[IdentityChange, ...]:
    """The tables that got FULL from us for this pipeline."""
    rows = conn.execute(
        "SELECT relid, previous::text FROM pgsluice.identity_change WHERE pipeline = %s ORDER BY relid",
        (pipeline,),
    )
    return tuple(IdentityChange(*row) for row in rows)


def pass_identity_change_on(conn: psycopg.Connection[Any], pipeline: str, relid: int) -> None:
    """Let another pipeline, when there is one, undo a change that is still needed."""
    conn.execute(
        "INSERT INTO pgsluice.identity_change (pipeline, relid, previous)"
        " SELECT other.name, c.relid, c.previous FROM pgsluice.identity_change c,"
        " (SELECT name FROM pgsluice.pipeline WHERE name <> %(name)s ORDER BY created_at LIMIT 1) other"
        " WHERE c.pipeline = %(name)s AND c.relid = %(relid)s ON CONFLICT DO NOTHING",
        {"name": pipeline, "relid": relid},
    )


def _init_line(conn: psycopg.Connection[Any], name: str) -> str:
    others = pipeline_names(conn)
    known = f" There are: {', '.join(others)}" if others else ""
    return f"Run pgsluice init with the same options or file (pipeline {name}), or add --init.{known}"
