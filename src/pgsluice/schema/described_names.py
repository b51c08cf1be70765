"""Descriptions of objects under other names for tables and columns: those of a target, or of another time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.quotes import bare, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.schema.entry import Definition
    from pgsluice.schema.renames import Renames, TableName

_PART: Final = r'("(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_$]*)'
_QUALIFIED: Final = re.compile(rf"(?<![\w.\"]){_PART}\.{_PART}")
_LITERAL: Final = re.compile(
    r"""('(?:[^']|'')*')(::"?regclass"?)?"""
)  # the name of a relation, if it is cast so
_IDENTIFIER: Final = re.compile(rf"'(?:[^']|'')*'|{_PART}")
_NEEDLESS: Final = re.compile(r'"([a-z_][a-z0-9_$]*)"')
_NO_NAMES: Final = (  # in which no other object is named
    *("kind", "name", "comment", "label", "arguments", "missing"),
)
_BODY: Final = "\nAS "  # of a function, which is left as it is


class DescribedNames:
    """
    Other names for schemas and tables, in descriptions.

    Args:
        owned: the table that a sequence belongs to: it must be in its schema.
    """

    def __init__(self, renames: Renames, owned: Mapping[TableName, TableName]) -> None:
        self._renames = renames.with_owned(owned) if renames else renames

    def renamed(self, definition: Definition) -> Definition:
        """A description under the target's names."""
        if not self._renames:
            return definition
        schema, name = self._name_of(definition)
        renamed = {**self.with_texts_renamed(definition), "schema": schema, "name": name}
        if "query" in definition:
            renamed["query"] = self._renames.query(definition["query"])
        return renamed

    def with_texts_renamed(self, definition: Definition) -> Definition:
        """A description that has its own name, and names other tables as they are called."""
        mapped: Definition = self._mapped(definition)
        return {**mapped, "schema": definition["schema"], "name": definition["name"]}

    def identity(self, kind: str, text: str) -> str:
        """What the server calls an object of a kind, as SQL."""
        if kind == "schema":
            return quoted(self._renames.schemas.get(bare(text), bare(text)))
        return self._text(text)

    def _name_of(self, definition: Definition) -> TableName:
        kind, schema, name = definition["kind"], definition["schema"], definition["name"]
        if kind == "schema":
            renamed = self._renames.schemas.get(name, name)
            return renamed, renamed
        if "table" in definition:  # it is where its table is
            found = _QUALIFIED.fullmatch(definition["table"])
            assert found is not None
            return self._renames.table((bare(found[1]), bare(found[2])))[0], name
        if kind in ("table", "sequence"):
            return self._renames.table((schema, name))
        return self._renames.schemas.get(schema, schema), name

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, dict):
            mapped = {key: each if key in _NO_NAMES else self._mapped(each) for key, each in value.items()}
            if value.get("kind") == "sequence":  # of a column that is an identity
                mapped["schema"], mapped["name"] = self._renames.table((value["schema"], value["name"]))
            return mapped
        if isinstance(value, list):
            return [self._mapped(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        head, body, rest = text.partition(_BODY)
        parts, at = [], 0
        for found in _LITERAL.finditer(head):
            parts.append(_QUALIFIED.sub(self._qualified, head[at : found.start()]))
            parts.append(self._relation(found[1]) + found[2] if found[2] else found[0])
            at = found.end()
        return "".join((*parts, _QUALIFIED.sub(self._qualified, head[at:]), body, rest))

    def _relation(self, literal: str) -> str:
        """The name of a relation in a literal."""
        name = literal[1:-1].replace("''", "'")
        return "'" + _QUALIFIED.sub(self._qualified, name).replace("'", "''") + "'"

    def _qualified(self, found: re.Match[str]) -> str:
        name = bare(found[1]), bare(found[2])
        renamed = self._renames.table(name)
        return found[0] if renamed == name else ".".join(map(quoted, renamed))


def with_columns_renamed(text: str, columns: Mapping[str, str]) -> str:
    """An expression in which columns have other names; quoted text is left as it is."""

    def renamed(found: re.Match[str]) -> str:
        name = bare(found[1]) if found[1] else ""
        return quoted(columns[name]) if name in columns else found[0]

    return _IDENTIFIER.sub(renamed, text)


def for_people(text: str) -> str:
    """SQL without the quotes that it does not need: descriptions have them around every name."""
    return _NEEDLESS.sub(r"\1", text)
