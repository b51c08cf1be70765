"""A change of the source's schema, made in the target inside of the transaction of the rows around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import errors as pg
from psycopg import sql

from pgsluice.errors import ChangeRefusedError
from pgsluice.schema.compare import name_of
from pgsluice.schema.match import OWN_SCHEMA
from pgsluice.sinks.postgres.alter import drops, last_statements_for, statements_for
from pgsluice.sinks.postgres.alter.words import address
from pgsluice.sinks.postgres.needs import has_relation, possible
from pgsluice.sinks.postgres.schema import DUPLICATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.sinks.postgres.alter import Drop
    from pgsluice.sinks.postgres.config import PostgresConfig

logger = structlog.get_logger(__name__)

_THERE_OR_GONE: Final = (
    *DUPLICATES,
    pg.InvalidSchemaName,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.UndefinedObject,
    pg.UndefinedTable,
)
_OF_STATEMENTS: Final = (pg.ObjectNotInPrerequisiteState,)
"""Errors that psycopg counts among those of the server's operation, and that statements have."""
_DATA_EXCEPTION: Final = "22"
_COPIES_WITH: Final = """
SELECT DISTINCT c.relname
FROM pg_catalog.unnest(%s::text[]) AS named(type)
JOIN pg_catalog.pg_type t ON t.oid = pg_catalog.to_regtype(named.type)
JOIN pg_catalog.pg_attribute a ON a.atttypid IN (t.oid, t.typarray)
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'pgsluice' AND c.relkind = 'r'
"""


class SchemaChanges:
    """The changes of one batch."""

    def __init__(self, conn: Connection, config: PostgresConfig, *, aside: bool) -> None:
        self._conn = conn
        self._config = config
        self._aside = aside
        self._grants = config.privileges or config.roles
        self._rewritten: set[int] = set()  # tables whose rows the source has made anew

    def make(self, entry: SchemaEntry) -> None:
        """Make the changes of one command."""
        self._conn.execute("SET LOCAL check_function_bodies = off")
        if not self._aside:  # a table whose rows are still to be checked can't be altered
            self._conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self._rewritten |= {change.oid for change in entry.changes if change.rewritten}
        given = [change for change in _ordered(entry) if self._is_wanted(change)]
        dropped = [change for change in entry.changes if change.dropped and self._is_wanted(change)]
        if dropped:
            self._drop(drops(dropped, early=True), dropped[0], entry)
        changes = [change for each in given if (change := self._made(each, entry)) is not None]
        if dropped:
            self._drop_copies_with(dropped)
            self._drop(drops(dropped, early=False), dropped[0], entry)
        for change in changes:
            self._run(last_statements_for(change), change, entry)
        if not self._aside:
            self._conn.execute("SET CONSTRAINTS ALL DEFERRED")
        logger.info("schema changed", tag=entry.tag, entry=entry.id, objects=entry.objects)

    def _drop(self, left: list[Drop], change: ObjectChange, entry: SchemaEntry) -> None:
        """Drop what the source has dropped, in an order that the target can take."""
        while left:
            refused: list[tuple[Drop, ChangeRefusedError]] = []
            for drop in left:
                try:
                    with self._conn.transaction():
                        self._run([drop.statement], change, entry)
                except ChangeRefusedError as error:
                    if not isinstance(error.__cause__, pg.DependentObjectsStillExist):
                        raise
                    refused.append((drop, error))
            following = [each for drop, _ in refused for each in drop.one_by_one()]
            if following == left:
                raise refused[0][1]
            left = following

    def _drop_copies_with(self, dropped: Sequence[ObjectChange]) -> None:
        """Tables that are filled beside with columns of a dropped type: they are begun with again."""
        types = [str(change.identity) for change in dropped if change.catalog == "pg_type"]
        for (name,) in self._conn.execute(_COPIES_WITH, (types,)).fetchall() if types else ():
            self._conn.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(OWN_SCHEMA, name)))

    def _is_wanted(self, change: ObjectChange) -> bool:
        kind = change.definition["kind"]
        is_made = self._config.makes(kind)
        if not is_made and change.definition.get("unsupported"):
            logger.warning("schema change passed over", kind=kind, name=name_of(change.definition))
        if not is_made and kind == "publication":
            logger.info("publication of the source not made here", name=name_of(change.definition))
        return is_made

    def _made(self, given: ObjectChange, entry: SchemaEntry) -> ObjectChange | None:
        """The change as it was made; None where the target can't have it."""
        if not self._concerns(given):
            if not self._is_new_by_name(given):
                logger.info("schema change left out: its table is not here", tag=entry.tag, entry=entry.id)
                return None
            given = replace(given, before=None)
        change = possible(self._conn, given, entry)
        if change is not None:
            self._make(change, entry)
        return change

    def _make(self, change: ObjectChange, entry: SchemaEntry) -> None:
        if change.definition.get("unsupported"):
            raise _unsupported(change, entry)
        statements = statements_for(change, grants=self._grants)
        if entry.may_be_there or (change.before is None and self._config.on_conflict != "error"):
            try:  # others may have made it, where several sources share tables
                with self._conn.transaction():
                    self._run(statements, change, entry)
            except ChangeRefusedError as error:
                if not isinstance(error.__cause__, _THERE_OR_GONE):
                    raise
            return
        emptied = self._rewritten_by(entry)
        if not emptied or change.before is None:
            self._run(statements, change, entry)
            return
        try:
            with self._conn.transaction():
                self._run(statements, change, entry)
        except ChangeRefusedError:
            # How the source made its new rows is not known here. They are copied anew, and till then missing.
            logger.warning("rows can't be changed as in the source: tables are empty for now", tables=emptied)
            deletes = [f"DELETE FROM ONLY {table}" for table in emptied]  # noqa: S608 - quoted names
            self._run(deletes, change, entry)
            again = replace(change, before={**change.before, "emptied": True})
            self._run(statements_for(again, grants=self._grants), change, entry)

    def _rewritten_by(self, entry: SchemaEntry) -> list[str]:
        """The tables of a command whose rows the source has made anew: one, or it with its heirs."""
        found = [
            address(change.before)
            for change in entry.changes
            if (change.anew or change.oid in self._rewritten)
            and change.before
            and change.before["kind"] == "table"
        ]
        return [table for table in found if has_relation(self._conn, table)]

    def _concerns(self, change: ObjectChange) -> bool:
        """Whether the target has what is changed: tables that are not replicated are not here."""
        was = change.before or change.definition
        if "table" in was:
            return has_relation(self._conn, was["table"])
        return change.before is None or was["kind"] != "table" or has_relation(self._conn, address(was))

    def _is_new_by_name(self, change: ObjectChange) -> bool:
        """Whether a table comes from a name that is not replicated; what it has besides is not told now."""
        if change.before is None or change.after is None or change.after["kind"] != "table":
            return False
        now = address(change.after)
        if address(change.before) == now or has_relation(self._conn, now):
            return False
        logger.warning(
            "a table has come in by its new name: indexes, triggers and policies of before are not made",
            table=name_of(change.after),
            remedy="Make them by hand: pgsluice schema diff --live names them",
        )
        return True

    def _run(self, statements: Iterable[str], change: ObjectChange, entry: SchemaEntry) -> None:
        for statement in statements:
            try:
                self._conn.execute(statement.encode())
            except psycopg.Error as error:
                if isinstance(error, psycopg.OperationalError) and not isinstance(error, _OF_STATEMENTS):
                    raise
                raise ChangeRefusedError(
                    f"the target refuses a change of the schema: {_said(error, statement)}; "
                    f"it was: {statement}",
                    remedy="Mend in the target what it needs, and start again; or make the change there by "
                    "hand and set schema_changes: ignore for one start",
                    entry=entry.id,
                    object=change.oid,
                ) from error


def _unsupported(change: ObjectChange, entry: SchemaEntry) -> ChangeRefusedError:
    of = change.definition
    return ChangeRefusedError(
        f"the source has a new or changed {of['kind']}, {name_of(of)}: it can't be replicated",
        remedy=f"Make the same change in the target by hand, and set schema_exclude: [{of['kind']}] for it, "
        "which passes over changes of that kind",
        entry=entry.id,
        object=change.oid,
    )


def _ordered(entry: SchemaEntry) -> list[ObjectChange]:
    """What is not dropped: new schemas and sequences first, and heirs after their parents."""
    others = [change for change in entry.changes if not change.dropped and not change.rewritten]
    parents = {change.oid: (change.before or change.definition).get("parent_ids", ()) for change in others}

    def depth(oid: int) -> int:
        return 1 + max((depth(parent) for parent in parents[oid] if parent in parents), default=0)

    return sorted(others, key=lambda change: (-_is_needed_early(change), depth(change.oid)))


def _is_needed_early(change: ObjectChange) -> int:
    """New sequences are needed by the columns that count with them, which the source may name before."""
    if change.before is not None:
        return 0
    return {"schema": 2, "sequence": 1}.get(change.definition["kind"], 0)


def _said(error: psycopg.Error, statement: str) -> str:
    """What the server said, unless a row's value is in it."""
    if (error.sqlstate or "").startswith(_DATA_EXCEPTION) and not _is_of_statement(error, statement):
        return f"a row has a value that it can't take (SQLSTATE {error.sqlstate})"
    said = error.diag.message_primary or str(error)
    if isinstance(error, pg.DependentObjectsStillExist) and error.diag.message_detail:
        said += f" ({'; '.join(error.diag.message_detail.splitlines())})"
    return said


def _is_of_statement(error: psycopg.Error, statement: str) -> bool:
    """Whether a value is wrong that stands in the statement: at a place there, or computed by a DEFAULT."""
    reads_rows = any(word in statement for word in (" GENERATED ", " USING ", " CHECK "))
    return error.diag.statement_position is not None or (" DEFAULT " in statement and not reads_rows)
