"""
The configuration as a commented YAML file, written from the models.

``##`` begins words for people; a single ``#`` at the start of a line switches a setting off, and
removing it switches the setting on. Neighbour: ``describe.py`` says what settings there are.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from pgsluice.pipeline.config.describe import section_of, settings, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from pgsluice.pipeline.config.describe import Setting

_WIDTH = 100
_HEADER = """\
## Configuration of a pgsluice pipeline.
##
## Sizes are written 64MiB or 10GB, durations 10s, 200ms, 5m or 1h30m. ${NAME} and ${NAME:-default} take
## environment variables. Every key can also be a variable: source.postgres.url is
## PGSLUICE_SOURCE__POSTGRES__URL, with lists and mappings as JSON. A flag wins over a variable, and a
## variable over this file. Remove the # before a setting to switch it on.
"""


def render(model: type[BaseModel], chosen: Mapping[str, Any], *, complete: bool = False) -> str:
    """
    A file with every setting of a model.

    Args:
        model: The configuration's model.
        chosen: A tree of values that are switched on; the rest stands there with its default.
        complete: Switch everything on, except other kinds of target than the chosen one.
    """
    lines = [line for setting in settings(model) for line in _lines(setting, chosen, complete)]
    return _HEADER + "\n".join(lines) + "\n"


def _lines(setting: Setting, chosen: Mapping[str, Any], complete: bool) -> Iterator[str]:
    indent = "  " * (len(setting.key) - 1)
    value, on = _look_up(setting, chosen, complete)
    if len(setting.key) == 1:
        yield ""
    for line in textwrap.wrap(setting.description, _WIDTH - len(indent)):
        yield f"{indent}## {line}"
    if not setting.section:
        yield f"{indent}## {setting.type}; {_default(setting)}"
    text = f"{indent}{setting.key[-1]}:" + ("" if setting.section else f" {value}")
    if setting.section and not _has_keys(setting):
        text += " {}"
    yield text if on else f"#{text}"


def _look_up(setting: Setting, chosen: Mapping[str, Any], complete: bool) -> tuple[str, bool]:
    """The value to write, and whether it is switched on."""
    at: Any = chosen
    for depth, part in enumerate(setting.key):
        if not isinstance(at, dict) or part not in at:
            other_kind = setting.key[0] == "target" and depth < 2
            required = "…" if setting.required else setting.default_text
            return required, complete and not (other_kind or setting.derived)
        at = at[part]
    return ("" if setting.section else written(at, setting.unit if not isinstance(at, str) else None)), True


def _default(setting: Setting) -> str:
    return "required" if setting.required else f"default {setting.default_text}"


def _has_keys(setting: Setting) -> bool:
    below = section_of(setting.annotation)
    return below is not None and bool(below.model_fields)
