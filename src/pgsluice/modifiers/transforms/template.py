"""A value that a template of the user's makes."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from pydantic import Field, field_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Nulls, Transform
from pgsluice.modifiers.transforms.gotemplate.evaluate import as_sql
from pgsluice.modifiers.transforms.gotemplate.nodes import Node, names_in
from pgsluice.modifiers.transforms.gotemplate.parse import parse


class Template(Transform):
    """
    What a template makes, in a part of Go's language: texts, `{{ .GetValue }}`,
    `{{ .GetDynamicValue "column" }}`, pipelines, if, else and end, printf with %s, %d and %v.

    Functions: and, contains, default, eq, hasPrefix, hasSuffix, len, lower, ne, not, or, quote, repeat,
    replace, sha256sum, substr, toJson, trim, trimPrefix, trimSuffix, trunc, upper. Others are refused at the
    start. Another column that is NULL is an empty text.
    """

    families: ClassVar[frozenset[Family] | None] = frozenset({"text"})

    template: str = Field(min_length=1)
    """Such as `{{ .GetValue | lower | trunc 3 }}-{{ .GetDynamicValue "country" }}`."""

    @field_validator("template")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        parse(value)
        return value

    @cached_property
    def _node(self) -> Node:
        return parse(self.template)

    @property
    def columns(self) -> frozenset[str]:
        """Those that it names."""
        return frozenset(names_in(self._node))

    @property
    def nulls(self) -> Nulls:
        """A template always gives a text."""
        return "never"

    @property
    def may_be_cut(self) -> bool:
        """What does not fit is not what was asked for."""
        return False

    def sql(self, cell: Cell) -> str:
        """The template as an expression."""
        return as_sql(self._node, cell.value, cell.parameters)
