"""
The modifier of rules that no expression of Spark can express: functions over Arrow arrays, column by column.

In a large batch they run in the Python workers of tasks; a small one is changed by the driver, without a job.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.changelog.envelope import SPARK_ENVELOPE, in_envelope
from pgsluice.errors import TransformError
from pgsluice.modifiers.transforms.base import ArrowTransform, longest
from pgsluice.schema.table import PgType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from pgsluice.modifiers.transformer.reach import Reach
    from pgsluice.modifiers.transformer.rules import ColumnRule, OnError
    from pgsluice.schema.table import TableVersion

_ROWS: Final = ("values", "old")

_Change = tuple[int, int, str, PgType, ArrowTransform, bool]
"""Version, index, name and type of a column, what changes it, whether NULL may come of it: plain data."""


class ArrowTransformer:
    """Changes the values of columns whose rules are functions over arrays."""

    def __init__(self, reach: Reach, salt: Callable[[], bytes], on_error: OnError) -> None:
        self.reach = reach
        self._salt = salt
        self._on_error = on_error

    def touches(self, version: TableVersion) -> bool:
        """Whether a table has such rules."""
        return bool(self._changes(version))

    def _changes(self, version: TableVersion) -> list[_Change]:
        return [
            (
                version.id,
                i,
                f"{version.qualified}.{column.name}",
                column.type,
                rule.transform,
                self._may_null(version, i, rule),
            )
            for i, rule in self.reach.of_columns(version).items()
            for column in (version.columns[i],)
            if isinstance(rule.transform, ArrowTransform)
        ]

    def _may_null(self, version: TableVersion, index: int, rule: ColumnRule) -> bool:
        return rule.transform.nulls == "result" and self.reach.takes_null(version, index)

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame with changed values, by tasks."""
        change = self._changing(tables)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from change(pa.Table.from_batches([in_envelope(batch)])).to_batches()

        return frame.mapInArrow(run, SPARK_ENVELOPE)

    def change_arrow(self, rows: pa.Table, tables: Mapping[int, TableVersion]) -> pa.Table:
        """The same for rows that are here."""
        return self._changing(tables)(rows)

    def _changing(self, tables: Mapping[int, TableVersion]) -> Callable[[pa.Table], pa.Table]:
        changes = [each for version in tables.values() for each in self._changes(version)]
        salt, on_error = self._salt(), self._on_error

        def change(rows: pa.Table) -> pa.Table:
            for version, index, name, type_, transform, may_null in changes:
                own = pc.fill_null(pc.equal(rows["relation"], version), False)
                for part in _ROWS:
                    policy: OnError = "null" if may_null else on_error
                    checked = partial(_checked, transform, name, type_, salt, policy)
                    changed = _changed(rows[part], own, index, checked)
                    rows = rows.set_column(
                        rows.schema.get_field_index(part), rows.schema.field(part), changed
                    )
            return rows

        return change


def _changed(column: pa.ChunkedArray, own: Any, index: int, change: Callable[[Any], Any]) -> pa.ChunkedArray:
    """A column of lists with the values at an index changed in some rows."""
    if not len(column):
        return column
    lists = pa.concat_arrays(column.chunks)
    offsets, texts = lists.offsets.to_numpy(), lists.values
    chosen = pc.and_(pa.concat_arrays(own.chunks), pc.is_valid(lists)).to_numpy(zero_copy_only=False)
    places = offsets[:-1][chosen] + index
    order = np.arange(len(texts))
    order[places] = len(texts) + np.arange(len(places))
    changed = pa.concat_arrays([texts, change(texts.take(pa.array(places)))]).take(pa.array(order))
    made = pa.ListArray.from_arrays(pa.array(offsets), changed, mask=pc.is_null(lists))
    return pa.chunked_array([made.cast(column.type)])


def _checked(
    transform: ArrowTransform, name: str, type_: PgType, salt: bytes, on_error: OnError, texts: Any
) -> Any:
    """What a function makes of some texts; it is given none that is NULL."""
    valid = texts.drop_null()
    try:
        made = transform.change(valid, salt, type_).cast(pa.string())
    except Exception as exc:  # noqa: BLE001 - whatever a user's function raises; its words may show a value
        raise TransformError(f"{name}: the function raised {type(exc).__name__}") from None
    if len(made) != len(valid):
        raise TransformError(f"{name}: the function gave {len(made)} values for {len(valid)}")
    if (most := longest(type_)) is not None:
        made = pc.if_else(pc.greater(pc.utf8_length(made), most), None, made)
    if made.null_count and on_error == "stop":
        raise TransformError(f"{name} has a value that its function can't change")
    if made.null_count and on_error == "pass_through":
        made = pc.coalesce(made, valid)
    return pc.replace_with_mask(texts, pc.is_valid(texts), made)
