"""
What a newer PostgreSQL says about its schema, in words that an older target knows.

From 18 on NOT NULL is a rule with a name, which pg_dump also writes as a line of its own: for columns that a
table inherits. Older servers know it at a column alone. Neighbour: ``schema`` runs the statements.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pgsluice.schema.statements import SchemaStatement

_NAMED_NOT_NULL_FROM: Final = 180000

_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\s,;".]+)'
_CREATED: Final = re.compile(rf"CREATE (?:UNLOGGED )?TABLE (?P<table>{_NAME}\.{_NAME}) \(")
# Quoted text is passed over: a default may look like anything.
_RULES: Final = re.compile(
    rf"""(?<![A-Za-z0-9_])[Ee]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'
    |^[ ]{{4}}(?:CONSTRAINT[ ]{_NAME}[ ])?NOT[ ]NULL[ ](?P<column>{_NAME})(?:[ ]NO[ ]INHERIT)?(?P<comma>,?)\n
    |"(?:[^"]|"")*"
    |(?<=[ ]NOT[ ]NULL)(?P<alone>[ ]NO[ ]INHERIT)(?=,?\n)""",
    re.MULTILINE | re.VERBOSE,
)
_NOT_CHECKED: Final = re.compile(r" NOT ENFORCED;\s*\Z| NOT NULL \S+ NOT VALID;\s*\Z")


def readable(statement: SchemaStatement, version: int) -> SchemaStatement | None:
    """The statement for a target of that version; None for a rule that it can't have and rows don't need."""
    if version >= _NAMED_NOT_NULL_FROM:
        return statement
    if statement.kind == "TABLE":
        return replace(statement, sql=_table(statement.sql))
    is_rule = statement.kind.endswith("CONSTRAINT")
    return None if is_rule and _NOT_CHECKED.search(statement.sql) else statement


def _table(created: str) -> str:
    """Rules on lines of their own become statements after the table."""
    name = _CREATED.match(created)
    if name is None:
        return created
    kept, rules, place = "", "", 0
    for found in _RULES.finditer(created):
        if found["column"] or found["alone"]:
            kept += created[place : found.start()]
            place = found.end()
        if found["column"]:
            rules += f"\nALTER TABLE ONLY {name['table']} ALTER COLUMN {found['column']} SET NOT NULL;"
            if not found["comma"]:  # it was the last line
                kept = kept.removesuffix(",\n") + "\n"
    return kept + created[place:] + rules
