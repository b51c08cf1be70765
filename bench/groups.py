"""The groups of measurements, by name; each is a package that gives figures."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.harness import Figure, Options

GROUPS: Final = ("capture", "postgres", "schema", "modifiers")


class Group(Protocol):
    """What the package of a group has to offer."""

    def measure(self, options: Options) -> Iterator[Figure]:
        """The figures of the group, one after the other."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Versions of the servers and programs that the group measures with."""
        ...

    def figure_names(self) -> tuple[str, ...]:
        """What ``--figure`` may name."""
        ...


def load(name: str) -> Group:
    """The group of that name."""
    group: Any = import_module(f"bench.{name}")
    return group  # type: ignore[no-any-return]
