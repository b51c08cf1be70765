"""The functions of templates: those of Go and of its library sprig that rules use, in SQL and in Python."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgsluice.modifiers.transforms.gotemplate.nodes import Kind

Taken = Literal["text", "number", "truth", "any", "some text", "some number"]
"""What an argument is; ``some`` stands for a literal, which is looked at when the template is read."""


@dataclass(frozen=True, slots=True)
class Function:
    """One of them."""

    takes: tuple[Taken, ...]
    gives: Kind
    sql: Callable[..., str]
    python: Callable[..., Any]
    more: bool = False  # whether the last argument may come again


def _both(test: str, connective: str) -> Callable[..., str]:
    return lambda first, *others: (
        "(" + f" {connective} ".join(f"{first} {test} {other}" for other in others) + ")"
    )


def _joined(connective: str) -> Callable[..., str]:
    return lambda *truths: "(" + f" {connective} ".join(truths) + ")"


def _cut(count: str, text: str) -> str:
    return f"right({text}, {-int(count)})" if int(count) < 0 else f"left({text}, {count})"


def _part(start: str, end: str, text: str) -> str:
    first = max(int(start), 0)
    size = "" if int(end) < 0 else f", {max(int(end) - first, 0)}"
    return f"substr({text}, {first + 1}{size})"


def _part_of(start: int, end: int, text: str) -> str:
    return text[max(start, 0) :] if end < 0 else text[max(start, 0) : end]


def _without(side: str) -> Callable[[str, str], str]:
    kept = "substr({1}, length({0}) + 1)" if side == "startswith" else "left({1}, length({1}) - length({0}))"
    return lambda piece, text: f"if({side}({text}, {piece}), {kept.format(piece, text)}, {text})"


def _json(text: str) -> str:
    """Spark writes no text by itself, but an array of one."""
    return f"regexp_replace(to_json(array({text})), '^.|.$', '')"


_SPACE: Final = "'(?U)^\\\\s+|\\\\s+$'"

FUNCTIONS: Final[Mapping[str, Function]] = {
    "and": Function(("truth",), "truth", _joined("and"), lambda *all_: all(all_), more=True),
    "contains": Function(
        ("text", "text"), "truth", lambda piece, text: f"contains({text}, {piece})", lambda a, b: a in b
    ),
    "default": Function(
        ("text", "text"),
        "text",
        lambda other, text: f"if({text} = '', {other}, {text})",
        lambda other, text: text or other,
    ),
    "eq": Function(
        ("text", "text"), "truth", _both("=", "or"), lambda first, *others: first in others, more=True
    ),
    "hasPrefix": Function(
        ("text", "text"), "truth", lambda a, b: f"startswith({b}, {a})", lambda a, b: b.startswith(a)
    ),
    "hasSuffix": Function(
        ("text", "text"), "truth", lambda a, b: f"endswith({b}, {a})", lambda a, b: b.endswith(a)
    ),
    "len": Function(
        ("text",), "number", lambda text: f"octet_length({text})", lambda text: len(text.encode())
    ),
    "lower": Function(("text",), "text", lambda text: f"lower({text})", str.lower),
    "ne": Function(("text", "text"), "truth", lambda a, b: f"({a} <> {b})", lambda a, b: a != b),
    "not": Function(("truth",), "truth", lambda truth: f"(not {truth})", lambda truth: not truth),
    "or": Function(("truth",), "truth", _joined("or"), lambda *all_: any(all_), more=True),
    "quote": Function(("text",), "text", _json, lambda text: json.dumps(text, ensure_ascii=False)),
    "repeat": Function(
        ("some number", "text"), "text", lambda n, text: f"repeat({text}, {n})", lambda n, text: text * n
    ),
    "replace": Function(
        ("some text", "text", "text"),
        "text",
        lambda old, new, text: f"replace({text}, {old}, {new})",
        lambda old, new, text: text.replace(old, new),
    ),
    "sha256sum": Function(
        ("text",),
        "text",
        lambda text: f"sha2(cast({text} as binary), 256)",
        lambda text: hashlib.sha256(text.encode()).hexdigest(),
    ),
    "substr": Function(("some number", "some number", "text"), "text", _part, _part_of),
    "toJson": Function(("text",), "text", _json, lambda text: json.dumps(text, ensure_ascii=False)),
    "trim": Function(("text",), "text", lambda text: f"regexp_replace({text}, {_SPACE}, '')", str.strip),
    "trimPrefix": Function(
        ("text", "text"), "text", _without("startswith"), lambda piece, text: text.removeprefix(piece)
    ),
    "trimSuffix": Function(
        ("text", "text"), "text", _without("endswith"), lambda piece, text: text.removesuffix(piece)
    ),
    "trunc": Function(
        ("some number", "text"), "text", _cut, lambda n, text: text[:n] if n >= 0 else text[n:]
    ),
    "upper": Function(("text",), "text", lambda text: f"upper({text})", str.upper),
}
"""By name; ``printf`` is besides: what it takes is in its first argument."""
