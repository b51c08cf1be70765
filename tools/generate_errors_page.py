"""
Write ``docs/errors.md`` from the classes of :mod:`pgsluice.errors`.

    python tools/generate_errors_page.py            write the page
    python tools/generate_errors_page.py --check    exit 1 when the committed page is out of date

One section per family (the direct subclasses of ``SluiceError``). The first paragraph of a class's
docstring is its sentence in the table; further paragraphs, the advice, follow as text.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"

INTRODUCTION = """\
# Errors

<!-- Written by tools/generate_errors_page.py from src/pgsluice/errors.py. -->

Every error that pgsluice raises on purpose has a code that stays the same from version to version. On
the command line it is one line with the code, what happened and where, and what to do about it;
`--log-level debug` adds the stack trace. In JSON output and in log lines the code is the field `code`,
beside the facts of the case (`slot`, `table`, `lsn`, …) as fields of their own.

In a program, catch the class: every one is a subclass of `pgsluice.errors.SluiceError`.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | findings (`check`) or differences |
| 2 | usage, configuration, or this machine |
| 3 | the source |
| 4 | the target |
| 5 | a gap in the data: it has to be copied again |
| 70 | a mistake in pgsluice itself |
| 130, 143 | stopped at once by a second SIGINT or SIGTERM |

Errors marked *retried* may pass without anybody doing anything: a running pipeline tries again, with
growing pauses, before it gives up. All others stop it at once.

Some codes belong to no class: `SLUICE-USAGE` (an option or argument that can't be understood, exit code 2)
and `SLUICE-BUG` (something nobody expected, exit code 70; please report it); in the problems of `status`
`SLUICE-LOG-FULL` (the change log has reached `log.max_bytes`, so nothing is read from the source), `SLUICE-
SLOT-AT-RISK` (the server may soon throw away WAL that the slot needs), `SLUICE-SLOT-IDLE` (nobody reads the
slot) and `SLUICE-DEAD-LETTERS` (rows are put aside); and in dead letters `SLUICE-WAITS` (an earlier change
of the same row was put aside).
"""


def render() -> str:
    """The whole page."""
    families = SluiceError.__subclasses__()
    return INTRODUCTION + "".join("\n" + "\n".join(_section(family)) + "\n" for family in families)


def _section(family: type[SluiceError]) -> Iterator[str]:
    members = list(_tree(family))
    yield f"## {family.__name__}"
    yield ""
    yield "\n\n".join(_paragraphs(family))
    yield ""
    yield "| code | class | exit code | retried | meaning |"
    yield "|---|---|---|---|---|"
    for member in members:
        yield _row(member)
    for member in members[1:]:
        for paragraph in _paragraphs(member)[1:]:
            yield f"\n`{member.code}`: {paragraph}"


def _row(member: type[SluiceError]) -> str:
    anchor = f'<a id="{member.code.lower()}"></a>'
    retried = "yes" if member.transient else "no"
    cells = (f"{anchor}`{member.code}`", f"`{member.__name__}`", str(member.exit_code), retried)
    return f"| {' | '.join(cells)} | {_paragraphs(member)[0]} |"


def _tree(root: type[SluiceError]) -> Iterator[type[SluiceError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def _paragraphs(member: type[SluiceError]) -> list[str]:
    text = inspect.cleandoc(member.__doc__ or "").replace("``", "`").replace("|", "\\|")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    if "--check" not in arguments:
        PAGE.write_text(render(), encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render():
        print("docs/errors.md is out of date: run make format", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
