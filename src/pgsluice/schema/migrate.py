"""
The numbered migrations of schema ``pgsluice`` on the source: which there are, which are applied.

Each is a file of :mod:`pgsluice.schema.migrations`, written so that running it again changes nothing. All
that are missing run in one transaction under an advisory lock, so there is no half-migrated source.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import NewerInstallationError, NotInitializedError, SourceError
from pgsluice.schema.match import OWN_SCHEMA

if TYPE_CHECKING:
    import psycopg

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_LOCK: Final = int.from_bytes(hashlib.sha256(b"pgsluice migrations").digest()[:8], signed=True)
_MADE_BY_US: Final = "made by pgsluice init"
"""The schema's comment; without it the schema was given to us and stays when we go."""

_MIGRATION_TABLE = """
    CREATE TABLE pgsluice.migration (
        version    integer PRIMARY KEY,
        name       text NOT NULL,
        checksum   text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
    )"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    checksum: str
    text: str


@cache
def available() -> tuple[Migration, ...]:
    """The migrations of this version of pgsluice, in order."""
    found = []
    for file in resources.files("pgsluice.schema.migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            checksum = hashlib.sha256(text.encode()).hexdigest()
            found.append(Migration(int(match[1]), match[2], checksum, text))
    return tuple(sorted(found, key=lambda migration: migration.version))


def installed_version(conn: psycopg.Connection[Any]) -> int | None:
    """The newest migration applied to this database; None when there is no installation."""
    # Not by to_regclass: it goes by what this session remembers, and may not have heard yet of what another
    # init has just committed while we waited for its lock.
    found = conn.execute(
        "SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = 'migration'",
        (OWN_SCHEMA,),
    ).fetchone()
    if found is None:
        return None
    row = conn.execute("SELECT coalesce(max(version), 0) FROM pgsluice.migration").fetchone()
    return row[0] if row else None


def require_current(conn: psycopg.Connection[Any]) -> None:
    """Raise unless this database is prepared for exactly this version of pgsluice."""
    version = installed_version(conn)
    if version is None:
        raise NotInitializedError(
            f"database {conn.info.dbname} is not prepared",
            remedy="Run: pgsluice init (or add --init to run)",
            database=conn.info.dbname,
        )
    refuse_newer(version)
    newest = available()[-1].version
    if version < newest:
        raise NotInitializedError(
            f"database {conn.info.dbname} was prepared by an older pgsluice "
            f"(schema {version}, needed {newest})",
            remedy="Run: pgsluice init --upgrade",
            installed=version,
            needed=newest,
        )


def migrate(conn: psycopg.Connection[Any], *, upgrade: bool = False) -> tuple[Migration, ...]:
    """
    Bring the schema to this version and say what was applied.

    A fresh database gets all migrations; an existing installation gets newer ones only with ``upgrade``.
    """
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = installed_version(conn)
        if version is None:
            _make_schema(conn)
        else:
            refuse_newer(version)
            _compare_checksums(conn)
            if not upgrade:
                require_current(conn)
        conn.execute("SET LOCAL pgsluice.skip_ddl = on")  # triggers that are there are changed themselves
        missing = tuple(migration for migration in available() if migration.version > (version or 0))
        for migration in missing:
            conn.execute(migration.text.encode())
            conn.execute(
                "INSERT INTO pgsluice.migration (version, name, checksum) VALUES (%s, %s, %s)",
                (migration.version, migration.name, migration.checksum),
            )
    return missing


def remove(conn: psycopg.Connection[Any]) -> bool:
    """Drop what the migrations made, and the schema when we made it; say whether the schema is gone."""
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if installed_version(conn) is not None:
            refuse_newer(installed_version(conn) or 0)
            conn.execute(resources.files("pgsluice.schema.migrations").joinpath("remove.sql").read_bytes())
        if not schema_exists(conn):
            return True
        if not schema_is_ours(conn) or _holds_anything(conn):
            return False
        conn.execute("DROP SCHEMA pgsluice")
    return True


def schema_exists(conn: psycopg.Connection[Any]) -> bool:
    """Whether there is a schema ``pgsluice``."""
    found = conn.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s", (OWN_SCHEMA,)).fetchone()
    return found is not None


def schema_is_ours(conn: psycopg.Connection[Any]) -> bool:
    """Whether ``init`` made the schema, rather than an administrator for it."""
    row = conn.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = %s",
        (OWN_SCHEMA,),
    ).fetchone()
    return row is not None and row[0] == _MADE_BY_US


def _make_schema(conn: psycopg.Connection[Any]) -> None:
    if not schema_exists(conn):
        conn.execute("CREATE SCHEMA pgsluice")
        conn.execute(f"COMMENT ON SCHEMA pgsluice IS '{_MADE_BY_US}'")
    elif _holds_anything(conn):
        raise SourceError(
            f"database {conn.info.dbname} has a schema pgsluice that is not an installation of pgsluice",
            remedy="Rename it (ALTER SCHEMA pgsluice RENAME TO …): that name is needed",
        )
    conn.execute(_MIGRATION_TABLE)


def _compare_checksums(conn: psycopg.Connection[Any]) -> None:
    known = {migration.version: migration.checksum for migration in available()}
    for version, checksum in conn.execute(
        "SELECT version, checksum FROM pgsluice.migration ORDER BY version"
    ):
        if known.get(version) != checksum:
            raise SourceError(
                f"migration {version} of database {conn.info.dbname} is not the one of this pgsluice",
                remedy="Use the version that ran init, or destroy with it and run init again",
                version=version,
            )


def refuse_newer(version: int) -> None:
    """Raise when the source was prepared by a newer pgsluice than this one."""
    newest = available()[-1].version
    if version > newest:
        raise NewerInstallationError(
            f"the source was prepared by a newer pgsluice (schema {version}, this one knows {newest})",
            remedy="Upgrade this pgsluice: pip install -U pgsluice",
            installed=version,
            needed=newest,
        )


def _holds_anything(conn: psycopg.Connection[Any]) -> bool:
    """Whether any object depends on the schema: tables, functions, types…"""
    row = conn.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d"
        " JOIN pg_catalog.pg_namespace n ON n.oid = d.refobjid"
        " WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND n.nspname = %s)",
        (OWN_SCHEMA,),
    ).fetchone()
    return bool(row and row[0])
