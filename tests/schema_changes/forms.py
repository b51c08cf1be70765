"""
The forms of schema changes that ``forms.sql`` has. Each has a schema of its own, which ``{s}`` stands for.

``-- before`` is a statement from before the stream begins, ``-- query`` is sent as one query while it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_TEXT = Path(__file__).with_name("forms.sql").read_text()


PREFIX = "f_"  # of all schemas


@dataclass(frozen=True, slots=True)
class Form:
    """One form."""

    name: str
    before: tuple[str, ...]
    queries: tuple[str, ...]

    @property
    def schema(self) -> str:
        """The schema of its own."""
        return PREFIX + re.sub(r"\W", "_", self.name)


def _form(text: str) -> Form:
    name, *parts = re.split(r"^-- (before|query)\n", text, flags=re.MULTILINE)
    form = Form(name.strip(), (), ())
    statements = [
        (kind, part.strip().replace("{s}", form.schema))
        for kind, part in zip(parts[::2], parts[1::2], strict=True)
    ]
    return Form(
        form.name,
        tuple(statement for kind, statement in statements if kind == "before"),
        tuple(statement for kind, statement in statements if kind == "query"),
    )


FORMS = [_form(text) for text in re.split(r"^--- ", _TEXT, flags=re.MULTILINE) if text.strip()]
