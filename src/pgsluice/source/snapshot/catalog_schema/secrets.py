"""Columns whose values are changed on their way: no value of them may stand in the words of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import TransformError
from pgsluice.schema.literals import has_literal, names_in, tells

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pgsluice.postgres.session import Connection
    from pgsluice.source.snapshot.catalog_schema.found import Found, ObjectId

_OF_TABLES: Final = (
    *("CHECK CONSTRAINT", "CONSTRAINT", "INDEX", "STATISTICS", "TRIGGER", "RULE", "POLICY"),
    *("VIEW", "MATERIALIZED VIEW"),
)
_NAMES: Final = """
SELECT a.attrelid::int8, a.attnum, a.attname, n.nspname, c.relname
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped"""


class Secrets:
    """
    What of the schema can't be told.

    Args:
        columns: whose values are changed; by the numbers of tables and columns.
    """

    def __init__(self, conn: Connection, columns: Mapping[int, Collection[int]]) -> None:
        self._columns = columns
        self._names: dict[tuple[str, str], set[str]] = {}  # by table
        for relid, number, name, schema, table in conn.execute(_NAMES, (list(columns),)).fetchall():
            if number in columns[relid]:
                self._names.setdefault((schema, table), set()).add(name)
        self.defaults: list[str] = []  # that were left out, by the column's name
        self._made_with: set[ObjectId] = set()
        self.are_told = False  # whether there was anything to leave out

    def told(self, column: Any) -> Any:
        """A column of a table, without a default that is a value."""
        secret = column.attnum in self._columns.get(column.table_oid, ())
        if column.generated and tells(column.generated) and self._are_in(column.generated, column.named):
            raise TransformError(
                f"{column.named} is generated from a column whose values a rule changes, by an expression "
                "that has a value in it, which would show",
                remedy="Leave it out (columns under modifiers.filter.tables), or its table",
            )
        if not secret or not column.default_sql or not has_literal(column.default_value):
            return column
        self.are_told = True
        if column.named not in self.defaults:
            self.defaults.append(column.named)
        return column._replace(default_sql=None)

    def _are_in(self, text: str, column: str) -> bool:
        named = names_in(text)
        return any(
            named & names and column.startswith(f"{schema}.{table}.")
            for (schema, table), names in self._names.items()
        )

    def telling(self, objects: Iterable[Found]) -> set[ObjectId]:
        """Objects that have a value in their words and are made with such a column."""
        made_with = [each for each in objects if self._is_made_with(each)]
        self._made_with = {each.id for each in made_with}
        found = {each.id for each in made_with if tells(_words(each))}
        self.are_told = self.are_told or bool(found)
        return found

    def is_comment(self, each: Found) -> bool:
        """Whether it is a comment on such a column, or on what is made with one."""
        of_column = each.column in self._columns.get(each.belongs, ())
        is_one = each.kind == "COMMENT" and (of_column or each.id in self._made_with)
        self.are_told = self.are_told or is_one
        return is_one

    def _is_made_with(self, each: Found) -> bool:
        if each.kind not in _OF_TABLES:
            return False
        named = names_in(each.sql)
        return any(
            named & names and {schema, table} <= named for (schema, table), names in self._names.items()
        )


def _words(each: Found) -> str:
    """Without what is said of statistics and storage, where numbers are none of a row."""
    return each.sql.partition(";\n")[0]
