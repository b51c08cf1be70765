"""Texts that targets refuse, and those that only look so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.sanitizer import sanitize
from pgsluice.schema.table import Column, PgType, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = TableVersion(
    7,
    1,
    "public",
    "t",
    "d",
    tuple(Column(name, PgType(0, name), in_identity=False) for name in ("text", "json")),
)
CASES = [
    (b"plain \xc3\xbc", "plain ü", "plain ü"),
    (b"a\x00b", "ab", "ab"),
    (b"a\x80\xffb", "a��b", "a��b"),
    (b"x\\u0000y", "x\\u0000y", "xy"),
    (b"x\\\\u0000y", "x\\\\u0000y", "x\\\\u0000y"),
    (b"x\\\\\\u0000y", "x\\\\\\u0000y", "x\\\\y"),
]


def entries() -> pa.Table:
    """One row for each case, which has its text in both columns, new and old."""
    texts = pa.array([text for text, *_ in CASES for _ in range(2)], pa.binary()).view(pa.string())
    rows = pa.ListArray.from_arrays(list(range(0, 2 * len(CASES) + 1, 2)), texts).cast(
        ENVELOPE.field("old").type
    )
    given = {
        "op": pa.array(["U"] * len(CASES)),
        "relation": pa.array([TABLE.id] * len(CASES), pa.int32()),
        "values": rows,
        "old": rows,
    }
    nothing = {field.name: pa.nulls(len(CASES), field.type) for field in ENVELOPE}
    return pa.table({**nothing, **given}, schema=ENVELOPE)


@pytest.mark.spark
def test_clean_texts(spark: SparkSession) -> None:
    """By the column's type: in a json, an escape is what it stands for."""
    cleaned = Chain([sanitize]).of({TABLE.id: TABLE}).apply_local(entries(), lambda: spark)
    expected = [[text, json] for _, text, json in CASES]
    assert cleaned["values"].to_pylist() == expected
    assert cleaned["old"].to_pylist() == expected
