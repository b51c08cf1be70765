"""The passes over COPY's lines: any cells come out as they went in, and other widths are errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import DecodeError
from pgsluice.source.scan.kernel import Cells

ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
CELLS = st.none() | st.text(
    st.sampled_from("\\\t\n\r\b\f\vN][\x08\x0b aß🐘") | st.characters(exclude_characters="\0", codec="utf-8"),
    max_size=20,
)


def line(cells: list[str | None]) -> str:
    """A row as COPY writes it."""
    written = ("\\N" if cell is None else "".join(ESCAPES.get(c, c) for c in cell) for cell in cells)
    return "\t".join(written) + "\n"


def as_bytes(text: str) -> np.ndarray:
    """What the server sends."""
    return np.frombuffer(text.encode(), np.uint8)


@given(st.integers(1, 5).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width))))
def test_cells_come_out_as_they_went_in(rows: list[list[str | None]]):
    """Column by column, whatever the values have in them and wherever the words of eight bytes begin."""
    width = len(rows[0]) if rows else 3
    cells = Cells(as_bytes("".join(map(line, rows))), width)
    assert cells.rows == len(rows)
    for column in range(width):
        texts = cells.texts(column)
        texts.validate(full=True)
        assert texts.to_pylist() == [row[column] for row in rows]
        assert texts.null_count == sum(row[column] is None for row in rows)


@given(st.binary(max_size=60), st.integers(0, 4))
def test_other_bytes_are_an_error_or_rows(data: bytes, width: int):
    """Nothing is read or written outside of its place: every column of what is accepted can be had."""
    try:
        cells = Cells(np.frombuffer(data, np.uint8), width)
    except DecodeError:
        return
    assert cells.rows == data.count(b"\n")
    for column in range(width):
        assert len(cells.texts(column)) == cells.rows


@pytest.mark.parametrize(
    ("text", "width"), [("a\tb\n", 1), ("a\n", 2), ("a\tb\tc\n", 2), ("a\n", 3), ("\t\n", 0)]
)
def test_a_row_of_another_width_is_an_error(text: str, width: int):
    """Never cells under the wrong column."""
    with pytest.raises(DecodeError, match=f"has not {width} values"):
        Cells(as_bytes(text), width)


def test_rows_without_columns():
    """Are empty lines."""
    assert Cells(as_bytes("\n" * 11), 0).rows == 11
