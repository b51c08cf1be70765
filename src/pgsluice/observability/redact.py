"""Hiding secrets in text that people will see: log lines and messages of unexpected errors."""

from __future__ import annotations

import re
import traceback
from typing import Final

MASK: Final = "***"

SECRET_NAME: Final = re.compile(
    r"(?i)secret|password|passwd|passphrase|token|credential|access[._-]?key|api[._-]?key"
)
"""Names of settings whose values are secrets; Spark hides by a similar list."""

_TRACE: Final = "Traceback (most recent call last):\n"
_OWN_WORDS: Final = ("builtins", "pgsluice")

# The quantifiers are possessive: a long text is looked through once.
_URL = re.compile(r"\w://[^\s\"']++")
_NAME = re.compile(r"(?<![\w.-])([\w.-]++)\s*+[=:]\s*+")
_VALUE = re.compile(r"'(?:[^'\\]|\\.)*+'|\"[^\"]*+\"|[^\s&,;]++")


def hide_secrets(text: str) -> str:
    """The text without passwords of URLs and without values of ``password=…`` and its like."""
    return _hide_values(_URL.sub(_without_password, text))


def trace_of(error: BaseException) -> str:
    """
    The stack trace of an error and of its causes, for reports.

    Without the words of other libraries' errors: a server's have values of rows in them.
    """
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        words = f"{type(current).__module__}.{type(current).__qualname__}"
        if type(current).__module__.partition(".")[0] in _OWN_WORDS:
            words += f": {current}"
        parts.append("".join((_TRACE, *traceback.format_tb(current.__traceback__), words, "\n")))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return hide_secrets("\nwhich led to:\n".join(reversed(parts)))


def has_secret(name: str, value: str) -> bool:
    """Whether a setting is a secret by its name, or holds one."""
    return SECRET_NAME.search(name) is not None or hide_secrets(value) != value


def _without_password(match: re.Match[str]) -> str:
    """Everything from the first colon to the last @: a password may hold either, unencoded."""
    url = match[0]
    colon, at = url.find(":", url.index("://") + 3), url.rfind("@")
    return f"{url[: colon + 1]}{MASK}{url[at:]}" if 0 <= colon < at else url


def _hide_values(text: str) -> str:
    parts, done = [], 0
    for name in _NAME.finditer(text):
        if name.end() >= done and SECRET_NAME.search(name[1]) and (value := _VALUE.match(text, name.end())):
            parts += [text[done : name.end()], MASK]
            done = value.end()
    return "".join((*parts, text[done:]))
