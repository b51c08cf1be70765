"""
Which kinds of sink there are, and how to build one.

Built-in kinds are listed here; other packages add theirs by entry points of the group
``pgsluice.sinks``, each of which names a :class:`~pgsluice.sinks.base.SinkKind`. A kind's module is
cheap to import; the library that it needs is imported when a sink is built.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, cast

import structlog

from pgsluice.errors import ConfigError, NotInstalledError
from pgsluice.sinks.base import SinkKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from pgsluice.sinks.base import Sink

GROUP: Final = "pgsluice.sinks"

BUILT_IN: Final = {
    "duckdb": "pgsluice.sinks.duckdb:KIND",
    "files": "pgsluice.sinks.files:KIND",
    "memory": "pgsluice.sinks.memory:KIND",
    "postgres": "pgsluice.sinks.postgres:KIND",
    "stdout": "pgsluice.sinks.stdout:KIND",
}

# A kind's name is a key of the configuration and a part of the names of environment variables.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a kind is to be had."""

    name: str
    value: str  # module:attribute
    install: str  # what to give to pip when an import fails

    def load(self) -> SinkKind:
        module, _, attribute = self.value.partition(":")
        try:
            kind = getattr(import_module(module), attribute)
        except ImportError as exc:
            raise _not_installed(self.name, self.install, exc) from exc
        except AttributeError as exc:
            raise ConfigError(f"the target kind {self.name} is broken: {self.value} does not exist") from exc
        if not isinstance(kind, SinkKind) or kind.name != self.name:
            raise ConfigError(
                f"the target kind {self.name} is broken: {self.value} is not a SinkKind of that name"
            )
        return kind


def kinds() -> dict[str, SinkKind]:
    """Every kind that can be loaded, by name; a broken one of another package is left out with a warning."""
    found = {}
    for name, place in sorted(_places().items()):
        try:
            found[name] = place.load()
        except ConfigError as error:
            if name in BUILT_IN:
                raise
            _warn("target kind left out", name=name, reason=str(error))
    return found


def kind(name: str) -> SinkKind:
    """The kind of that name."""
    places = _places()
    if name not in places:
        raise unknown_kind(name, places)
    return places[name].load()


def build(chosen: SinkKind, config: BaseModel) -> Sink:
    """Make a sink of a kind; says what to install when its library is missing."""
    try:
        return cast("Sink", chosen.build(config))
    except ImportError as exc:
        raise _not_installed(chosen.name, f"pgsluice[{chosen.extra or chosen.name}]", exc) from exc


def unknown_kind(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a kind that there is none of; it names the nearest one."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1)
    remedy = f"Did you mean {nearest[0]}?" if nearest else f"Known kinds: {', '.join(names)}"
    return ConfigError(f"there is no target kind {name!r}", remedy=remedy, name=name)


def _places() -> dict[str, _Place]:
    places = {name: _Place(name, value, f"pgsluice[{name}]") for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        if BUILT_IN.get(entry.name) == entry.value:
            continue  # our own metadata
        if entry.name in places:
            _warn("target kind ignored: the name is taken", name=entry.name, package=_package(entry))
        elif not _NAME.fullmatch(entry.name):
            _warn("target kind ignored: not a usable name", name=entry.name, package=_package(entry))
        else:
            places[entry.name] = _Place(entry.name, entry.value, _package(entry))
    return places


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _not_installed(name: str, install: str, exc: ImportError) -> NotInstalledError:
    missing = f"the Python package {exc.name}" if exc.name else "a library"
    return NotInstalledError(
        f"the {name} target needs {missing}, which can't be imported",
        remedy=f"pip install '{install}'",
        name=name,
    )


def _warn(event: str, **fields: str) -> None:
    structlog.get_logger(__name__).warning(event, **fields)
