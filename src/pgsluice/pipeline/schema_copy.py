"""The source's schema for a target that takes one: what rows need first, and what is made after them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import TargetError
from pgsluice.modifiers.columns.apply import ColumnFilter
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.postgres.session import database_identity
from pgsluice.schema.table_facts import read_facts, read_facts_of_families
from pgsluice.sinks.base import TakesSchema
from pgsluice.source.snapshot.catalog_schema import read_catalog_schema, tells_values
from pgsluice.source.snapshot.objects import named_objects
from pgsluice.source.snapshot.roles import role_statements
from pgsluice.source.snapshot.schema_dump import dump_schema
from pgsluice.source.snapshot.tables import (
    filled_views,
    owned_sequences,
    roots_without_partitions,
    sequence_values,
    tables_besides,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.copy import CopySource
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.renames import Renames, TableName
    from pgsluice.schema.statements import NamedObject, SchemaStatement
    from pgsluice.sinks.base import Sink
    from pgsluice.source.snapshot.tables import CopiedTable

logger = structlog.get_logger(__name__)

_OF_TABLES: Final = ("TABLE", "SEQUENCE", "SEQUENCE OWNED BY", "DEFAULT", "CONSTRAINT", "FK CONSTRAINT")


@dataclass(frozen=True, slots=True)
class SchemaCopy:
    """The schema of some tables, under the names of the target."""

    sink: TakesSchema
    renames: Renames
    before: Sequence[SchemaStatement]
    after: Sequence[SchemaStatement]
    without: Sequence[str]  # tables that are left out, as ``"schema"."name"``

    def clean(self, conn: Connection) -> None:
        """Drop what the target has of these objects, if it wants that."""
        options = self.sink.schema_options
        if options is None or not options.clean:
            return
        held = self.sink.database()
        if held is None or held == database_identity(conn):
            raise TargetError(
                "clean would drop the source's own objects: the target is the same database, or can't be "
                "told from it",
                remedy="Set clean: false, or let both roles execute pg_control_system()",
            )
        objects = named_objects(conn, self.without)
        self.sink.clean([self._renamed(each) for each in objects])

    def _renamed(self, each: NamedObject) -> NamedObject:
        schema, name = self.renames.table((each.schema, each.name))
        return replace(each, schema=schema, name=name)

    @property
    def is_outdated(self) -> bool:
        """Whether the source has changed something that an unfinished copy has made."""
        return self.sink.is_outdated(self.renames.statements((*self.before, *self.after)))

    def make(self, statements: Sequence[SchemaStatement], *, noted: bool = False) -> None:
        """Make what is not there yet."""
        self.sink.make_objects(self.renames.statements(statements), noted=noted)

    def of_tables(self, tables: Collection[TableName]) -> list[SchemaStatement]:
        """What makes tables with their defaults and constraints, and nothing else."""
        named = [
            re.compile(rf'(?<![\w"])"?{re.escape(schema)}"?\."?{re.escape(name)}"?(?![\w"])')
            for schema, name in tables
        ]
        return [
            each
            for each in (*self.before, *self.after)
            if each.kind in _OF_TABLES and any(name.search(each.sql) for name in named)
        ]

    def set_sequences(self, conn: Connection) -> None:
        """Bring the target's sequences to where the source's are."""
        values = sequence_values(conn)
        self.sink.set_sequences({self.renames.table(name): value for name, value in values.items()})

    def fill_views(self, conn: Connection) -> None:
        """Fill the materialized views that the source has filled, once all rows are there."""
        self.sink.fill_views([self.renames.table(name) for name in filled_views(conn)])


def read_schema(
    name: str,
    sink: Sink,
    source: CopySource,
    renames: Renames,
    conn: Connection,
    tables: Sequence[CopiedTable],
    chain: Chain,
    snapshot: str | None = None,
) -> SchemaCopy | None:
    """The schema at a snapshot, or of now; None for a target that takes none."""
    if not isinstance(sink, TakesSchema) or sink.schema_options is None:
        return None
    empty = [relid for relid, schema, table in roots_without_partitions(conn) if source.wanted(schema, table)]
    kept = [*(table.relation.relid for table in tables), *source.definitions(conn), *empty]
    without, quoted = tables_besides(conn, kept), bool(renames)
    owners, privileges = sink.schema_options.owners, sink.schema_options.privileges
    columns, secret = _columns_left_out(conn, tables, chain), _secret_columns(conn, tables, chain)
    dump = None
    if columns or (secret and tells_values(conn, without, secret)):
        logger.info("not all of the schema goes on: it is read from the catalogs", sink=name)
    else:
        secret = {}
        dump = dump_schema(
            conn, snapshot, without=without, owners=owners, privileges=privileges, quoted=quoted
        )
        if dump is None:
            logger.info(
                "no pg_dump of the source's version: its schema is read from the catalogs",
                sink=name,
                version=conn.info.server_version // 10000,
            )
    if dump is None:
        with conn.transaction(force_rollback=True):  # lets go of locks: reading a view takes some
            dump = read_catalog_schema(
                conn,
                without=without,
                columns=columns,
                secret=secret,
                owners=owners,
                privileges=privileges,
                quoted=quoted,
            )
    named = renames.with_owned(owned_sequences(conn)) if renames else renames
    roles = role_statements(conn) if sink.schema_options.roles else ()
    return SchemaCopy(sink, named, (*roles, *dump.before), dump.after, without)


def _columns_left_out(
    conn: Connection, tables: Sequence[CopiedTable], chain: Chain
) -> dict[int, Collection[int]]:
    """By number of the table: the numbers of columns that stay behind, which pg_dump can't leave out."""
    filters = chain.of_kind(ColumnFilter)
    facts = read_facts(conn, [table.relation.relid for table in tables]) if filters else []
    found: dict[int, Collection[int]] = {}
    for each in filters:
        found |= each.left_out(facts)
    return found


def _secret_columns(
    conn: Connection, tables: Sequence[CopiedTable], chain: Chain
) -> dict[int, Collection[int]]:
    """By number of the table: the numbers of columns whose values a rule changes."""
    transformers = chain.of_kind(ArrowTransformer)
    if not transformers:
        return {}
    facts = read_facts_of_families(conn, [table.relation.relid for table in tables])
    return {relid: numbers for each in transformers for relid, numbers in each.reach.changed(facts).items()}
