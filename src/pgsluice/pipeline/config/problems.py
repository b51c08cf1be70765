"""
What is wrong with a configuration, one line per key: pydantic's errors in our own words.

No line ever shows a value: it may be a secret.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigError
from pgsluice.pipeline.config.describe import Key, item_section_of, section_of, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel, ValidationError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    key: Key
    text: str
    origin: str = ""  # file, variable or flag that the value came from

    def __str__(self) -> str:
        place = f"{dotted(self.key)}: " if self.key else ""
        return f"{place}{self.text}" + (f" ({self.origin})" if self.origin else "")


def dotted(key: Key) -> str:
    """``targets[0].duckdb.path``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def as_error(problems: Sequence[Problem]) -> ConfigError:
    """All the problems as one error, a line each."""
    lines = [str(problem) for problem in problems]
    message = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} problems:", *lines])
    return ConfigError(
        message,
        problems=[{"key": dotted(p.key), "problem": p.text, "origin": p.origin} for p in problems],
    )


def from_validation(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Pydantic's errors as problems."""
    details = error.errors(include_url=False, include_input=False)
    return [Problem(tuple(item["loc"]), _words(dict(item), model)) for item in details]


def unknown_key(key: Key, model: type[BaseModel]) -> str:
    """Says that a key is unknown, and which one is nearest."""
    parent = _model_at(model, key[:-1])
    known = list(parent.model_fields) if parent else []
    if not known:
        return "unknown key; this section has no settings in this version"
    if nearest := difflib.get_close_matches(str(key[-1]), known, n=1):
        return f"unknown key, did you mean {dotted((*key[:-1], nearest[0]))}?"
    elsewhere = [setting.name for setting in settings(model) if setting.key[-1] == key[-1]]
    if nearest := difflib.get_close_matches(dotted(key), elsewhere, n=2, cutoff=0.0):
        return f"unknown key, did you mean {' or '.join(sorted(nearest))}?"
    return f"unknown key, known here: {', '.join(known)}"


def _words(item: dict[str, Any], model: type[BaseModel]) -> str:
    match item["type"]:
        case "extra_forbidden":
            return unknown_key(tuple(item["loc"]), model)
        case "missing":
            is_place = item["loc"][0] == "target" and item["loc"][-1] in ("path", "url")
            return "is required; on the command line it is --target-url" if is_place else "is required"
        case "value_error":
            return str(item["ctx"]["error"])
        case "literal_error":
            return f"should be {item['ctx']['expected']}"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "should be a section with keys"
        case "tuple_type" | "list_type":
            return "should be a list"
        case _:
            message = str(item["msg"])
            return message.removeprefix("Input ").removeprefix("String ").removeprefix("Value ")


def _model_at(model: type[BaseModel], key: Key) -> type[BaseModel] | None:
    """The model of the section at a key."""
    current: type[BaseModel] | None = model
    field_type: Any = None
    for part in key:
        if isinstance(part, int):
            current = item_section_of(field_type)
        elif current is not None and part in current.model_fields:
            field_type = current.model_fields[part].annotation
            current = section_of(field_type)
        else:
            return None
    return current
