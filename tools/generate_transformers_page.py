"""
Write ``docs/transformers.md`` from the classes of :mod:`pgsluice.modifiers.transforms`.

    python tools/generate_transformers_page.py            write the page
    python tools/generate_transformers_page.py --check    exit 1 when the committed page is out of date
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import PydanticUndefined

from pgsluice.modifiers.transforms.registry import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

    from pgsluice.modifiers.transforms.base import Transform

PAGE = Path(__file__).resolve().parent.parent / "docs" / "transformers.md"

INTRODUCTION = """\
# Transformers

<!-- Written by tools/generate_transformers_page.py from src/pgsluice/modifiers/transforms/. -->

What a rule may name; [Filters and rules](modifiers.md#changing-values) says what rules are. NULL stays NULL.
*Unique* says whether different values stay different: surely, most likely, or not (*no*). A transformer with
`generator` goes by chance unless that is `deterministic`, one with `seed` unless there is a seed; all others
always give the same for the same value, but for `string`, and `sql` with functions such as `rand()`.

`pg_anonymizer`, which pgstream has, is not here: it runs a query for each value. Rules can be [taken from its
labels](modifiers.md#rules-from-security-labels), for the functions that have something like them below.
"""

_UNIQUE = {"preserved": "yes", "likely": "most likely", "lossy": "no"}


def render() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(
        "\n" + "\n".join(_section(name)) + "\n" for name in sorted(BUILT_IN) if name
    )


def _section(name: str) -> Iterator[str]:
    transform = BUILT_IN[name]
    families = ", ".join(sorted(transform.families)) if transform.families else "all"
    yield f"## {name}"
    yield ""
    yield " ".join(inspect.cleandoc(transform.__doc__ or "").split())
    yield ""
    yield f"Types: {families}. Unique: {_UNIQUE[transform.uniqueness]}."
    parameters = list(_parameters(transform))
    if parameters:
        yield ""
        yield "| parameter | default | |"
        yield "|---|---|---|"
        yield from parameters


def _parameters(transform: type[Transform]) -> Iterator[str]:
    for name, field in transform.model_fields.items():
        words = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{name}` | {_default(field)} | {words} |"
    for name in sorted(transform.dynamic - set(transform.model_fields)):
        yield f"| `{name}` | | Given by another column (`dynamic_parameters`) alone. |"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    return "" if field.default in (None, "") else f"`{field.default}`"


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    if "--check" not in arguments:
        PAGE.write_text(render(), encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render():
        print("docs/transformers.md is out of date: run make format", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
