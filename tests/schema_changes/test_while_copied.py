"""A table that the source changes while it is copied, for the first time or anew: both sides end equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice import DuckDBSink, Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import SourceError, TargetError
from pgsluice.pipeline.resync import ask_for_copy
from pgsluice.source.snapshot import schema_dump
from tests.schema_changes.test_postgres_target import Pair, dump, require_equal, rows, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgsluice.sinks.base import Batch
    from pgsluice.source.records import PipelineRecord
    from tests.fix_pg import Database

TABLE = (
    "CREATE SCHEMA s",
    "CREATE TYPE s.mood AS ENUM ('bad', 'good')",
    "CREATE TABLE s.t (id int PRIMARY KEY, a text, b int, m s.mood DEFAULT 'good')",
    "CREATE TABLE s.other (id int PRIMARY KEY)",
    "INSERT INTO s.t SELECT g, 'a' || g, g FROM generate_series(1, 500) g",
)
CHANGES = {
    "rename": ("ALTER TABLE s.t RENAME COLUMN a TO x", "UPDATE s.t SET x = 'new' WHERE id < 100"),
    "drop": ("ALTER TABLE s.t DROP COLUMN a", "DELETE FROM s.t WHERE id > 400"),
    "add": (
        "ALTER TABLE s.t ADD COLUMN at timestamptz DEFAULT now()",
        "INSERT INTO s.t (id) VALUES (1000)",
    ),
    "rewrite": (
        "ALTER TABLE s.t ALTER COLUMN b TYPE text USING b || '!'",
        "UPDATE s.t SET b = 'x' WHERE id = 7",
    ),
    "add alone": ("ALTER TABLE s.t ADD COLUMN at timestamptz DEFAULT now()",),
    "name alone": ("ALTER TABLE s.t RENAME TO u",),
    "name": ("ALTER TABLE s.t RENAME TO u", "INSERT INTO s.u (id) VALUES (1000)"),
    "type": ("DROP TYPE s.mood CASCADE", "INSERT INTO s.t (id) VALUES (1000)"),
    "label": ("ALTER TYPE s.mood ADD VALUE 'best'", "UPDATE s.t SET m = 'best' WHERE id < 50"),
    "gone": ("DROP TABLE s.t", "INSERT INTO s.other VALUES (1)"),
}


def meddling(kind: type[Any], meddle: Callable[[], None], *, in_twin: bool) -> type[Any]:
    """A sink whose source is changed just before its first batch is applied."""

    class Meddled(kind):  # type: ignore[misc]
        """Of the copy beside, or of the sink itself."""

        acts = not in_twin

        def twin(self) -> Any:
            made = super().twin()
            made.__class__ = Meddled
            made.acts = True
            return made

        def apply(self, batch: Batch) -> None:
            if self.acts and batch.steps:
                meddle()
            super().apply(batch)

    return Meddled


@pytest.mark.parametrize(
    ("kind", "change"),
    [*(("postgres", change) for change in CHANGES), ("duckdb", "rename"), ("duckdb", "add alone")],
)
def test_copied_anew(
    database: Database, target_database: Database, tmp_path: Path, kind: str, change: str
) -> None:
    """The copy begins again with what the table has become."""
    database.run(*TABLE)
    left = [*CHANGES[change]]

    def meddle() -> None:
        while left:
            database.run(left.pop(0))

    file = tmp_path / "t.duckdb"
    sink = PostgresSink if kind == "postgres" else DuckDBSink
    place = target_database.url if kind == "postgres" else str(file)

    def run(made: type[Any]) -> None:
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, made(place), state_dir=tmp_path / "state").run(once=True)

    run(sink)
    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("s", "t"))
    run(meddling(sink, meddle, in_twin=True))
    assert not left
    run(sink)
    if kind == "postgres":
        pair = Pair(database, target_database)
        require_equal(pair)
        assert target_database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'anew%'") == []
        return
    with duckdb.connect(str(file)) as target:
        tables = database.rows(
            "SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind = 'r'"
        )
        for (name,) in tables:
            columns = target.sql(f"FROM s.{name} LIMIT 0").columns
            wanted = database.rows(f"SELECT {', '.join(columns)} FROM s.{name} ORDER BY id")
            found = target.sql(f"FROM s.{name} ORDER BY id").fetchall()
            assert [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in wanted]
            held = f"SELECT count(*) FROM pg_attribute WHERE attrelid = 's.{name}'::regclass AND attnum > 0"
            assert database.rows(f"{held} AND NOT attisdropped") == [(len(columns),)]


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_broken_off_and_gone_on_with(
    database: Database, target_database: Database, tmp_path: Path, kind: str
) -> None:
    """What was made beside fits by the names of its columns, and not by their types any more."""
    database.run(*TABLE)
    file = str(tmp_path / "t.duckdb")
    sink = PostgresSink if kind == "postgres" else DuckDBSink
    place = target_database.url if kind == "postgres" else file

    def run(made: type[Any]) -> None:
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, made(place), state_dir=tmp_path / "state").run(once=True)

    def die() -> None:
        raise RuntimeError("in the middle")

    run(sink)
    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("s", "t"))
    with pytest.raises(RuntimeError, match="in the middle"):
        run(meddling(sink, die, in_twin=True))
    database.run("ALTER TABLE s.t ALTER b TYPE text USING 'no ' || b", "UPDATE s.t SET b = 'x' WHERE id = 3")
    run(sink)
    wanted = database.rows("SELECT id, a, b FROM s.t ORDER BY id")
    assert len(wanted) == 500
    if kind == "postgres":
        assert target_database.rows("SELECT id, a, b FROM s.t ORDER BY id") == wanted
    else:
        with duckdb.connect(file) as target:
            assert target.sql("SELECT id, a, b FROM s.t ORDER BY id").fetchall() == wanted


@pytest.mark.parametrize("change", ["rename", "add alone", "rewrite", "label", "gone"])
def test_copied_for_the_first_time(
    database: Database, target_database: Database, tmp_path: Path, change: str
) -> None:
    """A copy that is broken off, and gone on with when the source is another one: it begins again."""
    database.run(*TABLE)

    class Broken(PostgresSink):
        """Breaks when rows have been copied, before they count; or when the first ones do."""

        when = 1

        def apply(self, batch: Batch) -> None:
            super().apply(batch)
            self.when -= 1
            if not self.when:
                raise TargetError("enough")

    def run(made: type[PostgresSink]) -> None:
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, made(target_database.url), state_dir=tmp_path / "state").run(once=True)

    with pytest.raises(TargetError, match="enough"):
        run(Broken)
    database.run(*CHANGES[change])
    run(PostgresSink)
    pair = Pair(database, target_database)
    assert dump(pair.target, "s") == dump(pair.source, "s")
    assert rows(pair.target, "s") == rows(pair.source, "s")


FIRST_COPIES = {
    "identity": (
        ("CREATE TABLE s.i (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",),
        ("ALTER TABLE s.i ADD x int",),
    ),
    "schema": (("CREATE VIEW s.v AS SELECT 1 AS one",), ("ALTER SCHEMA s RENAME TO s_2",)),
    "dots": (
        (
            'CREATE SCHEMA "s.x"',
            "CREATE DOMAIN s.d AS int",
            'CREATE TABLE "s.x"."t.y" (id int PRIMARY KEY, d s.d)',
        ),
        ("ALTER DOMAIN s.d SET DEFAULT 3",),
    ),
    "view": (
        ("CREATE VIEW s.v AS SELECT id FROM s.t",),
        ("CREATE OR REPLACE VIEW s.v AS SELECT id, b FROM s.t",),
    ),
    "made and renamed": ((), ("CREATE VIEW s.v AS SELECT id FROM s.t", "ALTER VIEW s.v RENAME TO w")),
    "made and gone": (
        (),
        (
            "CREATE TABLE s.n (id int PRIMARY KEY)",
            "INSERT INTO s.n VALUES (1), (2)",
            "DROP TABLE s.n",
            "CREATE TABLE s.n (id int PRIMARY KEY, a text DEFAULT 'x')",
            "INSERT INTO s.n VALUES (2, 'other')",
        ),
    ),
    "there and back": (
        (),
        (
            "ALTER TABLE s.t ALTER b TYPE text USING 'not a number'",
            "UPDATE s.t SET b = 'nor this' WHERE id < 10",
            "ALTER TABLE s.t ALTER b TYPE int USING 7",
        ),
    ),
}


@pytest.mark.parametrize("case", FIRST_COPIES)
def test_first_copy_gone_on_with(
    database: Database, target_database: Database, tmp_path: Path, case: str
) -> None:
    """
    The source is another one when a first copy is gone on with: the target becomes as it is now.

    What was changed in between is in the stream, too, and not made again.
    """
    before, changes = FIRST_COPIES[case]
    database.run(*TABLE, *before)

    class Broken(PostgresSink):
        """Breaks when all is made, before the copy counts as finished."""

        made = 0

        def make_objects(self, *given: Any, **options: Any) -> None:
            super().make_objects(*given, **options)
            self.made += 1
            if self.made == 2:  # what rows need, and what comes after them
                raise TargetError("enough")

    def run(made: type[PostgresSink]) -> None:
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, made(target_database.url), state_dir=tmp_path / "state").run(once=True)

    with pytest.raises(TargetError, match="enough"):
        run(Broken)
    database.run(*changes)
    run(PostgresSink)
    assert require_equal(Pair(database, target_database)) >= 500
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^s' ORDER BY 1"
    assert target_database.rows(schemas) == database.rows(schemas)


def test_table_that_is_not_published_yet(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """One that is made between the look at the publication and the point of the copy comes whole."""
    database.run(*TABLE)

    class Meddled(PostgresSource):
        """Has more when the publication is as it should be."""

        def prepare(self, name: str) -> PipelineRecord:
            record = super().prepare(name)
            database.run(
                "CREATE TABLE s.late (id int PRIMARY KEY, a text NOT NULL DEFAULT 'x')",
                "CREATE INDEX own ON s.late (a)",
                "INSERT INTO s.late SELECT generate_series(1, 20)",
                "CREATE VIEW s.of_late AS SELECT a FROM s.late",
            )
            return record

    sink = PostgresSink(target_database.url)
    Pipeline(Meddled(database.url, init=True), sink, state_dir=tmp_path).run(once=True)
    pair = Pair(database, target_database)
    run(pair, tmp_path)
    assert require_equal(pair) == 520


@pytest.mark.parametrize("refused", ["", "cache lookup failed for index 17772"])
def test_schema_changed_while_it_is_read(
    database: Database,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
) -> None:
    """Pg_dump shows some of it as it was at the point and the rest as it is now, or gives up: read again."""
    database.run(*TABLE)
    reads = 0

    def meanwhile(*given: Any) -> str:
        nonlocal reads
        reads += 1
        if reads == 1:
            database.run("CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
            if refused:
                raise SourceError(f"pg_dump could not read the schema: {refused}")
        return read(*given)

    read = schema_dump._run
    monkeypatch.setattr(schema_dump, "_run", meanwhile)
    pair = Pair(database, target_database)
    run(pair, tmp_path)
    assert reads == (3 if refused else 4)  # two parts
    require_equal(pair)


def test_rewritten_and_gone_before_it_was_copied(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Its rows can't be had any more, and the rows that the stream has of it fit nothing in the target."""
    pair = Pair(database, target_database)
    database.run(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int, a int)",
        "CREATE TABLE s.other (id int PRIMARY KEY)",
        "INSERT INTO s.t SELECT g, g FROM generate_series(1, 50) g",
    )
    run(pair, tmp_path)
    database.run(
        "ALTER TABLE s.t ALTER a TYPE text USING 'now ' || a",
        "UPDATE s.t SET a = 'later' WHERE id < 20",
        "INSERT INTO s.other SELECT generate_series(1, 10)",
        "DELETE FROM s.t WHERE id > 40",
        "DROP TABLE s.t",
        "INSERT INTO s.other SELECT generate_series(11, 20)",
    )
    run(pair, tmp_path)
    require_equal(pair)
    assert len(rows(target_database, "s")["s.other"]) == 20


def test_types_renamed_since_it_was_rewritten(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """A type is known by its number: what it is called may be another name when the table is made beside."""
    pair = Pair(database, target_database)
    database.run(*TABLE)
    run(pair, tmp_path)
    database.run(
        "ALTER TABLE s.t ADD n float8 DEFAULT random()",
        "ALTER TYPE s.mood RENAME TO temper",
        "ALTER SCHEMA s RENAME TO s_2",
    )
    run(pair, tmp_path)
    require_equal(pair)


def test_views_that_are_filled_meanwhile(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """A materialized view waits for a table that is copied anew, also when both get other names."""
    pair = Pair(database, target_database)
    database.run(*TABLE, "CREATE MATERIALIZED VIEW s.old AS SELECT id FROM s.t WHERE id < 10")
    run(pair, tmp_path)
    database.run(
        "ALTER TABLE s.t ALTER b TYPE text USING b || '!'",
        "CREATE MATERIALIZED VIEW s.m AS SELECT id, b FROM s.t",
        "CREATE MATERIALIZED VIEW s.gone AS SELECT id FROM s.m",
        "CREATE MATERIALIZED VIEW s.empty AS SELECT id FROM s.t WITH NO DATA",
        "ALTER MATERIALIZED VIEW s.m RENAME TO n",
        "DROP MATERIALIZED VIEW s.gone",
        "ALTER SCHEMA s RENAME TO s_2",
    )
    run(pair, tmp_path)
    assert dump(target_database, "s") == dump(database, "s")
    filled = "SELECT relname, relispopulated FROM pg_class WHERE relkind = 'm' ORDER BY 1"
    assert target_database.rows(filled) == [("empty", False), ("n", True), ("old", True)]
    for view in ("n", "old"):
        query = f"SELECT * FROM s_2.{view} ORDER BY 1"
        assert target_database.rows(query) == database.rows(query)


def test_a_generated_column_gets_the_name_of_another(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """The stream has no generated columns, so rows seem to say that one of that name is gone."""
    pair = Pair(database, target_database)
    database.run(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO s.t VALUES (1, 1)",
    )
    run(pair, tmp_path)
    database.run("INSERT INTO s.t VALUES (2, 2)")
    run(pair, tmp_path)
    database.run(
        "INSERT INTO s.t VALUES (3, 3)",
        "ALTER TABLE s.t RENAME a TO x",
        "INSERT INTO s.t VALUES (4, 4)",
        "ALTER TABLE s.t RENAME b TO a",
        "INSERT INTO s.t VALUES (5, 5)",
        "ALTER TABLE s.t RENAME x TO b",
        "INSERT INTO s.t VALUES (6, 6)",
    )
    run(pair, tmp_path)
    require_equal(pair)
