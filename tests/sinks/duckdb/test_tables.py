"""Tables of the DuckDB sink over time, and targets that can't be used."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pydantic import ValidationError

from pgsluice.errors import (
    RowRefusedError,
    TargetError,
    TargetLockedError,
    TargetSchemaError,
    TargetUnavailableError,
)
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.duckdb import KIND, DuckDBConfig
from pgsluice.testing.batches import UNCHANGED, Changes, table

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.schema.table import TableVersion

FIRST = table("public.t", {"id": "int8", "name": "text"}, key=["id"], version=1)


def row(version: TableVersion, *values: str | None) -> Changes:
    """One inserted row."""
    changes = Changes()
    changes.insert(version, *values)
    return changes


def write(path: Path, *histories: Changes) -> None:
    """Apply batches to a file, going on where it stands."""
    sink = KIND.build(DuckDBConfig(path=path))
    try:
        token = sink.open(SinkContext("p", path.parent))
        for changes in histories:
            end = f"{token}+"
            sink.apply(changes.batch(start=token, end=end))
            token = end
    finally:
        sink.close()


def read(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of the file."""
    with duckdb.connect(str(path)) as connection:
        return connection.execute(query).fetchall()


def test_new_column(tmp_path: Path):
    """A column that a later version has is added; rows that were there have NULL in it."""
    wider = table("public.t", {"id": "int8", "name": "text", "n": "int4"}, key=["id"], version=2)
    write(tmp_path / "t.duckdb", row(FIRST, "1", "a"), row(wider, "2", "b", "7"))
    assert read(tmp_path / "t.duckdb", "FROM public.t ORDER BY id") == [(1, "a", None), (2, "b", 7)]


def test_order_of_columns_does_not_matter(tmp_path: Path):
    """Columns are found by name, also when the source has them in another order."""
    turned = table("public.t", {"name": "text", "id": "int8"}, key=["id"], version=2)
    write(tmp_path / "t.duckdb", row(FIRST, "1", "a"), row(turned, "b", "2"))
    assert read(tmp_path / "t.duckdb", "FROM public.t ORDER BY id") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": "int8"}, "no longer the columns that the target's table has: name"),
        ({"id": "int8", "title": "text"}, "no longer the columns that the target's table has: name"),
        ({"id": "int4", "name": "text"}, "'id' of public.t is integer, which is INTEGER in DuckDB"),
        ({"id": "int8", "name": "text", "NAME": "text"}, "'name' and 'NAME' of public.t differ only by case"),
    ],
)
def test_changes_that_are_refused(tmp_path: Path, columns: dict[str, str], message: str):
    """Dropped, renamed and retyped columns and names DuckDB can't tell apart stop; nothing is changed."""
    path = tmp_path / "t.duckdb"
    other = table("public.t", columns, key=["id"], version=2)
    write(path, row(FIRST, "1", "a"))
    before = read(path, "SELECT token FROM pgsluice.progress")
    with pytest.raises(TargetSchemaError, match=message) as caught:
        write(path, row(other, *["2"] * len(columns)))
    assert caught.value.remedy
    assert read(path, "FROM public.t") == [(1, "a")]
    assert read(path, "SELECT token FROM pgsluice.progress") == before


@pytest.mark.parametrize("name", ["Public.t", "public.T"])
def test_names_that_differ_by_case(tmp_path: Path, name: str):
    """Two tables or schemas that DuckDB would take for one are refused."""
    other = table(name, {"id": "int8", "name": "text"}, key=["id"], version=2)
    with pytest.raises(TargetSchemaError, match="differ only by case"):
        write(tmp_path / "t.duckdb", row(FIRST, "1", "a"), row(other, "1", "a"))


def test_a_column_that_hides_the_row_numbers(tmp_path: Path):
    """Rows without a key are found by DuckDB's rowid: a column of that name would delete others."""
    hidden = table("public.t", {"rowid": "int8", "name": "text"}, identity="f")
    with pytest.raises(TargetSchemaError, match="a column named rowid"):
        write(tmp_path / "t.duckdb", row(hidden, "1", "a"))
    keyed = table("public.t", {"rowid": "int8", "name": "text"}, key=["rowid"])
    write(tmp_path / "t.duckdb", row(keyed, "1", "a"))
    assert read(tmp_path / "t.duckdb", "FROM public.t") == [(1, "a")]


def test_a_table_without_columns(tmp_path: Path):
    """DuckDB has no such tables: the error names it, and what to do."""
    with pytest.raises(TargetSchemaError, match=r"public\.nothing has no columns.*exclude_tables"):
        write(tmp_path / "t.duckdb", row(table("public.nothing", {}, identity="f")))


def test_base_row_is_missing(tmp_path: Path):
    """An UPDATE that relies on a row which somebody deleted in the target stops, and never writes NULL."""
    path = tmp_path / "t.duckdb"
    write(path, row(FIRST, "1", "a"))
    read(path, "DELETE FROM public.t")
    changes = Changes()
    changes.update(FIRST, "1", UNCHANGED)
    with pytest.raises(TargetError, match=r"1 rows of public\.t have a large value"):
        write(path, changes)
    assert read(path, "FROM public.t") == []


def test_no_python_variable_is_a_table(tmp_path: Path):
    """A name in our SQL is never looked up among Python's variables."""
    sink = KIND.build(DuckDBConfig(path=tmp_path / "t.duckdb"))
    sink.open(SinkContext("p", tmp_path))
    with pytest.raises(duckdb.CatalogException):
        sink._connection.execute("FROM tmp_path")
    sink.close()


def test_file_is_open_elsewhere(tmp_path: Path):
    """A file that another process has open is an error that names the process."""
    path = tmp_path / "t.duckdb"
    script = (
        f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdin is not None
    try:
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(TargetLockedError, match=rf"\(PID {holder.pid}\)") as caught:
            write(path, row(FIRST, "1", "a"))
        assert not caught.value.transient
    finally:
        holder.stdin.close()
        holder.wait(timeout=30)
        holder.stdout.close()
    write(path, row(FIRST, "1", "a"))


def test_directory_is_read_only(tmp_path: Path):
    """A directory without the right to write is an error that says so, and not one to try again."""
    tmp_path.chmod(0o500)
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(65534)  # root may write everywhere
    try:
        with pytest.raises(TargetError, match="permission denied or read-only") as caught:
            write(tmp_path / "t.duckdb", row(FIRST, "1", "a"))
    finally:
        if as_root:
            os.seteuid(0)
        tmp_path.chmod(0o700)
    assert not caught.value.transient


@pytest.mark.parametrize("place", ["missing/t.duckdb", "."])
def test_no_such_place(tmp_path: Path, place: str):
    """A missing directory, or a directory in the place of the file, is a clear error."""
    with pytest.raises(TargetError, match="can't be opened") as caught:
        write(tmp_path / place, row(FIRST, "1", "a"))
    assert caught.value.remedy


def test_not_a_duckdb_file(tmp_path: Path):
    """A file of another kind is left as it is."""
    path = tmp_path / "t.duckdb"
    path.write_text("something else entirely, and longer than the header of a database file " * 100)
    before = path.read_bytes()
    with pytest.raises(TargetError, match="is not a DuckDB file"):
        write(path, row(FIRST, "1", "a"))
    assert path.read_bytes() == before


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from pgsluice.errors import TargetUnavailableError
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.duckdb import KIND, DuckDBConfig
from pgsluice.testing.batches import Changes, table
path = Path(sys.argv[1])
version = table("public.t", {"id": "int8", "name": "text"}, key=["id"])
def history(start, rows):
    changes = Changes()
    for number in range(start, start + rows):
        changes.insert(version, str(number), str(number) * 40)
    return changes
sink = KIND.build(DuckDBConfig(path=path, threads=1))
sink.open(SinkContext("p", path.parent))
sink.apply(history(0, 10).batch(start=None, end="one"))
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, limits[1]))
try:
    sink.apply(history(10, 30_000).batch(start="one", end="two"))
except TargetUnavailableError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
sink.apply(history(10, 30_000).batch(start="one", end="two"))
sink.close()
"""


def test_no_space_left(tmp_path: Path):
    """A full disk is an error that can be tried again, and the same sink goes on once there is space."""
    path = tmp_path / "t.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert "no space left" in done.stdout
    assert read(path, "SELECT count(*), count(DISTINCT id) FROM public.t") == [(30_010, 30_010)]


def test_writers_in_one_process(tmp_path: Path):
    """Two writers that change the same rows at once: one of them is told to try again."""
    path = tmp_path / "t.duckdb"
    write(path, row(FIRST, "1", "a"))
    sink = KIND.build(DuckDBConfig(path=path))
    token = sink.open(SinkContext("p", tmp_path))
    changes = Changes()
    changes.update(FIRST, "1", "b")
    with duckdb.connect(str(path)) as other:
        other.execute("BEGIN")
        other.execute("DELETE FROM public.t")
        with pytest.raises(TargetUnavailableError):
            sink.apply(changes.batch(start=token, end="next"))
        other.execute("ROLLBACK")
    sink.apply(changes.batch(start=token, end="next"))
    sink.close()
    assert read(path, "FROM public.t") == [(1, "b")]


def test_a_refused_statement_shows_no_row(tmp_path: Path):
    """A constraint that somebody put on the target's table stops the run without showing the row."""
    path = tmp_path / "t.duckdb"
    write(path, row(FIRST, "1", "a"))
    read(path, "CREATE UNIQUE INDEX i ON public.t (name)")
    with pytest.raises(RowRefusedError, match=r"public\.t breaks a rule of DuckDB's table") as caught:
        write(path, row(FIRST, "2", "secret"), row(FIRST, "3", "secret"))
    assert "secret" not in str(caught.value)
    assert not caught.value.transient


def test_options(tmp_path: Path):
    """url is another name of path; unknown options are refused; limits reach DuckDB."""
    config = DuckDBConfig.model_validate(
        {"url": str(tmp_path / "x.duckdb"), "threads": 1, "memory_limit": "100MB"}
    )
    assert config.path == tmp_path / "x.duckdb"
    sink = KIND.build(config)
    sink.open(SinkContext("p", tmp_path))
    query = "SELECT current_setting('threads'), current_setting('memory_limit')"
    assert sink._connection.execute(query).fetchall() == [(1, "95.3 MiB")]
    sink.close()
    with pytest.raises(ValidationError):
        DuckDBConfig.model_validate({"path": "x", "pth": "y"})
    with pytest.raises(ValidationError):
        DuckDBConfig.model_validate({"path": "x", "memory_limit": "1GB'; DROP"})
