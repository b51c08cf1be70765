"""
From the Relation frames of a log to table versions, and to what the decoder has to know about a range.

The stream says names, type numbers and identity; the source's catalog adds the names of user types and
the primary key, once per new version. Without a catalog (a log alone) unknown types stay text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.schema.catalog import completed, describe_types
from pgsluice.schema.match import OWN_SCHEMA
from pgsluice.schema.table import PgType
from pgsluice.source.pgoutput.decode import RelationAt
from pgsluice.source.pgoutput.frames import read_frame, read_lsn
from pgsluice.source.pgoutput.relation import (
    parse_relation,
    parse_type,
    table_version,
    with_schema_renamed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pgsluice.changelog.plan import LogRange
    from pgsluice.schema.history import SchemaRename
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion

logger = structlog.get_logger(__name__)

UNWANTED: Final = -1
_SCHEMA_LOG: Final = "schema_log"

Catalog = Callable[[], AbstractContextManager[Any]]
"""Opens a connection to the source; closed after the look-up."""


@dataclass(frozen=True, slots=True)
class DecodableRange:
    """A range with everything a task needs to decode it: plain data, small enough to be sent to a worker."""

    range: LogRange
    relations: tuple[RelationAt, ...]
    copied: tuple[tuple[int, int], ...] = ()  # versions whose copy has what was committed before an LSN

    @property
    def text_bytes(self) -> int:
        """How much text the entries have, at most: values are sent as text."""
        return self.range.end - self.range.start

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries, but for those that a copy of their table has already."""
        from pgsluice.source.tasks import decode, without_copied

        yield without_copied(decode(self), self.copied)


class Relations:
    """The tables of one log, as one reader wants them."""

    def __init__(
        self,
        store: SchemaStore,
        *,
        catalog: Catalog | None = None,
        wanted: Callable[[TableVersion], bool] | None = None,
        with_schema: bool = False,
        follows_schema: bool = False,
    ) -> None:
        self._store = store
        self._with_schema = with_schema  # whether changes of the schema are rows like any others
        self._follows_schema = follows_schema  # whether the target knows what became of a table
        self._catalog = catalog
        self._wanted = wanted or (lambda _version: True)
        self._versions: dict[int, TableVersion] = {}
        self._relids: dict[str, set[int]] = {}  # by schema.name

    def resolve(self, ranges: Iterable[LogRange]) -> tuple[list[DecodableRange], Mapping[int, TableVersion]]:
        """The ranges ready to be decoded, and the versions of the wanted tables that they may name."""
        ready = []
        used: dict[int, TableVersion] = {}
        renames = self._store.history.renames()
        for range_ in ranges:
            with open(range_.path, "rb") as file:  # noqa: PTH123 - the path is a string for the workers' sake
                relations = tuple(
                    self._relation(file, range_, offset, renames) for offset in range_.relations
                )
            ready.append(DecodableRange(range_, relations))
            used |= {r.version: self._versions[r.version] for r in relations if r.version != UNWANTED}
        return ready, used

    def _relation(
        self, file: Any, range_: LogRange, offset: int, renames: Iterable[SchemaRename]
    ) -> RelationAt:
        message = read_frame(file, offset)
        for rename in renames:
            if rename.is_unknown_to(range_, announced=read_lsn(file, offset)):
                message = with_schema_renamed(message, rename.old, rename.new)
        version = self._store.register(
            message, lambda: self._describe(file, message, range_.types), complete=self._catalog is not None
        )
        self._versions[version.id] = version
        self._note_new_tables(version)
        if version.schema == OWN_SCHEMA:
            is_wanted = self._with_schema and version.name == _SCHEMA_LOG
        else:
            is_wanted = self._wanted(version)
        number = version.id if is_wanted else UNWANTED
        return RelationAt(offset, version.relid, number, version.schema, version.name, len(version.columns))

    def _note_new_tables(self, version: TableVersion) -> None:
        """Say that a table was dropped and made again: targets still have the rows of the old one."""
        seen = self._relids.setdefault(version.qualified, set())
        if seen and version.relid not in seen and not self._follows_schema:
            logger.warning("a table was made again: rows of the old one stay", table=version.qualified)
        seen.add(version.relid)

    def _describe(self, file: Any, message: bytes, type_offsets: Iterable[int]) -> TableVersion:
        relation = parse_relation(message)
        types: dict[int, PgType] = {}
        for offset in type_offsets:
            named = parse_type(read_frame(file, offset))
            types[named.oid] = PgType(named.oid, named.name, named.schema, kind="unknown")
        if self._catalog is None:
            return table_version(relation, 0, types)
        with self._catalog() as connection:
            types |= describe_types(connection, [column.type_oid for column in relation.columns])
            return completed(table_version(relation, 0, types), connection)
