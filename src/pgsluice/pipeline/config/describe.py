"""
The configuration's models as a flat list of settings: for help, documentation and templates.

Neighbours: ``model.py`` and the sinks' own models, which this module only reads.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from pgsluice.observability.redact import MASK, SECRET_NAME, hide_secrets
from pgsluice.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

Key = tuple[str | int, ...]
"""The path of a key; numbers are places in lists."""

_CONTAINERS = (list, tuple, set, frozenset, dict)
_PLAIN = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true | false",
    Path: "path",
    SecretStr: "secret",
}


_NAMED: Final = {"name": "<name>"}
"""What a default that comes from other settings is made of, for people."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the configuration."""

    key: tuple[str, ...]
    type: str  # for people: size, duration, true | false, log | sinks, list of text
    required: bool
    default: Any  # None when there is none
    unit: Unit | None
    description: str
    annotation: Any  # as the model has it
    derived: bool  # whether its default comes from other settings

    @property
    def name(self) -> str:
        """The dotted key."""
        return ".".join(self.key)

    @property
    def section(self) -> bool:
        """Whether keys are below it, rather than a value."""
        return section_of(self.annotation) is not None

    @property
    def default_text(self) -> str:
        """The default as it is written in YAML; empty when the setting is required."""
        return "" if self.required else written(self.default, self.unit)


def settings(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every key of a model, each section before the keys below it."""
    for name, field in model.model_fields.items():
        key = (*prefix, name)
        yield _setting(key, field)
        if (below := section_of(field.annotation)) is not None:
            yield from settings(below, key)


def values(section: BaseModel, prefix: Key = ()) -> Iterator[tuple[Key, str]]:
    """Every value that a configuration has, as people may see it: secrets are masked."""
    for name, field in type(section).model_fields.items():
        value, key = getattr(section, name), (*prefix, field.alias or name)
        if isinstance(value, BaseModel):
            yield from values(value, key)
        elif item_section_of(field.annotation) is not None:
            for index, item in enumerate(value):
                yield from values(item, (*key, index))
        elif section_of(field.annotation) is None:
            yield key, hide_secrets(written(_masked(value), _unit(field)))


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a section, also of an optional one; None when the annotation is something else."""
    core = _core(annotation)
    return core if isinstance(core, type) and issubclass(core, BaseModel) else None


def item_section_of(annotation: Any) -> type[BaseModel] | None:
    """The model of the items of a list of sections."""
    core = _core(annotation)
    return section_of(typing.get_args(core)[0]) if typing.get_origin(core) in (list, tuple) else None


def is_container(annotation: Any) -> bool:
    """Whether a value is a list or a mapping, which environment variables give as JSON."""
    return section_of(annotation) is not None or typing.get_origin(_core(annotation)) in _CONTAINERS


def written(value: Any, unit: Unit | None = None) -> str:
    """A value as it is written in YAML; YAML's flow style is JSON."""
    if value is None:
        return "null"
    if unit is not None:
        return unit.write(value)
    if isinstance(value, SecretStr):
        return str(value)
    if isinstance(value, BaseModel):
        return "{}"
    if isinstance(value, str | Path):
        return _scalar(str(value))
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """A section inside of a mapping."""
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else str(value)


def _setting(key: tuple[str, ...], field: FieldInfo) -> Setting:
    unit = _unit(field)
    default = field.get_default(call_default_factory=True, validated_data=_NAMED)
    return Setting(
        key=key,
        type=unit.name if unit else _type_name(field.annotation),
        required=field.is_required(),
        default=None if default is PydanticUndefined else default,
        unit=unit,
        description=" ".join((field.description or "").split()),
        annotation=field.annotation,
        derived=bool(field.default_factory_takes_validated_data),
    )


def _unit(field: FieldInfo) -> Unit | None:
    # Pydantic keeps the metadata of `Size` in the field, and that of `Size | None` in the annotation.
    inner = [item for arg in typing.get_args(field.annotation) for item in getattr(arg, "__metadata__", ())]
    return next((item for item in (*field.metadata, *inner) if isinstance(item, Unit)), None)


def _masked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: MASK if SECRET_NAME.search(key) else item for key, item in value.items()}


def _core(annotation: Any) -> Any:
    """The annotation without ``Annotated`` and without ``| None``."""
    if hasattr(annotation, "__metadata__"):
        return _core(annotation.__origin__)
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _core(inner[0]) if len(inner) == 1 else annotation
    return annotation


def _type_name(annotation: Any) -> str:
    core = _core(annotation)
    origin, arguments = typing.get_origin(core), typing.get_args(core)
    if section_of(core) is not None:
        return "section"
    if origin is typing.Literal:
        return " | ".join(str(value) for value in arguments)
    if origin is dict:
        return "mapping"
    if origin in _CONTAINERS:
        return f"list of {_type_name(arguments[0])}" + ("s" if section_of(arguments[0]) else "")
    return _PLAIN.get(core, getattr(core, "__name__", str(core)))


def _scalar(text: str) -> str:
    import yaml

    return (
        yaml.safe_dump(text, default_flow_style=True, allow_unicode=True, width=10**6)
        .removesuffix("\n...\n")
        .strip()
    )
