"""Functions of users over Arrow arrays: by the driver and by tasks, new values and old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.errors import TransformError
from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.modifiers.transforms.registry import make
from pgsluice.pipeline.modify import transformers
from pgsluice.pipeline.session import error_of_job
from pgsluice.schema.table import Column, PgType, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = PgType(25, "text")
REVERSED = "tests.modifiers.functions:reversed_texts"


def version(number: int, name: str) -> TableVersion:
    """A table of three columns."""
    columns = tuple(
        Column(column, TEXT, in_identity=False, number=i) for i, column in enumerate("abc", start=1)
    )
    return TableVersion(number, number, "public", name, "f", columns)


TABLES = {7: version(7, "ruled"), 8: version(8, "other")}
ROWS = [
    (7, ["x", "abc", None], None),
    (8, ["x", "abc", "1"], ["y", "def", None]),
    (7, None, ["old", "xyz", "z"]),
    (7, ["x", None, "9"], ["", "", ""]),
    (None, None, None),
]
CHANGED = [
    (["*", "cba!", None], None),
    (["x", "abc", "1"], ["y", "def", None]),
    (None, ["***", "zyx!", "z"]),
    (["*", None, "9"], ["", "!", ""]),
    (None, None),
]


def entries(rows: list[Any]) -> pa.Table:
    """Entries with these versions, values and old values."""
    given = {
        "seq": list(range(len(rows))),
        "relation": [row[0] for row in rows],
        "values": [row[1] for row in rows],
        "old": [row[2] for row in rows],
    }
    return pa.table(
        {field.name: pa.array(given.get(field.name, [None] * len(rows)), field.type) for field in ENVELOPE},
        schema=ENVELOPE,
    )


def chain(function: str, on_error: str = "stop", **arguments: Any) -> Chain:
    """Rules with a function for the second column, and one in the JVM for the first."""
    rules = {
        "a": {"name": "masking"},
        "b": {"name": "python", "parameters": {"function": function, "arguments": arguments}},
    }
    tables = [{"table": "ruled", "column_transformers": rules}]
    return Chain(
        transformers(
            Transformations.model_validate({"on_error": on_error, "table_transformers": tables}),
            lambda: b"salt",
        )
    )


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_rows(spark: SparkSession, way: str) -> None:
    """The rows of the ruled table, and no others."""
    modification = chain(REVERSED, suffix="!").of(TABLES)
    if way == "driver":
        changed = modification.apply_local(entries(ROWS), lambda: spark)
        found = list(zip(changed["values"].to_pylist(), changed["old"].to_pylist(), strict=True))
    else:
        frame = modification.apply(spark.createDataFrame(entries(ROWS)))
        found = [(row["values"], row["old"]) for row in sorted(frame.collect(), key=lambda row: row["seq"])]
    assert found == CHANGED


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_values_that_it_cannot_change(spark: SparkSession, way: str) -> None:
    """They stop the run, without a word of the value; or become NULL."""
    rows = entries([(7, ["x", "canary1", "y"], None), (7, ["x", "ok", "y"], None)])
    nulled = chain(REVERSED, on_error="null").of(TABLES).apply_local(rows, lambda: spark)
    assert [each[1] for each in nulled["values"].to_pylist()] == [None, "ko"]
    modification = chain(REVERSED).of(TABLES)

    def change() -> None:
        if way == "driver":
            modification.apply_local(rows, lambda: spark)
        else:
            modification.apply(spark.createDataFrame(rows)).collect()

    with pytest.raises(Exception, match=r"public\.ruled\.b has a value that its function can't") as stopped:
        change()
    error = stopped.value if way == "driver" else error_of_job(stopped.value)
    assert isinstance(error, TransformError)
    assert "canary" not in str(error)
    with pytest.raises(TransformError, match="gave 1 values for 2"):
        chain("tests.modifiers.functions:too_few").of(TABLES).apply_local(rows, lambda: spark)
    with pytest.raises(TransformError, match=r"^public\.ruled\.b: the function raised ValueError$"):
        chain("tests.modifiers.functions:broken").of(TABLES).apply_local(rows, lambda: spark)


def test_one_that_is_not_there() -> None:
    """Said at the start."""
    for function in ("tests.modifiers.functions:nothing", "no_such_module:f"):
        assert "can't be imported" in str(make("python", {"function": function}).problem(TEXT))
    assert make("python", {"function": REVERSED}).problem(TEXT) is None
