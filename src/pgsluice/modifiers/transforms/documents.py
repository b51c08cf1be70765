"""Single values inside of JSON and hstore."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pgsluice.modifiers.transforms.base import ArrowTransform, Family
from pgsluice.modifiers.transforms.gotemplate.evaluate import in_python
from pgsluice.modifiers.transforms.gotemplate.nodes import Node, names_in
from pgsluice.modifiers.transforms.gotemplate.parse import parse
from pgsluice.modifiers.transforms.jsontext import Change, Part, canonical_order, dumped, parse_path
from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.schema.table import PgType

_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"=>(?:NULL|"((?:[^"\\]|\\.)*+)")(?:, |$)', re.DOTALL)


class _CannotChangeError(Exception):
    """A value has no place for an operation, or what it makes is none."""


class _Operation(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    operation: Literal["set", "delete"]
    value: Any = None
    value_template: str | None = None
    skip_not_exist: bool = True
    error_not_exist: bool = False

    @model_validator(mode="after")
    def _says_what(self) -> _Operation:
        given = {"value", "value_template"} & self.model_fields_set
        if self.operation == "set" and len(given) != 1:
            raise ValueError("set needs either value or value_template")
        if self.operation == "delete" and given:
            raise ValueError(f"delete takes no {sorted(given)[0]}")
        if self._node is not None and (names := sorted(names_in(self._node))):
            raise ValueError(f"value_template can't take {names[0]} of another column; sql and template can")
        return self

    @cached_property
    def _node(self) -> Node | None:
        return None if self.value_template is None else parse(self.value_template)

    def missing(self) -> None:
        """There is no such place."""
        if self.error_not_exist:
            raise _CannotChangeError


def _readable(path: str) -> str:
    parse_path(path)
    return path


class JsonOperation(_Operation):
    """A change at one path."""

    path: Annotated[str, AfterValidator(_readable)]

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        return parse_path(self.path)

    @cached_property
    def _written(self) -> str:
        return dumped(self.value)

    def _made(self, old: str) -> str | None:
        """What stands in a value's place."""
        if self._node is None:
            return self._written
        value = json.loads(old)
        if value is None:
            return None
        if isinstance(value, dict | list):
            raise _CannotChangeError
        new = str(in_python(self._node, value if isinstance(value, str) else old))
        json.loads(new)
        return new

    def apply(self, text: str, *, sorts: bool) -> str:
        """The text after the operation."""
        change = Change(text, sorts=sorts)
        if self.operation == "delete":
            exists = change.delete(self._parts)
        else:
            creates = not self.skip_not_exist and not self.error_not_exist and self._node is None
            exists = change.set(self._parts, self._made, creates=creates)
        if not exists:
            self.missing()
        return change.done()


class HstoreOperation(_Operation):
    """A change of one key."""

    key: str
    value: str | None = None

    def apply(self, pairs: dict[str, str | None]) -> None:
        """Change the pairs."""
        if self.key not in pairs:
            self.missing()
            if self.skip_not_exist or self.operation == "delete":
                return
        if self.operation == "delete":
            del pairs[self.key]
            return
        old = pairs.get(self.key)
        if self._node is None:
            pairs[self.key] = self.value
        elif old is not None:
            pairs[self.key] = str(in_python(self._node, old))


class Json(ArrowTransform):
    """
    Values at paths of a JSON document set or deleted; all else stays as it is.

    No expression of Spark changes a JSON text in place, so this is a loop over the texts of a batch. A path
    is that of sjson: `address.street`, `tags.0`, `tags.-1` (behind the last one), `a\\.b` for a dot in a key.
    With skip_not_exist (the default) nothing is done where a path is not there; with error_not_exist such a
    value can't be changed. A value_template is a template over the value at the path, as of the transformer
    template, which gives JSON: `"{{ .GetValue | upper }}"`.
    """

    families: ClassVar[frozenset[Family] | None] = frozenset({"json"})

    operations: tuple[JsonOperation, ...] = Field(min_length=1)
    """A list: {operation: set or delete, path, value or value_template, skip_not_exist, error_not_exist}."""

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """Each text, one operation after the other."""
        import pyarrow as pa

        sorts = base_type(type_).name == "jsonb"
        return pa.array([self._changed(text, sorts) for text in texts.to_pylist()], pa.string())

    def _changed(self, text: str, sorts: bool) -> str | None:
        try:
            for each in self.operations:
                text = each.apply(text, sorts=sorts)
        except (_CannotChangeError, ValueError, IndexError, RecursionError):
            return None
        return text


class Hstore(ArrowTransform):
    """
    Values of keys of an hstore set or deleted.

    The operations are those of the transformer json, with a key in place of a path, and texts or null as
    values; such a template gives a text.
    """

    families: ClassVar[frozenset[Family] | None] = frozenset({"hstore"})

    operations: tuple[HstoreOperation, ...] = Field(min_length=1)
    """A list: {operation: set or delete, key, value or value_template, skip_not_exist, error_not_exist}."""

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """Each text, one operation after the other."""
        import pyarrow as pa

        return pa.array([self._changed(text) for text in texts.to_pylist()], pa.string())

    def _changed(self, text: str) -> str | None:
        try:
            pairs = _pairs(text)
            for each in self.operations:
                each.apply(pairs)
        except _CannotChangeError:
            return None
        ordered = sorted(pairs.items(), key=lambda pair: canonical_order(pair[0]))
        return ", ".join(
            f"{_quoted(name)}=>{'NULL' if own is None else _quoted(own)}" for name, own in ordered
        )


def _pairs(text: str) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    done = 0
    for match in _PAIR.finditer(text):
        if match.start() != done:
            break
        done = match.end()
        pairs[_bare(match[1])] = None if match[2] is None else _bare(match[2])
    if done != len(text):
        raise _CannotChangeError
    return pairs


def _bare(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
