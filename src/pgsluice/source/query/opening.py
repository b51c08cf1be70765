"""What a query needs of a log before it runs: the tables that it wants, and its table's first version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.changelog.position import Lsn
from pgsluice.changelog.segment import read_meta
from pgsluice.errors import ConfigError
from pgsluice.schema.store import SchemaStore
from pgsluice.source.query.bounded import BoundedReader
from pgsluice.source.query.consumer import held_from
from pgsluice.source.query.listening import SourceListener
from pgsluice.source.query.options import LATEST
from pgsluice.source.query.table import TypedTable
from pgsluice.source.relations import Relations

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.query.options import ReadOptions


def relations_of(options: ReadOptions, listener: SourceListener | None, store: SchemaStore) -> Relations:
    """The tables that a query wants."""
    wanted = options.table
    return Relations(
        store,
        catalog=listener.catalog if listener else None,
        wanted=(lambda version: (version.schema, version.name) == wanted) if wanted else None,
    )


def typed_table(options: ReadOptions, reader: BoundedReader, relations: Relations) -> TypedTable | None:
    """The guard of a typed query."""
    return TypedTable(reader, relations, options.table, options.special) if options.table else None


def first_version(options: ReadOptions, table: tuple[str, str]) -> TableVersion:
    """
    The version of the first row that a query will read.

    From the log where rows wait there, else from the source's catalog, else the last that the log knew.
    """
    listener = SourceListener(options) if options.url is not None else None
    found = _logged(options, table, listener) if read_meta(options.log) else None
    if found is None and listener is not None:
        found = listener.published(table)
    if found is None:
        raise ConfigError(
            f"the change log {options.log} has not named the table {'.'.join(table)} yet, "
            "so its columns are not known",
            remedy="Give the option url too, or read the envelope (without the option table)",
            table=".".join(table),
        )
    return found


def start_of(options: ReadOptions, reader: BoundedReader) -> Lsn:
    """Where a query without a checkpoint would start now."""
    if isinstance(options.start, Lsn):
        return options.start
    return reader.end if options.start == LATEST else reader.first_lsn


def _logged(
    options: ReadOptions, wanted: tuple[str, str], listener: SourceListener | None
) -> TableVersion | None:
    reader = BoundedReader(options.log)
    store = SchemaStore(options.log / "schema.db")
    try:
        table = TypedTable(reader, relations_of(options, listener, store), wanted, options.special)
        held = held_from(options.log, options.consumer)
        position = max(start_of(options, reader) if held is None else held, reader.first_lsn)
        found = table.version_ahead(position)
        return found if found or listener else table.version_behind(position, store)
    finally:
        store.close()
