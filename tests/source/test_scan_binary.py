"""COPY's binary format: rows become what the text of the same rows becomes, and nothing else is taken."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import DecodeError
from pgsluice.schema.typed import SpecialValues
from pgsluice.schema.typed.shape import Shape
from pgsluice.source.scan.binary import BinaryRows
from pgsluice.source.scan.layout import ReadColumn
from tests.source.table_reading import plan_table, read_tasks

if TYPE_CHECKING:
    from tests.fix_pg import Database

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
TEXT = ReadColumn("t", 25, Shape("text"), "text")
COLUMNS = {
    "text": TEXT,
    "bytes": ReadColumn("b", 17, Shape("bytea"), "bytes"),
    "uuid": ReadColumn("u", 2950, Shape("text"), "uuid"),
    "jsonb": ReadColumn("j", 3802, Shape("text"), "jsonb"),
    "bool": ReadColumn("o", 16, Shape("bool"), "bool"),
    "number": ReadColumn("i", 23, Shape("int4"), "number"),
    "date": ReadColumn("d", 1082, Shape("date"), "date"),
    "time": ReadColumn("m", 1114, Shape("timestamp"), "time"),
    "decimal": ReadColumn("n", 1700, Shape("decimal", 12, 2), "decimal"),
}
ROWS = 20_000


def row(*fields: bytes | None) -> bytes:
    """A row as the server sends it."""
    return struct.pack(">h", len(fields)) + b"".join(
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field for field in fields
    )


def binary(data: bytes, columns: int) -> BinaryRows:
    """The rows of some bytes."""
    return BinaryRows(np.frombuffer(data, np.uint8), columns)


FIELDS = st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(
    st.integers(0, 4).flatmap(
        lambda width: st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1)
    ),
    st.booleans(),
    st.booleans(),
)
def test_fields_come_out_as_they_went_in(rows: list[list[str | None]], begins: bool, ends: bool):
    """With or without the stream's beginning and end, which only the first and last piece have."""
    data = b"".join(row(*(None if cell is None else cell.encode() for cell in cells)) for cells in rows)
    found = binary((HEADER if begins else b"") + data + (END if ends else b""), len(rows[0]))
    assert found.rows == len(rows)
    for column in range(len(rows[0])):
        texts, misfits, _ = found.typed(column, TEXT, SpecialValues())
        texts.validate(full=True)
        assert texts.to_pylist() == [cells[column] for cells in rows]
        assert misfits is None


@given(st.lists(st.lists(st.none() | st.binary(max_size=20), min_size=2, max_size=2), max_size=4), st.data())
def test_other_bytes_are_an_error_or_rows(rows: list[list[bytes | None]], data: Any):
    """Nothing is read or written outside of its place, whatever a field has in it or where the bytes end."""
    whole = b"".join(row(*cells) for cells in rows)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    form = data.draw(st.sampled_from(sorted(COLUMNS)))
    try:
        found = binary(cut, 2)
        column = pa.chunked_array([found.typed(1, COLUMNS[form], SpecialValues())[0]])
    except DecodeError:
        return
    assert len(column) == found.rows <= len(rows)
    column.validate(full=form not in ("text", "jsonb"))  # texts are taken as the server sends them


@pytest.mark.parametrize(
    "data",
    [row(b"a"), row(b"a", b"b", b"c"), row(b"a", b"b")[:-1], row(b"a", b"b") + b"\0", END + row(b"a", b"b")],
)
def test_rows_of_another_form_are_an_error(data: bytes):
    """Never fields under the wrong column."""
    with pytest.raises(DecodeError, match="no rows of 2 values"):
        binary(data, 2)


@pytest.mark.parametrize("form", ["uuid", "jsonb", "bool", "number", "date", "time", "decimal"])
def test_values_of_another_length_are_an_error(form: str):
    """Never a number made of what is not one."""
    with pytest.raises(DecodeError, match="has not the length of its type"):
        binary(row(b"" if form == "jsonb" else b"odd length"), 1).typed(0, COLUMNS[form], SpecialValues())


@pytest.mark.both_versions
@pytest.mark.parametrize("odd", ["null", "clamp"])
def test_random_values_are_what_their_text_becomes(database: Database, odd: str):
    """Dates and times of all years, and numerics of every size: by both formats the same."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    kinds = [
        "numeric(12,2)",
        "numeric(38,38)",
        "numeric(38,0)",
        "numeric(38,7)",
        "numeric(5,5)",
        "numeric(4,0)",
    ]
    declared = ", ".join(f'"{kind}" {kind}' for kind in kinds)
    values = ", ".join(_random_numeric(kind) for kind in kinds)
    with database.connect() as conn:
        conn.execute(
            f"CREATE TABLE random (n int, day date, at timestamp, zoned timestamptz, id uuid, {declared})"
        )
        conn.execute(f"SELECT setseed({seed / 10**6})")
        conn.execute(
            "INSERT INTO random SELECT n,"
            " CASE WHEN r < .01 THEN 'infinity' WHEN r < .02 THEN '-infinity' WHEN r < .05 THEN NULL"
            " ELSE date '4714-11-24 BC' + (pow(random(), 5) * 2147483493)::int END,"
            " CASE WHEN r < .01 THEN 'infinity' WHEN r < .02 THEN '-infinity' WHEN r < .05 THEN NULL"
            " ELSE timestamp '4714-11-24 BC' + random() ^ 3 * interval '290000 years' END,"
            " CASE WHEN r < .01 THEN 'infinity' WHEN r < .02 THEN '-infinity' WHEN r < .05 THEN NULL"
            " ELSE timestamptz '4714-11-24 BC' + random() ^ 3 * interval '290000 years' END,"
            f" CASE WHEN r > .1 THEN gen_random_uuid() END, {values}"
            f" FROM generate_series(1, {ROWS}) n, LATERAL (SELECT random() + n * 0 AS r) AS r"
        )
    options = {
        "url": database.url,
        "table": "random",
        "columns": "*",
        "specialDates": odd,
        "specialTimestamps": odd,
    }
    tasks = plan_table(options)
    assert [task.binary for task in tasks] == [True]
    found = read_tasks(tasks, options)
    as_text = [
        replace(task, columns=tuple(replace(column, form=None) for column in task.columns)) for task in tasks
    ]
    wanted = read_tasks(as_text, options)
    assert wanted.num_rows == ROWS
    for name in wanted.column_names:
        assert found[name].combine_chunks().equals(wanted[name].combine_chunks()), name
    marked = sum(row is not None for row in wanted["_untyped"].to_pylist())
    assert marked > ROWS // 10
    print(f"compared {ROWS} rows in {len(wanted.column_names)} columns, {marked} with values that do not fit")


def _random_numeric(kind: str) -> str:
    """A number of random size, NaN or NULL, as SQL."""
    precision, scale = map(int, kind.removeprefix("numeric(").removesuffix(")").split(","))
    digits = "(SELECT string_agg(floor(random() * 10)::int::text, '') FROM generate_series(1, 38 + n * 0))"
    size = f"(1 + floor(random() * {precision}))::int"
    number = f"substr({digits}, 1, {size})::numeric * '1e-{scale}'::numeric"
    return (
        f"CASE WHEN r < .02 THEN 'NaN'::numeric WHEN r < .05 THEN NULL WHEN r < .08 THEN 0"
        f" ELSE {number} * CASE WHEN random() < .5 THEN -1 ELSE 1 END END"
    )
