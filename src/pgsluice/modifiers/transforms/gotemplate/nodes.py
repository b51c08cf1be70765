"""What templates are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["text", "number", "truth"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: str | int | bool

    @property
    def kind(self) -> Kind:
        """By its type."""
        return (
            "text" if isinstance(self.value, str) else "truth" if isinstance(self.value, bool) else "number"
        )


@dataclass(frozen=True, slots=True)
class Value:
    """``.GetValue``."""

    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Dynamic:
    """``.GetDynamicValue "name"``."""

    name: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    name: str
    arguments: tuple[Node, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Choice:
    """``if``, ``else`` and ``end``."""

    condition: Node
    then: Node
    otherwise: Node
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts in their order."""

    parts: tuple[Node, ...]
    kind: Kind = "text"


Node = Constant | Value | Dynamic | Call | Choice | Joined


def names_in(node: Node) -> Iterator[str]:
    """The names that GetDynamicValue is called with."""
    match node:
        case Dynamic(name):
            yield name
        case Call(_, children) | Joined(children):
            for child in children:
                yield from names_in(child)
        case Choice(condition, then, otherwise):
            for child in (condition, then, otherwise):
                yield from names_in(child)
