"""
Dropping what the target has of the source's objects, once, before the first copy.

What is not the source's is never taken along: if something else needs one of the objects, nothing is dropped.
That it was done is kept with the progress, in the one transaction that drops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import TargetSchemaError
from pgsluice.sinks.postgres.progress import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import NamedObject

logger = structlog.get_logger(__name__)

_DONE: Final = f"{SCHEMA}.cleaned"
_SHOWN: Final = 5  # of what is in the way


def clean(conn: Connection, pipeline: str, objects: Sequence[NamedObject]) -> None:
    """Drop the objects, inside of the caller's transaction, unless that was done for this pipeline."""
    conn.execute(f"CREATE TABLE IF NOT EXISTS {_DONE} (pipeline text PRIMARY KEY)")
    done = conn.execute(
        f"INSERT INTO {_DONE} VALUES (%s) ON CONFLICT DO NOTHING",  # noqa: S608 - a constant
        (pipeline,),
    )
    if done.rowcount == 0:
        return
    given = [
        list(each) for each in zip(*((o.kind, o.schema, o.name, o.arguments) for o in objects), strict=True)
    ]
    if not given:
        return
    conn.execute(_FIND, given)
    in_the_way = [row[0] for row in conn.execute(_IN_THE_WAY)]
    if in_the_way:
        more = f" and {len(in_the_way) - _SHOWN} more" if len(in_the_way) > _SHOWN else ""
        raise TargetSchemaError(
            f"clean would take along what is not the source's: {', '.join(in_the_way[:_SHOWN])}{more}",
            remedy="Drop it by hand if it may go, or set clean: false",
        )
    dropped = [row[0] for row in conn.execute(_DROPS)]
    for statement in dropped:
        conn.execute(statement.encode())
    conn.execute("DROP TABLE pg_temp.pgsluice_clean")
    logger.info("cleaned the target", objects=len(dropped))


_FIND: Final = """
CREATE TEMPORARY TABLE pgsluice_clean AS
SELECT found.* FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS o(kind, schema, name, arguments)
  JOIN pg_catalog.pg_namespace n ON n.nspname = o.schema
 CROSS JOIN LATERAL (
       SELECT c.tableoid AS classid, c.oid AS objid,
              CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                  WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END AS kind,
              pg_catalog.format('%%I.%%I', o.schema, o.name) AS quoted
         FROM pg_catalog.pg_class c
        WHERE o.kind = 'RELATION' AND c.relnamespace = n.oid AND c.relname = o.name
          AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
       UNION ALL
       SELECT t.tableoid, t.oid, 'TYPE', pg_catalog.format('%%I.%%I', o.schema, o.name)
         FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
        WHERE o.kind = 'TYPE' AND t.typnamespace = n.oid AND t.typname = o.name
          AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c')
       UNION ALL
       SELECT p.tableoid, p.oid, 'ROUTINE', pg_catalog.format('%%I.%%I(%%s)', o.schema, o.name, o.arguments)
         FROM pg_catalog.pg_proc p
        WHERE o.kind = 'ROUTINE' AND p.pronamespace = n.oid AND p.proname = o.name
          AND pg_catalog.pg_get_function_identity_arguments(p.oid) = o.arguments) found"""

# Parts of an object go with it, but a partition is a table of its own; whatever else needs one is in the way.
_IN_THE_WAY: Final = """
WITH RECURSIVE going(classid, objid) AS (
    SELECT classid, objid FROM pg_temp.pgsluice_clean
    UNION SELECT d.classid, d.objid FROM pg_catalog.pg_depend d
            JOIN going g ON d.refclassid = g.classid AND d.refobjid = g.objid
            LEFT JOIN pg_catalog.pg_class c
              ON c.tableoid = d.classid AND c.oid = d.objid AND c.relkind IN ('r', 'p', 'f')
           WHERE d.deptype IN ('a', 'i', 'P', 'S') AND c.oid IS NULL
)
SELECT DISTINCT i.type || ' ' || i.identity
  FROM pg_catalog.pg_depend d
  JOIN going g ON d.refclassid = g.classid AND d.refobjid = g.objid
  LEFT JOIN pg_catalog.pg_rewrite w ON w.tableoid = d.classid AND w.oid = d.objid
 CROSS JOIN LATERAL pg_catalog.pg_identify_object(
       CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_catalog.pg_class'::regclass END,
       coalesce(w.ev_class, d.objid), d.objsubid) i
 WHERE d.deptype IN ('n', 'a') AND NOT EXISTS (
       SELECT FROM going o WHERE o.classid = d.classid AND o.objid = d.objid)
 ORDER BY 1"""

_DROPS: Final = """
SELECT pg_catalog.format('DROP %s IF EXISTS %s CASCADE', kind, quoted) FROM pg_temp.pgsluice_clean"""
