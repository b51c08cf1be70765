"""
The publication: made, read, compared and kept up to date.

What it holds is decided in :mod:`pgsluice.source.selection`; a publication that somebody else made is only
read and compared, never altered. Its definition is kept with the pipeline's record, because a changed or
recreated publication makes rows silently absent from the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from pgsluice.errors import (
    MissingRightError,
    PublicationChangedError,
    PublicationMissingError,
    UnsupportedServerError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pgsluice.source.identity import SourceTable
    from pgsluice.source.selection import Selection

SCHEMAS_FROM = 150000
"""FOR TABLES IN SCHEMA, row filters and column lists came with this version."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that a publication names."""

    relid: int
    name: str  # schema.name, for people: a rename changes it, the number stays
    row_filter: str | None
    columns: tuple[str, ...] | None
    entry: int  # pg_publication_rel.oid: another one means that it was taken off and put back


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication as the catalog has it."""

    oid: int
    name: str
    all_tables: bool
    actions: str  # a subset of "iudt"
    via_root: bool
    generated: str  # which generated columns are published: "n" or "s"
    schemas: tuple[str, ...]
    tables: tuple[PublishedTable, ...]

    def definition(self) -> dict[str, Any]:
        """Plain data for the record on the source."""
        return {
            "oid": self.oid,
            "all_tables": self.all_tables,
            "actions": self.actions,
            "via_root": self.via_root,
            "generated": self.generated,
            "schemas": list(self.schemas),
            "tables": {
                str(t.relid): [t.name, t.row_filter, None if t.columns is None else list(t.columns), t.entry]
                for t in self.tables
            },
        }


def read_publication(conn: psycopg.Connection[Any], name: str) -> Publication | None:
    """The publication of that name, or None."""
    row = conn.execute(
        "SELECT oid, to_jsonb(p) FROM pg_catalog.pg_publication p WHERE pubname = %s", (name,)
    ).fetchone()
    if row is None:
        return None
    oid, facts = row
    letters = {"i": "pubinsert", "u": "pubupdate", "d": "pubdelete", "t": "pubtruncate"}
    generated = facts.get("pubgencols")  # 18: a letter
    return Publication(
        oid,
        name,
        facts["puballtables"],
        "".join(letter for letter, column in letters.items() if facts[column]),
        facts["pubviaroot"],
        generated if isinstance(generated, str) else "n",
        _schemas(conn, oid),
        _tables(conn, oid),
    )


def require_publication(conn: psycopg.Connection[Any], name: str, oid: int | None = None) -> Publication:
    """The publication of that name, and of that ``oid`` when given; else an error."""
    found = read_publication(conn, name)
    if found is None:
        raise PublicationMissingError(
            f"publication {name} does not exist in database {conn.info.dbname}",
            remedy=f"What was written since it went is not in the stream. {_START_AGAIN}",
            publication=name,
        )
    if oid is not None and found.oid != oid:
        raise PublicationChangedError(
            f"publication {name} was dropped and created again",
            remedy=f"What was written in between is not in the stream. {_START_AGAIN}",
            publication=name,
        )
    return found


def create_publication(
    conn: psycopg.Connection[Any], name: str, selection: Selection, entries: Sequence[SourceTable]
) -> Publication:
    """Make a publication; a role without the right gets the statement for somebody who has it."""
    if selection.scope == "schemas" and conn.info.server_version < SCHEMAS_FROM:
        raise UnsupportedServerError(
            "FOR TABLES IN SCHEMA needs PostgreSQL 15 or newer",
            remedy="Name the tables instead: " + " ".join(f"--tables '{s}.*'" for s in selection.schemas),
        )
    statement = sql.SQL("CREATE PUBLICATION {}{} WITH (publish_via_partition_root = false)").format(
        sql.Identifier(name), _for_clause(selection, entries)
    )
    conn.execute("SET pgsluice.skip_ddl = on")  # it is no object of the source
    _run(conn, statement, f"create publication {name}", f"--publication {name}")
    conn.execute("SET pgsluice.skip_ddl = off")
    return require_publication(conn, name)


def refresh_publication(
    conn: psycopg.Connection[Any], publication: Publication, entries: Sequence[SourceTable]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Bring a list that we made to ``entries``; the names of what was added and what was dropped."""
    wanted = {table.relid: table for table in entries}
    present = {table.relid: table for table in publication.tables}
    added = [table for relid, table in wanted.items() if relid not in present]
    dropped = [table for relid, table in present.items() if relid not in wanted]
    doing = f"change publication {publication.name}"
    if dropped:
        _alter(conn, publication, "DROP", _names_of(conn, [table.relid for table in dropped]), doing)
    if added:
        _alter(conn, publication, "ADD", _quoted(added), doing)
    return tuple(table.qualified for table in added), tuple(table.name for table in dropped)


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any], existing: Iterable[int]) -> list[str]:
    """
    How a definition differs from the recorded one, in words.

    A table that is no longer there at all went by DROP TABLE, which takes it off every list: no difference.
    """
    found = [
        f"{words} changed from {recorded[key]} to {now[key]}"
        for key, words in _COMPARED.items()
        if recorded[key] != now[key]
    ]
    before, after = recorded["tables"], now["tables"]
    alive = {str(relid) for relid in existing}
    found += [
        f"{before[relid][0]} was taken off" for relid in before if relid not in after and relid in alive
    ]
    found += [f"{after[relid][0]} was added" for relid in after if relid not in before]
    for relid in before.keys() & after.keys():
        if before[relid][1:3] != after[relid][1:3]:
            found.append(f"row filter or column list of {after[relid][0]} changed")
        elif came_back(before[relid], after[relid]):
            found.append(f"{after[relid][0]} was taken off and put back")
    return sorted(found)


def came_back(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether a table was off the list in between: what was written then is not in the stream."""
    return bool(before[3] != after[3])


def verify_publication(conn: psycopg.Connection[Any], name: str, recorded: Mapping[str, Any]) -> Publication:
    """The publication, when it is still the recorded one; else an error that says what is different."""
    now = require_publication(conn, name, recorded["oid"])
    relids = [int(relid) for relid in recorded["tables"]]
    if changes := differences(recorded, now.definition(), _existing(conn, relids)):
        raise PublicationChangedError(
            f"publication {name} was changed by somebody else: {'; '.join(changes)}",
            remedy="Undo that, or run pgsluice init again to go on with it as it is now",
            publication=name,
            changes=changes,
        )
    return now


_START_AGAIN = "Run pgsluice destroy, then init, and copy the tables again"

_COMPARED = {
    "all_tables": "FOR ALL TABLES",
    "actions": "the list of published operations",
    "via_root": "publish_via_partition_root",
    "generated": "publish_generated_columns",
    "schemas": "the list of schemas",
}


def _existing(conn: psycopg.Connection[Any], relids: list[int]) -> set[int]:
    rows = conn.execute("SELECT oid FROM pg_catalog.pg_class WHERE oid = ANY(%s::oid[])", (relids,))
    return {row[0] for row in rows}


def _schemas(conn: psycopg.Connection[Any], oid: int) -> tuple[str, ...]:
    if conn.info.server_version < SCHEMAS_FROM:
        return ()
    rows = conn.execute(
        "SELECT n.nspname FROM pg_catalog.pg_publication_namespace p"
        " JOIN pg_catalog.pg_namespace n ON n.oid = p.pnnspid WHERE p.pnpubid = %s ORDER BY 1",
        (oid,),
    )
    return tuple(row[0] for row in rows)


def _tables(conn: psycopg.Connection[Any], oid: int) -> tuple[PublishedTable, ...]:
    newer = conn.info.server_version >= SCHEMAS_FROM
    rows = conn.execute(_TABLES + (_FILTER_AND_COLUMNS if newer else ", NULL, NULL") + _FROM_TABLES, (oid,))
    return tuple(PublishedTable(r, n, f, None if c is None else tuple(c), e) for r, n, e, f, c in rows)


_TABLES = "SELECT c.oid, n.nspname || '.' || c.relname, p.oid"
_FILTER_AND_COLUMNS = """,
       pg_catalog.pg_get_expr(p.prqual, p.prrelid),
       (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = p.prrelid AND a.attnum = ANY(p.prattrs::int2[]) AND p.prattrs IS NOT NULL)"""
_FROM_TABLES = """
  FROM pg_catalog.pg_publication_rel p
  JOIN pg_catalog.pg_class c ON c.oid = p.prrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE p.prpubid = %s ORDER BY 2"""


def _for_clause(selection: Selection, entries: Sequence[SourceTable]) -> sql.Composable:
    if selection.scope == "all":
        return sql.SQL(" FOR ALL TABLES")
    if selection.scope == "schemas":
        names = sql.SQL(", ").join(sql.Identifier(schema) for schema in selection.schemas)
        return sql.SQL(" FOR TABLES IN SCHEMA {}").format(names)
    if not entries:
        return sql.SQL("")
    return sql.SQL(" FOR TABLE {}").format(sql.SQL(", ").join(_quoted(entries)))


def _quoted(tables: Iterable[SourceTable]) -> list[sql.Composable]:
    # ONLY: children by inheritance are tables of their own, each with its own identity.
    return [sql.SQL("ONLY {}").format(sql.Identifier(table.schema, table.name)) for table in tables]


def _names_of(conn: psycopg.Connection[Any], relids: list[int]) -> list[sql.Composable]:
    rows = conn.execute(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s::oid[])",
        (relids,),
    )
    return [sql.SQL("ONLY {}").format(sql.Identifier(*row)) for row in rows]


def _alter(
    conn: psycopg.Connection[Any],
    publication: Publication,
    verb: str,
    names: list[sql.Composable],
    doing: str,
) -> None:
    if names:
        statement = sql.SQL("ALTER PUBLICATION {} {} TABLE {}").format(
            sql.Identifier(publication.name), sql.SQL(verb), sql.SQL(", ").join(names)
        )
        _run(conn, statement, doing, "")


def _run(conn: psycopg.Connection[Any], statement: sql.Composed, doing: str, flag: str) -> None:
    try:
        conn.execute(statement)
    except InsufficientPrivilege as exc:
        text = statement.as_string(conn)
        then = f" Then run pgsluice init {flag}" if flag else " Then run pgsluice init again"
        raise MissingRightError(
            f"the role {conn.info.user} may not {doing}: {exc.diag.message_primary}",
            remedy=f"Run as the tables' owner or an administrator: {text};{then}",
            statement=text,
        ) from exc
