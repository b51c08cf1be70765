"""
Write ``docs/types.md`` from the cases that the tests of typed columns try.

    python tools/generate_types_page.py            write the page
    python tools/generate_types_page.py --check    exit 1 when the committed page is out of date

The texts in it come from the embedded PostgreSQL.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pgsluice.embedded import EmbeddedPostgres

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "types.md"


def render_page() -> str:
    """The page, with texts from a fresh server."""
    sys.path.insert(0, str(ROOT))
    from tests.schema.type_cases import PREPARE
    from tests.schema.typed_rows import pinned
    from tests.schema.types_page import render

    with (
        tempfile.TemporaryDirectory(prefix="pgsluice-types-") as directory,
        EmbeddedPostgres(Path(directory)) as server,
        pinned(server.url) as conn,
    ):
        for statement in PREPARE:
            conn.execute(statement)
        return render(conn)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    page = render_page()
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != page:
        print("docs/types.md is out of date: run make format", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
