"""A schema as a list of statements, each with what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_LESSER: Final = (
    "ACL",
    "COMMENT",
    "DEFAULT ACL",
    "FK CONSTRAINT",
    "FUNCTION",
    "MATERIALIZED VIEW",
    "POLICY",
    "PROCEDURE",
    "ROW SECURITY",
    "RULE",
    "SECURITY LABEL",
    "TRIGGER",
    "VIEW",
)


@dataclass(frozen=True, slots=True)
class SchemaStatement:
    """What makes one object."""

    kind: str  # as pg_dump names it: TABLE, INDEX, FK CONSTRAINT, …
    name: str  # for people
    sql: str
    schema: str = ""  # empty where it is not known: the first dot of the name is not the schema's own then

    @property
    def place(self) -> tuple[str, str]:
        """Schema and name; an empty schema for what is in none."""
        if self.schema:
            return self.schema, self.name.removeprefix(f"{self.schema}.")
        schema, dot, rest = self.name.partition(".")
        return (schema, rest) if dot else ("", self.name)

    @property
    def carries_rows(self) -> bool:
        """Whether tables can't take their rows without it."""
        return self.kind not in _LESSER


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object by its name."""

    kind: Literal["RELATION", "TYPE", "ROUTINE"]
    schema: str
    name: str
    arguments: str = ""  # of a routine, as PostgreSQL tells it from others of its name


@dataclass(frozen=True, slots=True)
class SchemaDump:
    """Statements to run before rows are copied, and after."""

    before: tuple[SchemaStatement, ...]
    after: tuple[SchemaStatement, ...]
