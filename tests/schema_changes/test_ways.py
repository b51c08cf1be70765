"""What becomes of schema changes: made in the target, handed on, left to others; without triggers too."""

from __future__ import annotations

import io
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice import DuckDBSink, Pipeline, PostgresSink, PostgresSource
from pgsluice.cli.main import main
from pgsluice.errors import ChangeRefusedError, TargetSchemaError
from pgsluice.schema.renames import Renames
from pgsluice.sinks.duckdb.config import DuckDBConfig
from pgsluice.sinks.files.config import FilesConfig
from pgsluice.sinks.files.sink import FilesSink
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.sinks.stdout import StdoutSink
from pgsluice.source.install import init
from pgsluice.state.dead_letter import LetterBook
from tests.pipeline.letters import letters
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fix_pg import Database

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text, c text)",
    "INSERT INTO t SELECT g, 'a' || g, 'b' || g, 'c' || g FROM generate_series(1, 50) g",
)
CHANGES = (
    "ALTER TABLE t RENAME COLUMN a TO x",
    "ALTER TABLE t DROP COLUMN b",
    "ALTER TABLE t ADD COLUMN d int",
    "INSERT INTO t (id, x, c, d) VALUES (51, 'x', 'c', 7)",
    "UPDATE t SET x = 'changed' WHERE id <= 10",
    "DELETE FROM t WHERE id > 40 AND id <= 50",
)
COLUMNS = "id, x, c, d"


def run(url: str, sink: Any, place: Path, **options: Any) -> None:
    """One run that ends when it has caught up."""
    triggers = options.pop("event_triggers", True)
    source = PostgresSource(url, keyless="full", init=True, event_triggers=triggers)
    assert Pipeline(source, sink, state_dir=place / "state", **options).run(once=True)


@pytest.fixture
def plain_url(database: Database) -> Iterator[str]:
    """The source as a role that is no superuser: it owns its tables, and may replicate."""
    name = f"owner_{database.name}"
    database.run(
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{database.name}" TO {name}',
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    yield database.url_as(name, "x")
    database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_event_triggers_made_later(
    database: Database, target_database: Database, plain_url: str, tmp_path: Path, kind: str
) -> None:
    """By a superuser, as a run advises: changes before and after that arrive, with rows on both sides."""
    file = tmp_path / "t.duckdb"
    database.run(*TABLE, f"ALTER TABLE t OWNER TO owner_{database.name}")

    def once() -> None:
        sink = PostgresSink(target_database.url) if kind == "postgres" else DuckDBSink(file)
        run(plain_url, sink, tmp_path)

    once()
    init(database.url)
    database.run(
        "INSERT INTO t (id, a) VALUES (60, 'before')",
        "ALTER TABLE t RENAME a TO x",
        "INSERT INTO t (id, x) VALUES (61, 'after')",
    )
    once()
    database.run("ALTER TABLE t ADD y int DEFAULT 5", "INSERT INTO t (id, x) VALUES (62, 'last')")
    once()
    wanted = database.rows("SELECT id, x, b, c, y FROM t ORDER BY id")
    if kind == "postgres":
        assert target_database.rows("SELECT id, x, b, c, y FROM t ORDER BY id") == wanted
    else:
        with duckdb.connect(str(file)) as target:
            assert target.sql("SELECT id, x, b, c, y FROM public.t ORDER BY id").fetchall() == wanted


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_without_event_triggers(
    database: Database, target_database: Database, plain_url: str, tmp_path: Path, kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Columns that rows show to be renamed, dropped or new are so in the target; by a role without rights."""
    file = tmp_path / "t.duckdb"
    database.run(
        *TABLE,
        f"ALTER TABLE t OWNER TO owner_{database.name}",
    )

    def once() -> None:
        sink = PostgresSink(target_database.url) if kind == "postgres" else DuckDBSink(file)
        run(plain_url, sink, tmp_path, event_triggers=False)

    once()
    assert database.rows("SELECT FROM pg_event_trigger") == []
    assert main(["status", "--source-url", plain_url, "--state-dir", str(tmp_path / "state")]) == 0
    assert "only changes of columns are seen" in capsys.readouterr().out
    database.run(*CHANGES)
    once()
    wanted = database.rows(f"SELECT {COLUMNS} FROM t ORDER BY id")
    if kind == "postgres":
        assert target_database.rows(f"SELECT {COLUMNS} FROM t ORDER BY id") == wanted
        columns = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
        found = target_database.rows(f"{columns} AND NOT attisdropped ORDER BY attname")
        assert found == [("c",), ("d",), ("id",), ("x",)]
    else:
        with duckdb.connect(str(file)) as target:
            assert target.sql(f"SELECT {COLUMNS} FROM public.t ORDER BY id").fetchall() == wanted
    print(f"compared {len(wanted)} rows")


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_left_to_others(database: Database, target_database: Database, tmp_path: Path, kind: str) -> None:
    """A row that does not fit any more stops the run with the remedy; when that is done it goes on."""
    database.run(*TABLE)
    file = tmp_path / "t.duckdb"

    def once() -> None:
        options = {"url": target_database.url, "schema_changes": "ignore"}
        of_duckdb = DuckDBConfig(path=file, schema_changes="ignore")
        run(
            database.url,
            PostgresSink(PostgresConfig.model_validate(options))
            if kind == "postgres"
            else DuckDBSink(of_duckdb),
            tmp_path,
        )

    once()
    database.run("ALTER TABLE t ADD COLUMN d int")
    once()
    database.run("INSERT INTO t VALUES (51, 'a', 'b', 'c', 1)")
    with pytest.raises(TargetSchemaError, match=r"does not have: d.*schema_changes: apply"):
        once()
    if kind == "postgres":
        target_database.run("ALTER TABLE t ADD COLUMN d int")
    else:
        with duckdb.connect(str(file)) as target:
            target.execute("ALTER TABLE public.t ADD COLUMN d INTEGER")
    once()
    if kind == "postgres":
        assert source_rows(target_database, "t") == source_rows(database, "t")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("passed", [True, False])
def test_handed_on(database: Database, tmp_path: Path, *, passed: bool) -> None:
    """A feed has changes of the schema as rows of their own, among those of tables; or has none of them."""
    database.run(*TABLE)
    output, way = io.BytesIO(), "pass" if passed else "ignore"

    def once() -> None:
        files = FilesSink(FilesConfig(path=tmp_path / "feed", format="jsonl", schema_changes=way))
        run(database.url, {"out": StdoutSink(output, schema_changes=way), "files": files}, tmp_path)

    once()
    output.seek(0)
    output.truncate()
    database.run(*CHANGES)
    once()
    events = [json.loads(line) for line in output.getvalue().splitlines()]
    noted = [event for event in events if event["table"] == "schema_log"]
    assert len(noted) == (3 if passed else 0)
    assert len(events) - len(noted) == 21
    if passed:
        assert [event["table"] for event in events[:3]] == ["schema_log"] * 3
        (tag,) = [each["value"] for each in noted[0]["columns"] if each["name"] == "tag"]
        assert tag == "ALTER TABLE"
    assert bool(list((tmp_path / "feed").glob("pgsluice.schema_log/*.jsonl"))) == passed


def test_other_names(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Where tables have names of the target's own, what is done to the source's is done to these."""
    database.run(
        *TABLE,
        "CREATE TABLE orders (id int PRIMARY KEY, t int REFERENCES t)",
        "INSERT INTO orders VALUES (1, 1)",
    )
    renames = Renames({"public": "shop"}, {("public", "orders"): ("sales", "Order s")})

    def once() -> None:
        run(database.url, PostgresSink(target_database.url), tmp_path, renames=renames)

    once()
    database.run(
        *CHANGES,
        "ALTER TABLE orders ADD COLUMN at timestamptz DEFAULT now(), ADD CHECK (id > 0)",
        "CREATE INDEX orders_at ON orders (at)",
        "ALTER TABLE orders ADD n serial, ADD scope text DEFAULT 'public.read'",
        "ALTER TABLE orders ADD COLUMN m bigserial",
        "INSERT INTO orders (id) VALUES (2)",
        "CREATE TABLE later (id int PRIMARY KEY, o int REFERENCES orders)",
        "INSERT INTO later VALUES (1, 1)",
        "CREATE VIEW seen AS SELECT orders.id, t.x FROM orders JOIN t ON t.id = orders.t",
        "ALTER TABLE later RENAME COLUMN o TO of_order",
    )
    once()
    for there, here in (("shop.t", "t"), ('sales."Order s"', "orders"), ("shop.later", "later")):
        columns = COLUMNS if here == "t" else "*"
        found = target_database.rows(f"SELECT {columns} FROM {there} ORDER BY id")
        assert found == database.rows(f"SELECT {columns} FROM {here} ORDER BY id")
    assert target_database.rows("SELECT * FROM shop.seen") == [(1, "changed")]
    found = target_database.rows(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
        " ORDER BY 1"
    )
    assert found == [('sales."Order s"', "shop.t"), ("shop.later", 'sales."Order s"')]


@pytest.fixture
def refused(database: Database, target_database: Database, tmp_path: Path) -> Callable[[str], None]:
    """A target that can't drop a column, because of a view of its own; gives what runs the pipeline."""
    database.run(*TABLE, "CREATE TABLE other (id int PRIMARY KEY)")

    def once(on_error: str) -> None:
        run(database.url, PostgresSink(target_database.url), tmp_path, on_error=on_error)

    once("stop")
    target_database.run("CREATE VIEW theirs AS SELECT b FROM t")
    database.run(
        "ALTER TABLE t DROP COLUMN b",
        "INSERT INTO t (id) VALUES (51)",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO other VALUES (1)",
    )
    return once


def test_a_change_that_the_target_refuses_stops(
    refused: Callable[[str], None], database: Database, target_database: Database
) -> None:
    """With the statement, the target's words, and the position; when it can be made the run goes on."""
    for _ in range(2):
        with pytest.raises(ChangeRefusedError, match=r"cannot drop .*DROP COLUMN.*transaction at ") as caught:
            refused("stop")
        assert caught.value.fields["position"]
    assert len(target_database.rows("SELECT FROM other")) == 0
    target_database.run("DROP VIEW theirs")
    refused("stop")
    for table in ("t", "other"):
        assert source_rows(target_database, table) == source_rows(database, table)


def test_a_default_that_the_target_can_not_take(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """What is wrong stands in the statement: nothing is said of rows."""
    database.run(*TABLE, "CREATE TYPE mood AS ENUM ('a', 'b')")
    run(database.url, PostgresSink(target_database.url), tmp_path)
    target_database.run("ALTER TYPE mood RENAME VALUE 'b' TO 'c'")
    database.run("ALTER TABLE t ADD m mood DEFAULT 'b'")
    with pytest.raises(ChangeRefusedError, match=r"invalid input value for enum public\.mood") as caught:
        run(database.url, PostgresSink(target_database.url), tmp_path)
    assert "a row has" not in str(caught.value)


def test_a_change_that_the_target_refuses_is_put_aside(
    refused: Callable[[str], None], database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Rows of its table wait behind it, the others go on; when it is made by hand they can be replayed."""
    refused("dead_letter")
    assert source_rows(target_database, "other") == source_rows(database, "other")
    first, *behind = letters(tmp_path)
    assert (first.table, first.op, first.code) == ("public.t", "DDL", "SLUICE-CHANGE-REFUSED")
    assert "DROP COLUMN" in first.message
    assert [letter.waits_for for letter in behind] == [first.id] * 2
    with closing(LetterBook(tmp_path / "state")) as book:
        book.ask(behind)
    refused("dead_letter")
    assert letters(tmp_path)[0].message == first.message
    target_database.run("DROP VIEW theirs", "ALTER TABLE t DROP COLUMN b")
    with closing(LetterBook(tmp_path / "state")) as book:
        book.discard([first])
        book.ask(letters(tmp_path))
    refused("dead_letter")
    assert letters(tmp_path) == []
    assert source_rows(target_database, "t") == source_rows(database, "t")


def test_kinds_that_are_left_out(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Objects of some kinds only, or of all but some."""
    options = {"url": target_database.url, "schema_exclude": ["index", "view"]}
    database.run(*TABLE)

    def once() -> None:
        run(database.url, PostgresSink(PostgresConfig.model_validate(options)), tmp_path)

    def kinds() -> list[tuple]:
        return target_database.rows(
            "SELECT relkind::text, relname FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace ORDER BY 2"
        )

    once()
    database.run(
        "CREATE INDEX t_a ON t (a)", "CREATE VIEW v AS SELECT 1 AS x", "CREATE TABLE u (id int PRIMARY KEY)"
    )
    once()
    assert kinds() == [("r", "t"), ("i", "t_pkey"), ("r", "u"), ("i", "u_pkey")]
    del options["schema_exclude"]
    options["schema_include"] = ["view"]
    database.run("CREATE INDEX t_b ON t (b)", "CREATE VIEW w AS SELECT 1 AS x")
    once()
    assert kinds() == [("r", "t"), ("i", "t_pkey"), ("r", "u"), ("i", "u_pkey"), ("v", "w")]


@pytest.mark.parametrize("wanted", [True, False])
def test_grants(database: Database, target_database: Database, tmp_path: Path, *, wanted: bool) -> None:
    """Rights that are given and taken after the copy, where they are asked for."""
    name = f"reader_{database.name}"
    options = {"url": target_database.url, "privileges": wanted}
    database.run(f'CREATE ROLE "{name}"')
    try:
        database.run(
            *TABLE, "CREATE SEQUENCE n", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"
        )

        def once() -> None:
            run(database.url, PostgresSink(PostgresConfig.model_validate(options)), tmp_path)

        def rights(of: Database) -> list[tuple]:
            return of.rows(
                "SELECT relname, relacl::text FROM pg_class WHERE relname IN ('t', 'n', 'v')"
                " UNION ALL SELECT proname, proacl::text FROM pg_proc WHERE proname = 'f'"
                " UNION ALL SELECT attrelid::regclass || '.' || attname, attacl::text FROM pg_attribute"
                " WHERE attrelid::regclass::text IN ('t', 'v') AND attnum > 0 AND NOT attisdropped ORDER BY 1"
            )

        once()
        database.run(
            f'GRANT SELECT, INSERT ON t TO "{name}" WITH GRANT OPTION',
            f'GRANT USAGE ON SEQUENCE n TO "{name}"',
            "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC",
            "CREATE VIEW v AS SELECT id FROM t",
            "GRANT SELECT ON v TO PUBLIC",
            f'REVOKE INSERT ON t FROM "{name}"',
            f'REVOKE GRANT OPTION FOR SELECT ON t FROM "{name}"',
            f'GRANT UPDATE (a, b), SELECT (c) ON t TO "{name}" WITH GRANT OPTION',
            f'REVOKE UPDATE (b) ON t FROM "{name}"',
            f'REVOKE GRANT OPTION FOR SELECT (c) ON t FROM "{name}"',
            f'GRANT SELECT (id) ON v TO "{name}"',
            "ALTER TABLE t RENAME a TO aa",
            f'GRANT INSERT (aa, b), REFERENCES (b) ON t TO "{name}"; GRANT INSERT ON t TO "{name}"',
            f'REVOKE INSERT ON t FROM "{name}"; GRANT INSERT (b) ON t TO PUBLIC',
        )
        once()
        assert (rights(target_database) == rights(database)) == wanted
        if not wanted:
            assert {acl for _, acl in rights(target_database)} == {None}
    finally:
        for each in (database, target_database):
            each.run(f'DROP OWNED BY "{name}"')
        database.run(f'DROP ROLE "{name}"')
