"""Hiding secrets in text that people will see: log lines and messages of unexpected errors."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

# The user information of a URL; the greedy match also takes an unencoded @ or / inside a password.
_URL = re.compile(r"(\w://[^\s:/@\"']*):[^\s\"']*@")
_PAIR = re.compile(
    r"(?i)(?<![\w.-])([\w.-]*(?:password|passwd|passphrase|secret|token|api[._-]?key|access[._-]?key)[\w.-]*)(\s*[=:]\s*)"
    r"('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&,;]+)"
)

SECRET_NAME: Final = re.compile(
    r"(?i)secret|password|passphrase|token|credential|access[._-]?key|api[._-]?key"
)
"""Names of settings whose values are secrets; Spark hides by a similar list."""


def hide_secrets(text: str) -> str:
    """The text without passwords of URLs and without values of ``password=…`` and its like."""
    return _PAIR.sub(rf"\1\2{MASK}", _URL.sub(rf"\1:{MASK}@", text))
