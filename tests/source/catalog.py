"""A small shop to prepare, and what a test compares to see that nothing was left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.source.selection import Selection

if TYPE_CHECKING:
    from tests.fix_pg import Database

SHOP = (
    "CREATE TABLE customer (id int PRIMARY KEY, name text)",
    "CREATE TABLE audit (at timestamptz, what text)",
    "CREATE TABLE sale (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
    "CREATE TABLE event (id int, day date) PARTITION BY RANGE (day)",
    "CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
    "CREATE UNLOGGED TABLE cache (id int PRIMARY KEY)",
    "CREATE SCHEMA crm",
    'CREATE TABLE crm."Lead" (id int PRIMARY KEY)',
    "INSERT INTO audit VALUES (now(), 'start')",
)
WRITES = ("UPDATE audit SET what = 'x'", "DELETE FROM audit WHERE what = 'y'", "UPDATE event SET id = 2")
FULL = Selection(keyless="full")

_QUERIES = (
    "SELECT oid, nspname, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast_temp)'",
    "SELECT oid, relname, relnamespace, relreplident, relkind, relacl::text FROM pg_class WHERE oid >= 16384",
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
