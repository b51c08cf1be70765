"""COPY's text: what the server reads back is what went in, whatever the cells hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
from hypothesis import strategies as st

from pgsluice.sinks.postgres import copy_text as module
from pgsluice.sinks.postgres.copy_text import copy_text, rows_of

if TYPE_CHECKING:
    import pytest

    from tests.fix_pg import Database

CELLS = st.one_of(
    st.none(),
    st.sampled_from(["", "\\N", "\\.", "\\", "\t", "\n", "\r\n", "NULL", "a\\nb", "ä€😀"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=30)


def test_the_server_reads_what_went_in(database: Database) -> None:
    """Tabs, line ends, backslashes, NULL and its look-alikes, any text of UTF-8."""
    compared = 0
    with database.connect() as conn:
        conn.execute("CREATE TEMP TABLE t (n serial, a text, b text, c text)")

        @hypothesis.settings(max_examples=150, deadline=None, database=None)
        @hypothesis.given(ROWS, st.integers(0, 3))
        def holds(rows: list[tuple[str | None, ...]], skipped: int) -> None:
            nonlocal compared
            conn.execute("TRUNCATE t")
            lists = pa.array(list(rows), pa.list_(pa.string())).slice(min(skipped, len(rows) - 1))
            with conn.cursor().copy("COPY t (a, b, c) FROM STDIN") as copy:
                for piece in copy_text(lists, (0, 1, 2)):
                    copy.write(piece)
            found = conn.execute("SELECT a, b, c FROM t ORDER BY n").fetchall()
            assert found == rows[min(skipped, len(rows) - 1) :]
            compared += len(found)

        holds()
    print(f"compared {compared} rows")


def test_pieces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece holds as many rows as fit; a larger row is one of its own; all together are the rows."""
    monkeypatch.setattr(module, "PIECE_BYTES", 100)
    rows = pa.array([["x" * 40, None], ["y" * 40, "z"], ["large" * 100, ""], ["a", "b"]])
    pieces = [bytes(piece) for piece in copy_text(pa.chunked_array([rows]), (0, 1))]
    assert [piece.count(b"\n") for piece in pieces] == [2, 1, 1]
    assert b"".join(pieces).decode().splitlines() == [
        "x" * 40 + "\t\\N",
        "y" * 40 + "\tz",
        "large" * 100 + "\t",
        "a\tb",
    ]


def test_columns_become_rows() -> None:
    """In their order, from arrays in pieces too."""
    columns = [pa.chunked_array([["1"], ["2"]]), pa.array(["a", None])]
    assert rows_of(columns).to_pylist() == [["1", "a"], ["2", None]]
