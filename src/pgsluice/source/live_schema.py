"""The objects of a source as they are now, and which of them a pipeline carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.describe import known_objects, objects_of_source
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.event_triggers import has_triggers
from pgsluice.source.identity import read_tables
from pgsluice.source.records import require_pipeline
from pgsluice.source.selection import schema_only
from pgsluice.source.snapshot.tables import owned_sequences, published_tables, tables_besides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.describe import ObjectKey, Objects
    from pgsluice.schema.entry import Definition
    from pgsluice.schema.renames import TableName
    from pgsluice.source.records import PipelineRecord


@dataclass(frozen=True, slots=True)
class LiveSchema:
    """What a source has."""

    version: int  # of the server
    objects: Objects
    replicated: Objects  # those that a target gets
    known: Objects | None  # as the event triggers saw them last; None without triggers
    owned: Mapping[TableName, TableName]  # the table that a sequence belongs to


def read_live_schema(url: str, pipeline: str, wanted: Callable[[str, str], bool]) -> LiveSchema:
    """Read the catalog; ``wanted`` says which tables go on, by schema and name."""
    with source_errors(url, "read the schema"), connect(url) as conn, conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        record = require_pipeline(conn, pipeline)
        objects = objects_of_source(conn)
        without = _not_replicated(conn, record, wanted)
        replicated = {
            key: _without_keys_to(each, without) for key, each in objects.items() if key not in without
        }
        known = known_objects(conn) if has_triggers(conn) else None
        return LiveSchema(conn.info.server_version, objects, replicated, known, owned_sequences(conn))


def _not_replicated(
    conn: Connection, record: PipelineRecord, wanted: Callable[[str, str], bool]
) -> set[ObjectKey]:
    """The tables that are not carried, with everything that needs them."""
    carried = [
        table.relation.relid
        for table in published_tables(conn, record.publication)
        if wanted(table.relation.schema, table.relation.name)
    ]
    definitions = [table.relid for table in schema_only(read_tables(conn), record.selection)]
    besides = tables_besides(conn, [*carried, *definitions])
    return {(catalog, oid) for catalog, oid in conn.execute(_NEEDING, (besides,))}


def _without_keys_to(definition: Definition, without: set[ObjectKey]) -> Definition:
    """A table without its foreign keys to tables that are not carried."""
    constraints: list[dict[str, Any]] = definition.get("constraints", [])
    kept = [each for each in constraints if ("pg_constraint", each["id"]) not in without]
    if len(kept) == len(constraints):
        return definition
    rest = {key: value for key, value in definition.items() if key != "constraints"}
    return {**rest, "constraints": kept} if kept else rest


# Views need tables by their rules. Not by types: a table with a column of another's row type is still there.
_NEEDING: Final = """
WITH RECURSIVE gone(class, object) AS (
    SELECT 'pg_class'::regclass::oid, name::regclass::oid FROM unnest(%s::text[]) AS name
    UNION
    SELECT CASE WHEN w.rulename = '_RETURN' THEN 'pg_class'::regclass::oid ELSE d.classid END,
           CASE WHEN w.rulename = '_RETURN' THEN w.ev_class ELSE d.objid END
      FROM gone
      JOIN pg_catalog.pg_depend d ON d.refclassid = gone.class AND d.refobjid = gone.object
      LEFT JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
     WHERE gone.class = 'pg_class'::regclass
)
SELECT class::regclass::text, object::int8 FROM gone"""
