"""
The one table matcher: `--tables`, publication, snapshot and filter all choose tables with it.

A pattern is ``table`` (which means ``public.table``), ``schema.table``, ``schema.*``, ``*.table`` or
``*.*``. Names are written as in SQL: a bare name is folded to lower case, a name in double quotes is
taken as it stands, and ``""`` inside quotes is one quote.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pgsluice.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

MatchKind = Literal["data", "schema_only"]
"""What is wanted of a table: rows and definition, or the definition alone."""

OWN_SCHEMA: Final = "pgsluice"

_PART = re.compile(r'"((?:[^"]|"")+)"|(\*)|([^\s."*]+)')
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",]+))\s*')
_BARE = re.compile(r'[^\s."*A-Z]+')
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class TablePattern:
    """One pattern; ``None`` stands for ``*``."""

    schema: str | None
    table: str | None

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """Read a pattern as people write it."""
        parts: list[str | None] = []
        at = 0
        stripped = text.strip()
        while match := _PART.match(stripped, at):
            quoted, star, bare = match.groups()
            # Folded the way PostgreSQL folds in UTF-8 databases: ASCII letters only.
            parts.append(None if star else quoted.replace('""', '"') if quoted else bare.translate(_FOLD))
            at = match.end()
            if at == len(stripped) or stripped[at] != ".":
                break
            at += 1
        if at != len(stripped) or stripped.endswith(".") or not 1 <= len(parts) <= 2:
            raise ConfigError(
                f"{text!r} is not a table pattern",
                remedy="Write table, schema.table, schema.*, *.table or *.*, and odd names in double quotes",
            )
        return cls("public", parts[0]) if len(parts) == 1 else cls(parts[0], parts[1])

    @property
    def exact(self) -> bool:
        """Whether the pattern names one table."""
        return self.schema is not None and self.table is not None

    def matches(self, schema: str, table: str) -> bool:
        """Whether a table falls under this pattern alone."""
        return self.schema in (None, schema) and self.table in (None, table)

    def __str__(self) -> str:
        return f"{_written(self.schema)}.{_written(self.table)}"


@dataclass(frozen=True, slots=True)
class TableMatcher:
    """
    Which tables are wanted.

    What decides, in this order: an exclude pattern of any form, an include pattern that names the
    table, a schema-only pattern of any form, an include pattern with a ``*``.
    """

    include: tuple[TablePattern, ...]
    exclude: tuple[TablePattern, ...] = ()
    schema_only: tuple[TablePattern, ...] = ()

    @classmethod
    def parse(
        cls, include: Iterable[str], exclude: Iterable[str] = (), schema_only: Iterable[str] = ()
    ) -> TableMatcher:
        """Read lists of patterns."""
        return cls(_parse_all(include), _parse_all(exclude), _parse_all(schema_only))

    def kind(self, schema: str, table: str) -> MatchKind | None:
        """What is wanted of a table; None when nothing is."""
        if is_system_schema(schema) or _any(self.exclude, schema, table):
            return None
        included = [pattern for pattern in self.include if pattern.matches(schema, table)]
        if any(pattern.exact for pattern in included):
            return "data"
        if _any(self.schema_only, schema, table):
            return "schema_only"
        return "data" if included else None

    def matches(self, schema: str, table: str) -> bool:
        """Whether a table's rows are wanted."""
        return self.kind(schema, table) == "data"

    def unmatched(self, tables: Iterable[tuple[str, str]]) -> list[str]:
        """A warning, with the nearest name, for each pattern that no existing table falls under."""
        known = [(schema, table) for schema, table in tables if not is_system_schema(schema)]
        patterns = dict.fromkeys((*self.include, *self.exclude, *self.schema_only))
        return [_warning(pattern, known) for pattern in patterns if not _used(pattern, known)]


def is_system_schema(schema: str) -> bool:
    """Whether a schema is PostgreSQL's or our own; tables in these never match."""
    # PostgreSQL reserves every name that begins with pg_ (pg_catalog, pg_toast, pg_temp_3).
    return schema in (OWN_SCHEMA, "information_schema") or schema.startswith("pg_")


def parse_names(text: str) -> tuple[str, ...]:
    """Read a list of names, such as ``id, "Odd, name"``."""
    names = []
    at = 0
    while match := _NAME.match(text, at):
        quoted, bare = match.groups()
        names.append(quoted.replace('""', '"') if quoted else bare.translate(_FOLD))
        at = match.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ",":
            break
        at += 1
    raise ConfigError(
        f"{text!r} is not a list of names", remedy='Write id, total, "Odd name", with commas between them'
    )


def _parse_all(patterns: Iterable[str]) -> tuple[TablePattern, ...]:
    return tuple(TablePattern.parse(pattern) for pattern in patterns)


def _any(patterns: Iterable[TablePattern], schema: str, table: str) -> bool:
    return any(pattern.matches(schema, table) for pattern in patterns)


def _used(pattern: TablePattern, tables: list[tuple[str, str]]) -> bool:
    return any(pattern.matches(schema, table) for schema, table in tables)


def _warning(pattern: TablePattern, tables: list[tuple[str, str]]) -> str:
    if pattern.schema is not None and is_system_schema(pattern.schema):
        return f"the pattern {pattern} matches no table: schema {pattern.schema} is never replicated"
    # A pattern with a star is compared with patterns of its own form, so that shopp.* finds shop.*.
    names = {
        str(TablePattern(pattern.schema and schema, pattern.table and table)) for schema, table in tables
    }
    nearest = difflib.get_close_matches(str(pattern), sorted(names), n=1, cutoff=0.0)
    hint = f"; the nearest is {nearest[0]}" if nearest else "; there are no tables"
    return f"the pattern {pattern} matches no table{hint}"


def _written(name: str | None) -> str:
    if name is None:
        return "*"
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'
