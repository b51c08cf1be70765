"""
What of a target's table would act on rows that are written by a role that can't make it stand aside.

Triggers and rules would do again what they did on the source, and so would foreign keys that delete or change
rows by themselves: such a table is refused. Foreign keys that only check can stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.errors import TargetError
from pgsluice.sinks.postgres.names import identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion

GRANT: Final = "GRANT SET ON PARAMETER session_replication_role TO <role>"

_ACTING: Final = """
WITH part AS (SELECT relid::oid AS oid FROM pg_catalog.pg_partition_tree(%(oid)s) UNION SELECT %(oid)s::oid)
SELECT 'the trigger ' || t.tgname FROM pg_catalog.pg_trigger t JOIN part ON part.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
UNION SELECT 'the rule ' || w.rulename FROM pg_catalog.pg_rewrite w JOIN part ON part.oid = w.ev_class
 WHERE w.ev_enabled IN ('O', 'A')
UNION SELECT 'the foreign key ' || f.conname
  FROM pg_catalog.pg_constraint f JOIN part ON part.oid = f.confrelid
 WHERE f.contype = 'f' AND (f.confdeltype <> 'a' OR f.confupdtype <> 'a')
ORDER BY 1"""

_CHECKED: Final = """
SELECT FROM pg_catalog.pg_constraint f
  JOIN (SELECT relid::oid AS oid FROM pg_catalog.pg_partition_tree(%(oid)s) UNION SELECT %(oid)s::oid) part
    ON part.oid IN (f.conrelid, f.confrelid)
 WHERE f.contype = 'f' LIMIT 1"""


_TIED: Final = """
WITH RECURSIVE pair AS (
    SELECT conrelid AS one, confrelid AS other FROM pg_catalog.pg_constraint WHERE contype = 'f'
    UNION SELECT confrelid, conrelid FROM pg_catalog.pg_constraint WHERE contype = 'f'
    UNION SELECT inhrelid, inhparent FROM pg_catalog.pg_inherits
    UNION SELECT inhparent, inhrelid FROM pg_catalog.pg_inherits
), tied AS (
    SELECT pg_catalog.to_regclass(named)::oid AS oid FROM unnest(%s::text[]) AS named
    UNION SELECT pair.other FROM tied JOIN pair ON pair.one = tied.oid
)
SELECT n.nspname, c.relname
FROM tied
JOIN pg_catalog.pg_class c ON c.oid = tied.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"""


def tied_tables(conn: Connection, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The tables that foreign keys tie to some others, by any number of steps."""
    names = [identifier(*name).as_string() for name in tables]
    return {(schema, name) for schema, name in conn.execute(_TIED, (names,))}


def is_checked(conn: Connection, oid: int) -> bool:
    """Whether a foreign key looks at the table's rows."""
    return conn.execute(_CHECKED, {"oid": oid}).rowcount > 0


def require_passive(conn: Connection, oid: int, version: TableVersion) -> None:
    """Raise if something of the table would act on its own."""
    acting = [row[0] for row in conn.execute(_ACTING, {"oid": oid})]
    if acting:
        raise TargetError(
            f"{', '.join(acting)} of {version.qualified} would do again what was done on the source, and the "
            "role of the target may not set session_replication_role",
            remedy=f"Connect as a superuser, or from PostgreSQL 15 on: {GRANT}; or switch it off: ALTER "
            "TABLE … DISABLE TRIGGER <name>, and make foreign keys without CASCADE, SET or RESTRICT",
            table=version.qualified,
        )
