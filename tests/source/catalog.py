"""What a test compares to see that nothing was left behind on a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fix_pg import Database

_QUERIES = (
    "SELECT oid, nspname, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast_temp)'",
    "SELECT oid, relname, relnamespace, relreplident, relkind, relacl::text, reloptions"
    " FROM pg_class WHERE oid >= 16384",
    "SELECT oid, * FROM pg_publication",
    "SELECT prpubid, prrelid FROM pg_publication_rel",
    "SELECT oid, proname FROM pg_proc WHERE oid >= 16384",
    "SELECT oid, evtname FROM pg_event_trigger",
    "SELECT objoid, classoid, description FROM pg_description WHERE objoid >= 16384",
    "SELECT oid, typname FROM pg_type WHERE oid >= 16384",
    "SELECT slot_name, plugin FROM pg_replication_slots WHERE database = current_database()",
    "SELECT rolname, rolreplication FROM pg_roles",
    (
        "SELECT setrole, setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
        " WHERE d.datname = current_database()"
    ),
)


def catalog(database: Database) -> list[list[str]]:
    """Everything that init could have changed, as comparable rows."""
    return [sorted(str(row) for row in database.rows(query)) for query in _QUERIES]
