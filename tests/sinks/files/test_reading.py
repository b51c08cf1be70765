"""What ordinary tools read of a feed: exactly the committed rows, in the documented form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyarrow import parquet
from pydantic import ValidationError

from pgsluice.errors import TargetUnavailableError, UntypedValueError
from pgsluice.schema.typed import SpecialValues, typed_arrow
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.files import FilesConfig
from pgsluice.sinks.files.sink import FilesSink
from pgsluice.testing.batches import UNCHANGED, Changes, LocalBatch, LocalStep, table
from tests.schema.type_cases import CASES, PREPARE
from tests.schema.typed_rows import by_columns, declare, pinned, same, texts, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

ROOT = Path(__file__).resolve().parents[3]
ITEMS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, key=["id"])
OPS = [("I", 1), ("U", 1), ("U", 2), ("T", None), ("D", 2)]


def opened(root: Path, **options: Any) -> FilesSink:
    """A sink on a new feed."""
    sink = FilesSink(FilesConfig(path=root, **options))
    assert sink.open(SinkContext("shop", root)) is None
    return sink


def history() -> Changes:
    """Every kind of change."""
    changes = Changes()
    changes.insert(ITEMS, "1", 'a "quote"\nand a line', "large")
    changes.update(ITEMS, "1", "b", UNCHANGED)
    changes.commit()
    changes.update(ITEMS, "2", None, UNCHANGED, old=["1", None, None])
    changes.truncate(ITEMS)
    changes.message("prefix", "content")
    changes.delete(ITEMS, "2", None, None)
    return changes


class Breaking:
    """A batch that is written in part: its second step fails."""

    start, end = "one", "two"

    @property
    def steps(self) -> Iterator[LocalStep]:
        """The steps, as they come."""
        yield history().step()
        raise TargetUnavailableError("the connection broke")


def with_leftovers(root: Path, **options: Any) -> None:
    """A feed with one committed batch, and files of one that is not."""
    sink = opened(root, **options)
    sink.apply(history().batch(start=None, end="one"))
    with pytest.raises(TargetUnavailableError):
        sink.apply(Breaking())
    assert list(root.rglob("*.tmp")) != []


def test_duckdb_reads_what_is_committed(tmp_path: Path) -> None:
    """Over all directories and over one table: no row of an unfinished batch, each committed row once."""
    with_leftovers(tmp_path)
    for files in ("**/*.parquet', union_by_name = true", "public.items/*.parquet'"):
        rows = duckdb.sql(
            f"SELECT * FROM read_parquet('{tmp_path}/{files}) WHERE _op <> 'M' ORDER BY _lsn, _seq"
        )
        found = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
        assert [(row["_op"], row["id"]) for row in found] == OPS
        assert [row["_unchanged"] for row in found] == [[], ["body"], ["body"], [], []]
        assert [row["_old"] for row in found] == [None, None, {"id": "1"}, None, {"id": "2"}]
        assert [(row["_lsn"], row["_seq"], row["_xid"]) for row in found][2:] == [
            (0x200, 1, 702), (0x200, 2, 702), (0x200, 4, 702),
        ]  # fmt: skip
    messages = duckdb.sql(f"SELECT prefix, content, _op, _seq FROM '{tmp_path}/messages/*.parquet'")
    assert messages.fetchall() == [("prefix", "content", "M", 3)]


@pytest.mark.spark
def test_spark_reads_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    """The same, from the directory of a table."""
    with_leftovers(tmp_path)
    frame = spark.read.parquet(f"{tmp_path}/public.items").orderBy("_lsn", "_seq")
    assert [(row["_op"], row["id"]) for row in frame.collect()] == OPS
    assert [row["_old"] for row in frame.collect()][2] == {"id": "1"}
    whole = spark.read.option("recursiveFileLookup", "true").option("mergeSchema", "true")
    assert whole.parquet(str(tmp_path)).count() == len(OPS) + 1  # and the message


@pytest.mark.spark
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_lines_are_read_by_both(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    """JSON lines, compressed or not: the events of stdout, for DuckDB and for Spark."""
    with_leftovers(tmp_path, format="jsonl", compression=compression)
    ending = "jsonl.gz" if compression == "gzip" else "jsonl"
    [file] = (tmp_path / "public.items").iterdir()
    assert file.name == f"shop-0000000002-00000-v1.{ending}"
    by_duckdb = duckdb.sql(f"SELECT action, seq FROM read_json('{tmp_path}/**/*.{ending}') ORDER BY lsn, seq")
    assert by_duckdb.fetchall() == [("I", 1), ("U", 2), ("U", 1), ("T", 2), ("M", 3), ("D", 4)]
    by_spark = spark.read.json(f"{tmp_path}/public.items").orderBy("lsn", "seq").collect()
    assert [(row["action"], row["seq"]) for row in by_spark] == [
        ("I", 1), ("U", 2), ("U", 1), ("T", 2), ("D", 4),
    ]  # fmt: skip
    assert by_spark[1]["unchanged"] == ["body"]


@pytest.mark.spark
def test_lines_are_those_of_stdout(spark: SparkSession, tmp_path: Path) -> None:
    """Byte by byte."""
    import io

    from pgsluice.sinks.stdout import StdoutSink

    output = io.BytesIO()
    StdoutSink(output).apply(history().batch(start=None, end="one"))
    opened(tmp_path, format="jsonl").apply(history().batch(start=None, end="one"))
    [items], [messages] = ((tmp_path / name).iterdir() for name in ("public.items", "messages"))
    wanted = output.getvalue().splitlines(keepends=True)
    assert items.read_bytes() == b"".join(line for line in wanted if b'"action":"M"' not in line)
    assert messages.read_bytes() == b"".join(line for line in wanted if b'"action":"M"' in line)
    assert all(json.loads(line) for line in wanted)


@pytest.mark.spark
@pytest.mark.both_versions
def test_every_type(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    """What Spark and Arrow read of a file is the typed row that the documentation shows, for every case."""
    database.run(*PREPARE)
    with pinned(database.url) as conn:
        names = [f"c{number}" for number in range(len(CASES))]
        version = version_of(declare(conn, [case.type for case in CASES]), names)
        rows = by_columns([texts(conn, case.type, case.values) for case in CASES])
    sink = opened(tmp_path)
    sink.apply(LocalBatch(None, "one", [LocalStep({version.id: version}, rows)]))
    wanted = typed_arrow(rows, version, SpecialValues())
    [file] = (tmp_path / "public.odd").iterdir()
    same(parquet.ParquetFile(file).read(), wanted)
    same(spark.read.parquet(str(tmp_path / "public.odd")).orderBy("_lsn", "_seq").toArrow(), wanted)
    print(f"compared {wanted.num_rows} rows of {len(CASES)} types")
    assert wanted.num_rows > 5


@pytest.mark.parametrize(
    ("choice", "value", "text"), [("null", None, "infinity"), ("string", "infinity", None), ("stop", "", "")]
)
def test_special_values(tmp_path: Path, choice: str, value: str | None, text: str | None) -> None:
    """A value that a typed column can't hold is as the options say; YAML's null is the word too."""
    days = table("public.days", {"id": "int8", "day": "date"}, key=["id"])
    changes = Changes()
    changes.insert(days, "1", "infinity")
    sink = opened(tmp_path, dates=None if choice == "null" else choice)
    if choice == "stop":
        with pytest.raises(UntypedValueError, match=r"public.days.day"):
            sink.apply(changes.batch(start=None, end="one"))
        return
    sink.apply(changes.batch(start=None, end="one"))
    [row] = duckdb.sql(f"SELECT day, _untyped FROM '{tmp_path}/public.days/*.parquet'").fetchall()
    assert row == (value, text and {"day": text})


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
def test_compression(tmp_path: Path, compression: str) -> None:
    """Parquet files are compressed as asked for."""
    opened(tmp_path, compression=compression).apply(history().batch(start=None, end="one"))
    [file] = (tmp_path / "public.items").iterdir()
    found = parquet.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert found == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_another_definition_begins_another_file(tmp_path: Path) -> None:
    """Files of one version have one set of columns, and their names say the version."""
    wider = table("public.items", {"id": "int8", "name": "text", "body": "text", "n": "int4"}, key=["id"],
                  version=2)  # fmt: skip
    changes = Changes()
    changes.insert(ITEMS, "1", "a", None)
    changes.insert(wider, "2", "b", None, "7")
    changes.insert(ITEMS, "3", "c", None)
    opened(tmp_path).apply(changes.batch(start=None, end="one"))
    files = sorted((tmp_path / "public.items").iterdir())
    assert [file.name[15:] for file in files] == [
        "-00000-v1.parquet",
        "-00001-v2.parquet",
        "-00002-v1.parquet",
    ]
    found = [parquet.ParquetFile(file).read() for file in files]
    assert [rows["id"].to_pylist() for rows in found] == [[1], [2], [3]]
    assert ["n" in rows.column_names for rows in found] == [False, True, False]
    union = f"read_parquet('{tmp_path}/public.items/*.parquet', union_by_name = true)"
    assert duckdb.sql(f"SELECT id, n FROM {union} ORDER BY id").fetchall() == [(1, None), (2, 7), (3, None)]
    second = duckdb.sql(f"SELECT n FROM '{tmp_path}/public.items/*-v2.parquet'")
    assert second.fetchall() == [(7,)]


@pytest.mark.spark
@pytest.mark.parametrize(("schema", "name"), [("_s", "day=1"), ("a b", "100%"), ("ünï", "Täble €")])
def test_odd_names_are_read(spark: SparkSession, tmp_path: Path, schema: str, name: str) -> None:
    """A table of any name has a directory that Spark and DuckDB read."""
    odd = table((schema, name), {"id": "int8"}, key=["id"])
    changes = Changes()
    changes.insert(odd, "1")
    opened(tmp_path).apply(changes.batch(start=None, end="one"))
    [directory] = [path for path in tmp_path.iterdir() if path.name != "_manifest"]
    assert spark.read.parquet(str(directory)).select("id", "_op").collect() == [(1, "I")]
    assert spark.read.parquet(f"{tmp_path}/[!_]*").count() == 1
    assert duckdb.sql(f"SELECT id FROM read_parquet('{tmp_path}/**/*.parquet')").fetchall() == [(1,)]


def test_a_table_without_columns(tmp_path: Path) -> None:
    """Its rows are changes without values."""
    bare = table("public.bare", {}, identity="f")
    changes = Changes()
    changes.insert(bare)
    changes.insert(bare)
    changes.delete(bare)
    opened(tmp_path).apply(changes.batch(start=None, end="one"))
    found = duckdb.sql(f"SELECT _op, _seq FROM '{tmp_path}/public.bare/*.parquet' ORDER BY _seq").fetchall()
    assert found == [("I", 1), ("I", 2), ("D", 3)]


def test_large_batches_are_cut_into_files(tmp_path: Path) -> None:
    """A file has about ``file_bytes`` of rows; several of them hold the rows of a batch in order."""
    changes = Changes()
    for number in range(1000):
        changes.insert(ITEMS, str(number), "x" * 100, None)
    opened(tmp_path, file_bytes=50_000).apply(changes.batch(start=None, end="one", chunk_rows=50))
    files = sorted((tmp_path / "public.items").iterdir())
    assert len(files) > 2
    found = [value for file in files for value in parquet.ParquetFile(file).read()["id"].to_pylist()]
    assert found == list(range(1000))


def test_the_newest_rows_by_the_query_of_the_documentation(tmp_path: Path) -> None:
    """The query that the page shows gives the rows of the table, for tables of the kind that it names."""
    page = (ROOT / "docs" / "sinks" / "files.md").read_text()
    [query] = [block for block in re.findall(r"```sql\n(.*?);\n```", page, re.DOTALL) if "QUALIFY" in block]
    orders = table("public.orders", {"id": "int8", "n": "int4"}, key=["id"])
    changes = Changes()
    for number in ("1", "2", "3"):
        changes.snapshot(orders, number, "0")
    changes.update(orders, "1", "1")
    changes.commit()
    changes.delete(orders, "2", None)
    changes.insert(orders, "4", "4")
    changes.update(orders, "1", "2")
    opened(tmp_path).apply(changes.batch(start=None, end="one"))
    found = duckdb.sql(f"SELECT id, n FROM ({query.replace('feed', str(tmp_path))}) ORDER BY id").fetchall()
    assert found == [(1, 2), (3, 0), (4, 4)]


@pytest.mark.parametrize("compression", ["zstd", "snappy"])
def test_lines_are_compressed_by_what_everybody_reads(compression: str) -> None:
    """Another compression than gzip is refused for JSON lines."""
    with pytest.raises(ValidationError, match=f"jsonl files can't be {compression}; use gzip or none"):
        FilesConfig(path=Path("x"), format="jsonl", compression=compression)
