"""
The tables of the target: made when they are missing, widened by new columns, compared with what rows need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from psycopg import sql

from pgsluice.errors import TargetError, TargetSchemaError
from pgsluice.schema.match import OWN_SCHEMA
from pgsluice.schema.type_names import display_name
from pgsluice.sinks.postgres.names import identifier, listed, type_name
from pgsluice.sinks.postgres.obstacles import is_checked, require_passive
from pgsluice.sinks.postgres.proof import Rule, deferrable_rules
from pgsluice.sinks.ready import ReadyTables, table_gone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import Column, TableVersion

logger = structlog.get_logger(__name__)

_TABLE: Final = """
SELECT c.oid, EXISTS (
    SELECT FROM pg_catalog.pg_constraint f
    WHERE f.contype = 'f' AND f.confrelid = c.oid AND f.conrelid <> c.oid
), c.relkind = 'p', pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class c
WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident(%s)) AND c.relname = %s
"""
# The type's own name and no modifier: a cast to varchar(3) would cut a value off that the column refuses.
# Its own equality too, by schema: the search path is empty, and that of an extension's type is elsewhere.
_COLUMNS: Final = """
SELECT a.attname, pg_catalog.format('%%I.%%I', n.nspname, t.typname),
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated <> '',
       coalesce((
           SELECT pg_catalog.format('OPERATOR(%%I.=)', s.nspname)
           FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace s ON s.oid = o.oprnamespace
           WHERE o.oprname = '=' AND o.oprleft = base.oid AND o.oprright = base.oid
       ), '=')
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
CROSS JOIN LATERAL (
    WITH RECURSIVE under(oid, base) AS (
        SELECT t.oid, t.typbasetype
        UNION ALL SELECT d.oid, d.typbasetype FROM under JOIN pg_catalog.pg_type d ON d.oid = under.base
    ) SELECT oid FROM under WHERE base = 0
) base
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
# Columns of built-in types that lead an index of all rows, which finds them by the type's own equality.
_INDEXED: Final = """
SELECT a.attname
FROM pg_catalog.pg_index x
JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
JOIN pg_catalog.pg_opclass c ON c.oid = x.indclass[0]
JOIN pg_catalog.pg_am m ON m.oid = c.opcmethod
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE x.indrelid = %s AND x.indisvalid AND x.indpred IS NULL AND m.amname = 'btree' AND c.opcdefault
  AND x.indcollation[0] = a.attcollation AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace
  AND t.typcategory <> 'A'  -- an array of arrays is one array: its elements are no keys
"""

# Types whose binary format is the same in every version, and needs no look at what else the server has.
_SAME_BYTES: Final = frozenset(
    {
        *(
            "bool",
            "int2",
            "int4",
            "int8",
            "float4",
            "float8",
            "numeric",
            "text",
            "varchar",
            "bpchar",
            "bytea",
        ),
        *("date", "time", "timetz", "timestamp", "timestamptz", "uuid", "json", "jsonb"),
    }
)


class ExistingColumn(NamedTuple):
    """A column as the target has it."""

    type: str
    stored: str
    generated: bool
    equality: str


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table as the target has it."""

    partitioned: bool
    columns: Mapping[str, ExistingColumn]  # by name


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a table of the target that is written."""

    index: int  # among the version's columns
    name: str
    type: sql.SQL  # without modifier
    stored: sql.SQL  # with it: how values look once they are in
    equality: sql.SQL  # the operator

    @property
    def identifier(self) -> sql.Identifier:
        """The name as SQL."""
        return identifier(self.name)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the target, as rows of one table version are written to it."""

    version: TableVersion
    name: sql.Identifier
    columns: tuple[TargetColumn, ...]  # those that are written: the target fills generated ones itself
    key: tuple[TargetColumn, ...]  # the merge key
    referenced: bool  # by a foreign key of another table, which TRUNCATE would refuse
    partitioned: bool = False
    checked: bool = False  # by foreign keys, while rows are written
    rules: tuple[Rule, ...] = ()  # that the server does not check while rows are written
    finds_by_array: bool = False  # whether an index finds the rows of an array of keys

    @property
    def rows(self) -> sql.Composed:
        """Where its rows are: not in tables that inherit, but in partitions, if it has them."""
        return sql.SQL("{}" if self.partitioned else "ONLY {}").format(self.name)

    @property
    def takes_binary(self) -> bool:
        """Whether rows can come in the binary format of the source's columns."""
        return all(
            kind.schema == "pg_catalog"
            and kind.name in _SAME_BYTES
            and column.type.as_string().replace('"', "") == f"pg_catalog.{kind.name}"
            for column in self.columns
            for kind in [self.version.columns[column.index].type]
        )

    @property
    def emptying(self) -> sql.Composed:
        """The statement that removes all rows."""
        return sql.SQL("DELETE FROM {}" if self.referenced or self.checked else "TRUNCATE {}").format(
            self.rows
        )


class Tables(ReadyTables[TargetTable]):
    """Knows the tables of one target over one connection."""

    def __init__(
        self, conn: Connection, *, aside: bool = True, follows: bool = True, makes: bool = True
    ) -> None:
        super().__init__(self._make_ready)
        self._conn = conn
        self._aside = aside  # whether triggers and foreign keys are switched off
        self._follows = follows  # whether tables become what rows need
        self._makes = makes  # whether tables that are not there are made

    def _make_ready(self, version: TableVersion, held: bool) -> TargetTable:
        name = identifier(version.schema, version.name)
        found = self._find(version)
        if found is None:
            if held or not self._makes:
                raise table_gone(version)
            self._create(version, name)
            found = self._find(version)
            assert found is not None
        oid, referenced, partitioned, hides_rows = found
        if hides_rows:
            raise _hidden(version)
        if not self._aside:
            require_passive(self._conn, oid, version)
        existing = self._columns(oid)
        if self._follows and self._follow(version, name, existing):
            existing = self._columns(oid)
        _check_missing(version, existing, follows=self._follows)
        _check_dropped(version, existing)
        columns = tuple(
            TargetColumn(
                index, column.name, type_name(held.type), type_name(held.stored), type_name(held.equality)
            )
            for index, column in enumerate(version.columns)
            for held in [existing[column.name]]
        )
        return TargetTable(
            version,
            name,
            tuple(column for column in columns if not existing[column.name].generated),
            tuple(columns[index] for index in version.merge_key),
            referenced,
            partitioned,
            not self._aside and is_checked(self._conn, oid),
            deferrable_rules(self._conn, oid) if self._aside else (),
            finds_by_array=self._finds_by_array(oid, version),
        )

    def look(self, version: TableVersion) -> ExistingTable | None:
        """The table of that name as it is; None when there is none."""
        found = self._find(version)
        if found is None:
            return None
        oid, _, partitioned, hides_rows = found
        if hides_rows:
            raise _hidden(version)
        return ExistingTable(partitioned, self._columns(oid))

    def holds(self, version: TableVersion) -> bool:
        """Whether there is a table of that name that was made beside another one, for this version."""
        found = self._find(version)
        if found is None:
            return False
        row = self._conn.execute("SELECT pg_catalog.obj_description(%s, 'pg_class')", (found[0],)).fetchone()
        return row == (version.shape,)

    def _find(self, version: TableVersion) -> tuple[int, bool, bool, bool] | None:
        row = self._conn.execute(_TABLE, (version.schema, version.name)).fetchone()
        return None if row is None else (int(row[0]), bool(row[1]), bool(row[2]), bool(row[3]))

    def _finds_by_array(self, oid: int, version: TableVersion) -> bool:
        names = [version.columns[index].name for index in version.merge_key]
        return len(names) == 1 and (names[0],) in self._conn.execute(_INDEXED, (oid,)).fetchall()

    def _columns(self, oid: int) -> dict[str, ExistingColumn]:
        """By name."""
        return {name: ExistingColumn(*found) for name, *found in self._conn.execute(_COLUMNS, (oid,))}

    def _create(self, version: TableVersion, name: sql.Identifier) -> None:
        parts: list[sql.Composable] = [_definition(column) for column in version.columns]
        key = [version.columns[index].name for index in version.merge_key]
        if key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(listed(map(identifier, key))))
        if version.schema != OWN_SCHEMA:  # a table beside, which is not there yet
            logger.warning(
                "the target has no such table: made, for the rows that come from now on",
                table=version.qualified,
            )
        self._conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(identifier(version.schema)), ())
        self._conn.execute(sql.SQL("CREATE TABLE {} ({})").format(name, listed(parts)), ())

    def _follow(
        self, version: TableVersion, name: sql.Identifier, existing: Mapping[str, ExistingColumn]
    ) -> bool:
        """Do to the columns what rows show was done to the source's; False if nothing was."""
        added = []
        actions: list[tuple[sql.Composable, ...]] = []
        # Generated columns are not in the stream.
        left = {name for name, found in existing.items() if not found.generated}
        left -= {column.name for column in version.columns}
        for column in version.columns:
            if column.name in existing:
                continue
            before = version.former_names(column) & left
            if len(before) == 1:
                names = map(identifier, (*before, column.name))
                actions.append((sql.SQL("RENAME COLUMN {} TO {}").format(*names),))
                left -= before
            else:
                added.append(column)
        gone = sorted(left & version.dropped_names)
        actions += [(sql.SQL("DROP COLUMN {}").format(identifier(each)),) for each in gone]
        if added:
            logger.warning(
                "columns added without the source's defaults: older rows have NULL there",
                table=version.qualified,
                columns=[column.name for column in added],
                remedy="copy the table anew with: pgsluice resync",
            )
            actions.append(tuple(sql.SQL("ADD COLUMN {}").format(_definition(column)) for column in added))
        if actions and not self._aside:  # a table whose rows are still to be checked can't be altered
            self._conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for action in actions:
            self._conn.execute(sql.SQL("ALTER TABLE {} {}").format(name, listed(action)), ())
        if actions and not self._aside:
            self._conn.execute("SET CONSTRAINTS ALL DEFERRED")
        return bool(actions)


def _definition(column: Column) -> sql.Composed:
    # A log without its source's catalog knows only the number of a type that users made.
    kind = display_name(column.type) if column.type.schema else "text"
    return sql.SQL("{} {}").format(identifier(column.name), type_name(kind))


def _hidden(version: TableVersion) -> TargetError:
    return TargetError(
        f"row level security of the target's table {version.qualified} would hide rows from its writer",
        remedy="Give it the right to see all: ALTER ROLE <role> BYPASSRLS; or connect as the table's owner, "
        "and without FORCE ROW LEVEL SECURITY",
        table=version.qualified,
    )


def _check_missing(version: TableVersion, existing: Mapping[str, ExistingColumn], *, follows: bool) -> None:
    other = "copy the table anew: pgsluice resync" if follows else "let it follow: schema_changes: apply"
    new = [column.name for column in version.columns if column.name not in existing]
    if new:
        raise TargetSchemaError(
            f"the source's table {version.qualified} has columns that the target's does not have: "
            f"{', '.join(new)}",
            remedy=f"Add them in the target as in the source, then start again; or {other}",
            table=version.qualified,
            columns=new,
        )


def _check_dropped(version: TableVersion, existing: dict[str, ExistingColumn]) -> None:
    known = {column.name for column in version.columns}
    gone = [name for name, found in existing.items() if name not in known and not found.generated]
    if gone:
        raise TargetSchemaError(
            f"the target's table {version.qualified} has columns that the source's does not have: "
            f"{', '.join(gone)}",
            remedy="Drop or rename them in the target as in the source, then start again",
            table=version.qualified,
            columns=gone,
        )
