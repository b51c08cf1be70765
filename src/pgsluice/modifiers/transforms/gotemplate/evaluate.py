"""The two ways to evaluate a template: as SQL over a row, and in Python over a single text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.modifiers.transforms.gotemplate.functions import FUNCTIONS
from pgsluice.modifiers.transforms.gotemplate.nodes import (
    Call,
    Choice,
    Constant,
    Dynamic,
    Joined,
    Node,
    Value,
)
from pgsluice.modifiers.transforms.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping


def as_sql(node: Node, value: str, others: Mapping[str, str]) -> str:
    """The SQL of what a template gives, from the SQL of the value and of what else it names."""
    match node:
        case Constant(literal):
            return quoted(literal) if isinstance(literal, str) else str(literal).lower()
        case Value():
            return value
        case Dynamic(name):
            return others[name]
        case Choice(condition, then, otherwise):
            parts = (as_sql(each, value, others) for each in (condition, then, otherwise))
            return f"if({', '.join(parts)})"
        case Joined(parts):
            pieces = [_text(part, value, others) for part in parts if part != Constant("")]
            return pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})" if pieces else "''"
        case Call(name, arguments):
            return FUNCTIONS[name].sql(*(as_sql(each, value, others) for each in arguments))


def _text(node: Node, value: str, others: Mapping[str, str]) -> str:
    made = as_sql(node, value, others)
    return made if node.kind == "text" else f"cast({made} as string)"


def in_python(node: Node, value: str) -> Any:
    """What a template that names no other columns gives for a text."""
    match node:
        case Constant(literal):
            return literal
        case Value():
            return value
        case Choice(condition, then, otherwise):
            return in_python(then if in_python(condition, value) else otherwise, value)
        case Joined(parts):
            return "".join(_shown(in_python(part, value)) for part in parts)
        case Call(name, arguments):
            return FUNCTIONS[name].python(*(in_python(each, value) for each in arguments))
        case Dynamic(name):
            raise LookupError(name)


def _shown(made: Any) -> str:
    return str(made).lower() if isinstance(made, bool) else str(made)
