"""
Typed rows of one table version from an Arrow table of envelopes.

The same rows as :func:`pgsluice.schema.typed.spark_rows.typed_frame` makes, without Spark: for readers
whose batches are already Arrow, and for small batches on the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.changelog.position import Lsn
from pgsluice.errors import DecodeError, UntypedValueError
from pgsluice.schema.typed.arrow_column import convert
from pgsluice.schema.typed.layout import (
    ABOUT,
    NAMES,
    TEXT_BY_NAME,
    old_columns,
    shapes_of,
    typed_arrow_schema,
)

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.schema.typed.shape import Shape


def typed_arrow(table: pa.Table, version: TableVersion, choices: SpecialValues) -> pa.Table:
    """The rows of that table version, with the columns of :func:`~.layout.typed_arrow_schema`."""
    schema = typed_arrow_schema(version, choices)
    is_ours = pc.equal(table["relation"], version.id)
    if not pc.all(is_ours, skip_nulls=False, min_count=0).as_py():
        table = table.filter(is_ours)
    batches = [_typed_batch(batch, version, choices, schema) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)


def _typed_batch(
    batch: pa.RecordBatch, version: TableVersion, choices: SpecialValues, schema: pa.Schema
) -> pa.RecordBatch:
    rows = _rows(batch, version)
    typed, marks = [], []
    for i, shape in enumerate(shapes_of(version, choices)):
        texts = pc.list_element(rows, i)
        column, misfits = _typed_column(texts, shape, choices, batch, version, i)
        typed.append(column)
        if misfits is not None:
            marks.append((version.columns[i].name, texts, misfits))
    about = [batch.column(name) for name in ABOUT.values()]
    added = [_unchanged(batch, version), _old(batch, version), untyped_texts(marks, len(batch))]
    return pa.RecordBatch.from_arrays([*typed, *about, *added], schema=schema)


def _rows(batch: pa.RecordBatch, version: TableVersion) -> pa.ListArray:
    # A deleted row has no new values: what is known of it is the old row.
    rows = batch.column("values")
    if rows.null_count:
        rows = pc.coalesce(rows, batch.column("old"))
    count = len(version.columns)
    if not pc.all(pc.equal(pc.list_value_length(rows), count), min_count=0).as_py():
        raise DecodeError(
            f"a row of {version.qualified} has not {count} values, as version {version.id} of the table has",
            table=version.qualified,
        )
    return rows


def _typed_column(
    texts: pa.Array,
    shape: Shape,
    choices: SpecialValues,
    batch: pa.RecordBatch,
    version: TableVersion,
    index: int,
) -> tuple[pa.Array, pa.BooleanArray | None]:
    try:
        return convert(texts, shape, choices)
    except UntypedValueError as error:
        row, name = error.fields["row"], version.columns[index].name
        lsn, seq = (batch.column(part)[row].as_py() for part in ("commit_lsn", "seq"))
        raise UntypedValueError(
            f"{version.qualified}.{name} has at {Lsn(lsn)} change {seq} {error.message}",
            remedy=error.remedy,
            table=version.qualified,
            column=name,
            lsn=str(Lsn(lsn)),
            seq=seq,
        ) from error


def untyped_texts(marks: list[tuple[str, pa.Array, pa.BooleanArray]], count: int) -> pa.Array:
    """The column ``_untyped`` of ``count`` rows: of each column its name, its texts, and which don't fit."""
    if not marks:
        return pa.nulls(count, TEXT_BY_NAME)
    rows = np.concatenate([np.flatnonzero(misfits.to_numpy(zero_copy_only=False)) for _, _, misfits in marks])
    order = pa.array(np.argsort(rows, kind="stable"))
    found = [(name, texts.filter(misfits)) for name, texts, misfits in marks]
    names = pa.concat_arrays([pa.repeat(name, len(texts)) for name, texts in found]).take(order)
    values = pa.concat_arrays([texts for _, texts in found]).take(order)
    counts = np.bincount(rows, minlength=count)
    return _maps(counts, names, values, counts == 0)


def _old(batch: pa.RecordBatch, version: TableVersion) -> pa.Array:
    old, indexes = batch.column("old"), old_columns(version)
    if not indexes or old.null_count == len(old):
        return pa.nulls(len(old), TEXT_BY_NAME)
    present = old.drop_null()
    # One column after the other, then put in the order of the rows.
    order = pa.array(np.arange(len(present) * len(indexes)).reshape(len(indexes), -1).T.ravel())
    names = pa.concat_arrays([pa.repeat(version.columns[i].name, len(present)) for i in indexes]).take(order)
    values = pa.concat_arrays([pc.list_element(present, i) for i in indexes]).take(order)
    is_null = old.is_null().to_numpy(zero_copy_only=False)
    return _maps(np.where(is_null, 0, len(indexes)), names, values, is_null)


def _maps(counts: np.ndarray, names: pa.Array, values: pa.Array, is_null: np.ndarray) -> pa.Array:
    return pa.MapArray.from_arrays(_offsets(counts), names, values, type=TEXT_BY_NAME, mask=pa.array(is_null))


def _offsets(counts: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _unchanged(batch: pa.RecordBatch, version: TableVersion) -> pa.Array:
    unchanged = batch.column("unchanged")
    names = pa.array([column.name for column in version.columns], pa.string())
    counts = pc.fill_null(pc.list_value_length(unchanged), 0).to_numpy(zero_copy_only=False)
    return pa.ListArray.from_arrays(_offsets(counts), names.take(unchanged.flatten()), type=NAMES)
