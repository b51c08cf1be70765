"""
Changing a JSON text at a path, as it stands: numbers keep their digits, keys their order, all else its form.

Paths are those of the Go library sjson: keys and indexes with dots between them, a backslash before a dot
that belongs to a key, a colon before a number that is a key, and -1 for the place behind the last element.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined] # in C, as all that runs for each value
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PART: Final = re.compile(r"((?:[^.\\]|\\.)*)(?:\.|$)")
_PATTERNS: Final = re.compile(r"(?<!\\)[*?|#@!{}\[\]()=<>%]")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Part:
    """One step of a path."""

    name: str
    index: int | None = None  # where an array is met; -1 is behind its end


def parse_path(path: str) -> tuple[Part, ...]:
    """The steps of a path; ValueError says what is wrong with it."""
    if not path or path.endswith("\\"):
        raise ValueError("a path needs keys or indexes with dots between them")
    if found := _PATTERNS.search(path):
        raise ValueError(f"a path has no patterns: write \\{found[0]} for the character itself")
    return tuple(_part(match[1]) for match in _PART.finditer(path) if match.start() < len(path))


def _part(text: str) -> Part:
    name = re.sub(r"\\(.)", r"\1", text.removeprefix(":"))
    return Part(name, int(text) if re.fullmatch(r"-1|[0-9]{1,6}", text) else None)


def canonical_order(key: str) -> tuple[int, bytes]:
    """How jsonb and hstore sort their keys."""
    written = key.encode()
    return len(written), written


def dumped(value: Any) -> str:
    """A value as jsonb writes it."""
    if isinstance(value, dict):
        keys = sorted(map(str, value), key=canonical_order)
        by_key = {str(key): item for key, item in value.items()}
        return "{" + ", ".join(f"{dumped(key)}: {dumped(by_key[key])}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Item:
    """A member of an object, or an element of an array."""

    key: str | int
    start: int
    value: int
    end: int


def _items(text: str, at: int) -> Iterator[_Item]:
    is_object = text[at] == "{"
    start, number = _skip(text, at + 1), 0
    while text[start] not in "}]":
        key: str | int = number
        value = start
        if is_object:
            key, value = scanstring(text, start + 1, True)
            value = _skip(text, _skip(text, value) + 1)  # behind the colon
        end = _decode(text, value)[1]
        yield _Item(key, start, value, end)
        start, number = _skip(text, end), number + 1
        if text[start] == ",":
            start = _skip(text, start + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


class Change:
    """One change of one text: what is to be replaced, found first and then done."""

    def __init__(self, text: str, *, sorts: bool) -> None:
        self._text = text
        self._sorts = sorts  # whether keys stand in the order of jsonb
        self._edits: list[tuple[int, int, str]] = []
        _decode(text, _skip(text, 0))  # raises for what is no JSON

    def done(self) -> str:
        """The text with all changes."""
        text = self._text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def set(self, path: tuple[Part, ...], make: Callable[[str], str | None], *, creates: bool) -> bool:
        """Put what ``make`` gives in a value's place, None being as it is; whether there was a place."""
        return self._set(_skip(self._text, 0), path, make, creates)

    def _set(self, at: int, path: tuple[Part, ...], make: Callable[[str], str | None], creates: bool) -> bool:
        text, part = self._text, path[0]
        if text[at] not in "{[":
            if creates:  # a plain value gives way to what the path needs
                self._edits.append((at, _decode(text, at)[1], _built(path, make)))
            return False
        items = list(_items(text, at))
        wanted: str | int | None = part.name if text[at] == "{" else part.index
        found = [item for item in items if item.key == wanted]
        appends = text[at] == "[" and part.index == -1
        if not found:
            if creates or (appends and len(path) == 1):
                self._insert(at, items, part, _built(path[1:], make))
            return appends and len(path) == 1
        exists = False
        for item in found:  # json may have a key twice; neither value may stay
            if len(path) > 1:
                exists |= self._set(item.value, path[1:], make, creates)
                continue
            exists = True
            new = make(text[item.value : item.end])
            if new is not None:
                self._edits.append((item.value, item.end, new))
        return exists

    def _insert(self, at: int, items: list[_Item], part: Part, new: str) -> None:
        if self._text[at] == "[":
            if part.index is None:
                raise ValueError("an array has no keys")
            missing = 0 if part.index == -1 else part.index - len(items)
            written = ", ".join([*["null"] * missing, new])
        else:
            written = f"{dumped(part.name)}: {new}"
            order = canonical_order(part.name)
            behind = [item for item in items if self._sorts and canonical_order(str(item.key)) > order]
            if behind:
                self._edits.append((behind[0].start, behind[0].start, f"{written}, "))
                return
        place = items[-1].end if items else at + 1
        self._edits.append((place, place, f", {written}" if items else written))

    def delete(self, path: tuple[Part, ...]) -> bool:
        """Take a value out; whether it was there."""
        return self._delete(_skip(self._text, 0), path)

    def _delete(self, at: int, path: tuple[Part, ...]) -> bool:
        text, part = self._text, path[0]
        if text[at] not in "{[":
            return False
        items = list(_items(text, at))
        wanted: str | int | None = part.name if text[at] == "{" else part.index
        if wanted == -1:
            wanted = len(items) - 1
        found = [item for item in items if item.key == wanted]
        if len(path) > 1:
            exists = False
            for item in found:
                exists |= self._delete(item.value, path[1:])
            return exists
        if found:
            kept = ", ".join(text[item.start : item.end] for item in items if item not in found)
            self._edits.append((at + 1, _decode(text, at)[1] - 1, kept))
        return bool(found)


def _built(path: tuple[Part, ...], make: Callable[[str], str | None]) -> str:
    """What a path needs that is not there, with the new value at its end."""
    if not path:
        return make("null") or "null"
    part, inner = path[0], _built(path[1:], make)
    if part.index is None:
        return f"{{{dumped(part.name)}: {inner}}}"
    return "[" + ", ".join([*["null"] * max(part.index, 0), inner]) + "]"
