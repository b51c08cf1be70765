"""What is wrong with the injector's settings, by the catalog of the source."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pgsluice.modifiers.injector.finders import ConfiguredIdentity, ConfiguredVersion, version_expression

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pgsluice.modifiers.injector.apply import Injector
    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table_facts import TableFacts


def injector_problems(
    injector: Injector, tables: Sequence[TableFacts], left_out: Mapping[int, Collection[int]]
) -> Iterator[str]:
    """
    The problems, if its columns are those of a configuration; finders of your own check themselves.

    ``left_out`` are the numbers of columns that a filter leaves out, by number of the table.
    """
    identity, version = injector.identity, injector.version
    if isinstance(identity, ConfiguredIdentity):
        named = identity.columns.named
        yield from _unknown_tables("identity", named, tables)
        for table, names in _known_tables(named, tables):
            yield from _columns("identity", table, names, left_out)
            # Without a key there are no UPDATE and DELETE: the server refuses them.
            beyond = [name for name in names if table.key and name not in table.key]
            if beyond:
                yield (
                    f"the identity of {table.qualified} names {', '.join(beyond)}, which a DELETE does not "
                    "bring: set REPLICA IDENTITY FULL for the table, or name columns of its key alone"
                )
    if isinstance(version, ConfiguredVersion):
        named = version.columns.named
        yield from _unknown_tables("version", named, tables)
        for table, names in _known_tables(named, tables):
            yield from _columns("version", table, names, left_out)
            for column in table.columns:
                if column.name in names and version_expression(column.name, column.type) is None:
                    yield (
                        f"{table.qualified}.{column.name} can't be a version by its type: name a column of "
                        "integers, timestamps or dates"
                    )


def _unknown_tables(what: str, named: Iterable[TableName], tables: Sequence[TableFacts]) -> Iterator[str]:
    known = [table.qualified for table in tables]
    for name in map(".".join, named):
        if name not in known:
            yield f"{name} is named for the {what}, and no such table is replicated{_nearest(name, known)}"


def _known_tables(
    named: Mapping[TableName, tuple[str, ...]], tables: Sequence[TableFacts]
) -> Iterator[tuple[TableFacts, tuple[str, ...]]]:
    for table in tables:
        if (table.schema, table.name) in named:
            yield table, named[table.schema, table.name]


def _columns(
    what: str, table: TableFacts, names: Iterable[str], left_out: Mapping[int, Collection[int]]
) -> Iterator[str]:
    columns = {column.name: column for column in table.columns}
    for name in names:
        if name not in columns:
            hint = _nearest(name, columns)
            yield f"the {what} of {table.qualified} names {name}, and there is no such column{hint}"
        elif columns[name].number in left_out.get(table.relid, ()):
            yield f"the {what} of {table.qualified} names {name}, which the filter leaves out"


def _nearest(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.0)
    return f"; the nearest is {found[0]}" if found else ""
