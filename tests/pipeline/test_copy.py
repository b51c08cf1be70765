"""The first copy: tables at one point, then the stream from there, whatever happens meanwhile."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice import DuckDBSink, MemorySink, Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import ConfigError, MissingRightError, TargetError, TargetUnavailableError
from pgsluice.pipeline import copy as module
from pgsluice.pipeline import copy_plan
from pgsluice.schema.renames import Renames
from pgsluice.sinks.memory import MemoryStore
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.source.install import InitOptions, init
from pgsluice.source.selection import Selection
from pgsluice.source.snapshot import ranges
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database


@pytest.fixture
def filled(database: Database) -> Database:
    """Tables of several shapes, with rows."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, price numeric(8,2), body text, tags text[])",
        "ALTER TABLE item ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO item SELECT g, g / 7.0, repeat(md5(g::text), g % 90), ARRAY['a', NULL, 'b,c']"
        " FROM generate_series(1, 4000) g",
        "CREATE TABLE line (n int, t text)",
        "INSERT INTO line SELECT g % 5, E'tab\\tline\\n\\\\' FROM generate_series(1, 50) g",
        "CREATE TABLE empty (id int PRIMARY KEY)",
        'CREATE TABLE "Odd %s näme" ("select" int PRIMARY KEY, "a""b" text)',
        "INSERT INTO \"Odd %s näme\" VALUES (1, 'x'), (2, NULL)",
        "CREATE TABLE root (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM ('2026-01-01') TO ('2026-07-01')",
        "CREATE TABLE leaf2 PARTITION OF root FOR VALUES FROM ('2026-07-01') TO ('2027-01-01')",
        "INSERT INTO root SELECT g, date '2026-01-01' + g % 300 FROM generate_series(1, 900) g",
        "CREATE TABLE parent (id int PRIMARY KEY, v text)",
        "CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO parent VALUES (1, 'p')",
        "INSERT INTO child VALUES (2, 'c', 3)",
        "CREATE TABLE made (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
        "INSERT INTO made (id, a) SELECT g, g FROM generate_series(1, 20) g",
    )
    return database


TABLES = ("item", "line", "leaf1", "leaf2", "child")


def pipeline(database: Database, sink: Any, tmp_path: Path, **options: Any) -> Pipeline:
    """A pipeline that copies first."""
    source = PostgresSource(database.url, keyless="full", init=True)
    return Pipeline(source, sink, state_dir=tmp_path / "state", **options)


def held(store: MemoryStore, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table in memory, as text, sorted."""
    return sorted(store.tables[f"public.{table}"].rows, key=repr)


def compare(database: Database, store: MemoryStore) -> int:
    """Compare tables row by row; gives how many rows."""
    compared = 0
    for table in TABLES:
        wanted = source_rows(database, table)
        assert held(store, table) == wanted, table
        compared += len(wanted)
    assert held(store, "Odd %s näme") == [("1", "x"), ("2", None)]
    assert held(store, "parent") == [("1", "p")]
    assert held(store, "made") == sorted(((str(n), str(n)) for n in range(1, 21)), key=repr)
    print(f"compared {compared} rows")
    return compared


def test_what_was_there_and_what_comes(filled: Database, tmp_path: Path) -> None:
    """Rows of before the slot arrive once, and changes of after go on top of them."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert compare(filled, store) > 4900
    filled.run(
        "UPDATE item SET price = price + 1 WHERE id <= 100",
        "UPDATE item SET id = -id WHERE id % 100 = 0",
        "DELETE FROM item WHERE id BETWEEN 500 AND 600",
        "DELETE FROM line WHERE ctid IN (SELECT ctid FROM line LIMIT 7)",
        "INSERT INTO root VALUES (7777, '2026-12-31')",
    )
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert compare(filled, store) > 4800


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_many_ranges_by_tasks(filled: Database, tmp_path: Path) -> None:
    """Tables cut into many ranges and several batches, read by tasks."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert compare(filled, store) > 4900


@pytest.fixture
def by_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ranges and batches, through tasks of a Spark that runs."""
    cut_small(monkeypatch)


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ranges and batches, through tasks."""
    monkeypatch.setattr(ranges.cut, "__kwdefaults__", {"start": (0, 0), "range_bytes": 64 << 10})
    monkeypatch.setattr(copy_plan, "BATCH_BYTES", 512 << 10)
    monkeypatch.setattr(copy_plan, "RAW_BATCHES", 1)
    monkeypatch.setattr(module, "SMALL_BYTES", 0)


def compare_databases(source: Database, target: Database) -> None:
    """Compare tables of two databases row by row."""
    compared = 0
    for table in TABLES:
        wanted = source_rows(source, table)
        assert source_rows(target, table) == wanted, table
        compared += len(wanted)
    print(f"compared {compared} rows")


class Traffic:
    """Two writers that change everything while a block runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stop = threading.Event()
        self._writers = [threading.Thread(target=self._write, args=(number,)) for number in (1, 2)]
        self.done = 0

    def __enter__(self) -> Traffic:
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for writer in self._writers:
            writer.join()

    def _write(self, number: int) -> None:
        with self._database.connect() as conn:
            while not self._stop.wait(0.01):
                self.done += 1
                key, group = self.done % 4000, self.done % 5
                with conn.transaction():
                    conn.execute("UPDATE item SET price = price + 1 WHERE id = %s", (key,))
                    conn.execute("DELETE FROM item WHERE id = %s", (key + 1,))
                    conn.execute(
                        "INSERT INTO item VALUES (%s, 1, repeat('new', 900))",
                        (100_000 * number + self.done,),
                    )
                conn.execute("INSERT INTO line VALUES (%s, 'while')", (group,))
                chosen = "ctid = (SELECT ctid FROM line WHERE n = %s LIMIT 1)"
                conn.execute(f"DELETE FROM line WHERE {chosen}", (group,))


class Interrupted(MemorySink):
    """Fails for good before its n-th batch, as a process that is killed there."""

    def __init__(self, store: MemoryStore, before: int) -> None:
        super().__init__(store)
        self._left = before

    def apply(self, batch: Batch) -> None:
        """Apply, or fail."""
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("killed")
        super().apply(batch)


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_broken_off_again_and_again_under_traffic(filled: Database, tmp_path: Path) -> None:
    """What was copied stays, the rest is copied at new points, and in the end all is equal."""
    store = MemoryStore()
    broken = 0
    with Traffic(filled) as traffic:
        for before in (1, 2, 1, 3):
            try:
                pipeline(filled, Interrupted(store, before), tmp_path).run(once=True)
            except RuntimeError:
                broken += 1
            filled.run("VACUUM FULL item")
    assert broken >= 3
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert compare(filled, store) > 3000
    print(f"{traffic.done} transactions meanwhile, broken off {broken} times")
    assert traffic.done > 20


def test_a_table_that_is_rewritten_while_it_is_copied(filled: Database, tmp_path: Path) -> None:
    """Its rows are in another file then, where the snapshot sees none: it is copied at a new point."""
    store = MemoryStore()
    real = ranges.CopyRange.rows
    rewritten = []

    def rewrite_first(part: ranges.CopyRange) -> Any:
        if part.heap.name == "item" and not rewritten:
            rewritten.append(part)
            filled.run("ALTER TABLE item ALTER price TYPE numeric(9,2)")
        return real(part)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranges.CopyRange, "rows", rewrite_first)
        pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert rewritten
    assert compare(filled, store) > 4900


def test_a_table_truncated_again_and_again_holds_up_no_other(filled: Database, tmp_path: Path) -> None:
    """It is set aside, the others are copied once more and for good, then it has a point for itself."""
    store = MemoryStore()
    real = ranges.CopyRange.rows
    read: list[str] = []

    def truncate_first(part: ranges.CopyRange) -> Any:
        read.append(part.heap.name)
        if part.heap.name == "line" and read.count("line") < 5:
            filled.run("TRUNCATE line", f"INSERT INTO line VALUES ({len(read)}, 'after')")
        return real(part)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranges.CopyRange, "rows", truncate_first)
        pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert compare(filled, store) > 4900
    assert read.count("line") == 5
    assert read.count("item") == 2, "once beside it, once without it"
    assert read[-3:] == ["line"] * 3


def test_a_second_target_is_copied_and_joins(filled: Database, tmp_path: Path) -> None:
    """The first one goes on where it was; the new one gets everything, although the log begins later."""
    first, second = MemoryStore(), MemoryStore()
    pipeline(filled, {"first": MemorySink(first)}, tmp_path).run(once=True)
    filled.run("DELETE FROM item WHERE id < 50", "INSERT INTO line VALUES (99, 'between')")
    both = {"first": MemorySink(first), "second": MemorySink(second)}
    pipeline(filled, both, tmp_path).run(once=True)
    filled.run("UPDATE item SET price = 0 WHERE id > 3900")
    pipeline(filled, both, tmp_path).run(once=True)
    assert compare(filled, first) == compare(filled, second) > 4800


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_into_tables_on_disk(filled: Database, target_database: Database, tmp_path: Path, kind: str) -> None:
    """The same into a DuckDB file and into another PostgreSQL."""
    sink = DuckDBSink(tmp_path / "t.duckdb") if kind == "duckdb" else PostgresSink(target_database.url)
    pipeline(filled, sink, tmp_path).run(once=True)
    filled.run("UPDATE item SET price = price + 1 WHERE id <= 100", "DELETE FROM line WHERE n = 3")
    pipeline(filled, sink, tmp_path).run(once=True)
    if kind == "postgres":
        compare_databases(filled, target_database)
        assert source_rows(target_database, "empty") == []
        return
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        found = connection.execute("SELECT id, price, body FROM public.item ORDER BY id").fetchall()
        assert connection.execute("SELECT count(*) FROM public.empty").fetchall() == [(0,)]
    assert found == filled.rows("SELECT id, price, body FROM item ORDER BY id")


def test_tables_that_join_later(filled: Database, tmp_path: Path) -> None:
    """A table made, or made again, while a pipeline exists is copied at the next start, by its own point."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    filled.run(
        "CREATE TABLE fresh (id int PRIMARY KEY, v text)",
        "INSERT INTO fresh SELECT g, 'before' FROM generate_series(1, 30) g",
        "DROP TABLE leaf1, leaf2, root, empty CASCADE",
        "DROP TABLE child",
        "CREATE TABLE child (id int PRIMARY KEY, other text)",
        "INSERT INTO child VALUES (9, 'another table')",
        "UPDATE item SET price = 1 WHERE id = 1",
    )
    for _ in range(2):  # the second finds nothing to copy
        pipeline(filled, MemorySink(store), tmp_path).run(once=True)
        filled.run("UPDATE fresh SET v = 'after' WHERE id % 2 = 0", "DELETE FROM fresh WHERE id = 3")
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    for table in ("item", "fresh", "child"):
        assert held(store, table) == source_rows(filled, table), table


class InterruptedPostgres(PostgresSink):
    """Fails for good after the ranges of its n-th batch, before its progress."""

    def __init__(self, url: str, after: int) -> None:
        super().__init__(url)
        self._left = after

    def _copy(self, batch: Batch, steps: Any) -> bool:
        done = super()._copy(batch, steps)
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("killed")
        return done


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_ranges_of_a_broken_copy_are_not_doubled(
    filled: Database, target_database: Database, tmp_path: Path
) -> None:
    """Ranges are copied in transactions of their own; what a batch without progress left is emptied."""
    for after in (0, 1, 0):
        with pytest.raises(RuntimeError, match="killed"):
            pipeline(filled, InterruptedPostgres(target_database.url, after), tmp_path).run(once=True)
        filled.run("UPDATE item SET price = price + 1 WHERE id % 10 = 0", "INSERT INTO line VALUES (1, 'x')")
    assert target_database.rows("SELECT count(*) FROM pgsluice.copied_range")[0][0] > 0
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    compare_databases(filled, target_database)
    assert target_database.rows("SELECT count(*) FROM pgsluice.copied_range") == [(0,)]


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_a_range_that_is_copied_twice(filled: Database, target_database: Database, tmp_path: Path) -> None:
    """A target that is lost between ranges and progress: the batch is tried again, and no row comes twice."""
    failed = []

    class LosesOnce(PostgresSink):
        def _copy(self, batch: Batch, steps: Any) -> bool:
            done = super()._copy(batch, steps)
            if len(failed) < 2:
                failed.append(batch.end)
                raise TargetUnavailableError("gone for a moment")
            return done

    pipeline(filled, LosesOnce(target_database.url), tmp_path).run(once=True)
    assert len(failed) == 2
    compare_databases(filled, target_database)


def test_ranges_that_a_crash_has_taken_back(
    filled: Database, target_database: Database, tmp_path: Path
) -> None:
    """A target that comes back from a crash without a range, and without its mark: it is copied once more."""
    taken = []

    class TakenBack(PostgresSink):
        def _copy(self, batch: Batch, steps: Any) -> bool:
            done = super()._copy(batch, steps)
            if not taken:  # as if the transaction of its last ranges had never reached the disk
                taken.append(
                    target_database.rows(
                        "DELETE FROM pgsluice.copied_range WHERE relation = 'public.item' RETURNING range"
                    )
                )
                target_database.run("TRUNCATE item")
            return done

    pipeline(filled, TakenBack(target_database.url), tmp_path).run(once=True)
    assert taken[0]
    compare_databases(filled, target_database)


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_a_table_that_is_rewritten_while_tasks_copy_it(
    filled: Database, target_database: Database, tmp_path: Path
) -> None:
    """Tasks that write rows to the target themselves find it out in the middle of their COPY."""
    rewritten = []

    class RewrittenUnder(PostgresSink):
        def _copy(self, batch: Batch, steps: Any) -> bool:
            if not rewritten:
                rewritten.append(batch.end)
                filled.run("VACUUM FULL item")
            return super()._copy(batch, steps)

    pipeline(filled, RewrittenUnder(target_database.url), tmp_path).run(once=True)
    assert rewritten
    compare_databases(filled, target_database)


@pytest.mark.parametrize(("on_conflict", "price"), [("update", "0.14"), ("nothing", "99.00")])
def test_copying_over_rows_of_others(
    filled: Database, target_database: Database, tmp_path: Path, on_conflict: str, price: str
) -> None:
    """A row of the same key is replaced or left alone by a copy too, as asked."""
    target_database.run(
        "CREATE TABLE item (id int PRIMARY KEY, price numeric(8,2), body text, tags text[])",
        "INSERT INTO item VALUES (1, 99)",
    )
    options = PostgresConfig.model_validate({"url": target_database.url, "on_conflict": on_conflict})
    pipeline(filled, PostgresSink(options), tmp_path).run(once=True)
    assert target_database.rows("SELECT price::text FROM item WHERE id = 1") == [(price,)]
    assert target_database.rows("SELECT count(*) FROM item") == filled.rows("SELECT count(*) FROM item")


@pytest.mark.parametrize("runs_between", [True, False])
def test_a_table_that_leaves_and_comes_back(filled: Database, tmp_path: Path, runs_between: bool) -> None:
    """What was written while it was away is not in the stream: it is emptied and copied again."""
    store = MemoryStore()

    def run(*patterns: str) -> None:
        source = PostgresSource(filled.url, tables=patterns, init=True, keyless="full")
        Pipeline(source, MemorySink(store), state_dir=tmp_path / "state").run(once=True)

    run("public.*")
    init(filled.url, InitOptions(selection=Selection(include=("public.line",), keyless="full")))
    if runs_between:
        run("public.line")
    filled.run("DELETE FROM item WHERE id < 100", "UPDATE item SET price = 7 WHERE id = 200")
    run("public.*")
    filled.run("UPDATE item SET price = 8 WHERE id = 300")
    run("public.*")
    for table in ("item", "line", "child"):
        assert held(store, table) == source_rows(filled, table), table


def test_into_a_table_that_has_rows(filled: Database, target_database: Database, tmp_path: Path) -> None:
    """Rows that nobody of us has written stop the first copy before anything is added to them."""
    target_database.run("CREATE TABLE empty (id int PRIMARY KEY)", "INSERT INTO empty VALUES (-5)")
    with pytest.raises(TargetError, match=r"public\.empty has rows that are not from this pipeline"):
        pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    assert target_database.rows("SELECT * FROM empty") == [(-5,)]
    target_database.run("TRUNCATE empty")
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    compare_databases(filled, target_database)


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_a_broken_copy_goes_on_as_it_began(
    filled: Database, target_database: Database, tmp_path: Path
) -> None:
    """Another way of copying could not tell the rows of ranges from others: it is refused until the end."""
    with pytest.raises(RuntimeError, match="killed"):
        pipeline(filled, InterruptedPostgres(target_database.url, 0), tmp_path).run(once=True)
    other = PostgresConfig.model_validate({"url": target_database.url, "on_conflict": "update"})
    with pytest.raises(TargetError, match="can only go on as it began"):
        pipeline(filled, PostgresSink(other), tmp_path).run(once=True)
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    compare_databases(filled, target_database)
    pipeline(filled, PostgresSink(other), tmp_path).run(once=True)


def test_other_names_than_before(filled: Database, target_database: Database, tmp_path: Path) -> None:
    """A target that was filled under other names is refused, and not given half of the changes."""
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    renames = Renames({"public": "elsewhere"})
    with pytest.raises(
        ConfigError, match="was filled with the names of the source, now they are public: elsewhere"
    ):
        pipeline(filled, PostgresSink(target_database.url), tmp_path, renames=renames).run(once=True)
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)


@pytest.mark.both_versions
def test_a_policy_hides_no_rows_from_a_copy(database: Database, tmp_path: Path) -> None:
    """A role that would see a part of the rows gets none, and an error that says so."""
    database.run(
        "CREATE TABLE own (id int PRIMARY KEY, tenant int)",
        "INSERT INTO own SELECT g, g % 10 FROM generate_series(1, 100) g",
        "DROP ROLE IF EXISTS seer",
        "CREATE ROLE seer LOGIN REPLICATION PASSWORD 'x'",
        "GRANT SELECT ON own TO seer",
        "ALTER TABLE own ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY part ON own USING (tenant = 1)",
    )
    store = MemoryStore()
    source = PostgresSource(database.url_as("seer", "x"))
    try:
        with pytest.raises(MissingRightError, match="row-level security"):
            Pipeline(source, MemorySink(store), mode="snapshot", state_dir=tmp_path / "state").run()
    finally:
        database.run("DROP OWNED BY seer", "DROP ROLE seer")
    assert not store.tables.get("public.own")


def test_what_would_act_again_is_not_made(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """For a role that can't switch them off, triggers and keys that act are left out; the stream goes on."""
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (id int PRIMARY KEY, pid int REFERENCES parent ON DELETE CASCADE)",
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER acts BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION act()",
        "INSERT INTO parent VALUES (1), (2)",
        "INSERT INTO child VALUES (1, 1), (2, 2)",
    )
    target_database.run(
        "DROP ROLE IF EXISTS plain_copier",
        "CREATE ROLE plain_copier LOGIN PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{target_database.name}" TO plain_copier',
        "GRANT CREATE ON SCHEMA public TO plain_copier",
    )
    url = target_database.url_as("plain_copier", "x")
    try:
        pipeline(database, PostgresSink(url), tmp_path).run(once=True)
        assert target_database.rows("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]
        assert target_database.rows("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == [(0,)]
        database.run("DELETE FROM parent WHERE id = 1", "INSERT INTO child VALUES (3, 2)")
        pipeline(database, PostgresSink(url), tmp_path).run(once=True)
        for table in ("parent", "child"):
            assert source_rows(target_database, table) == source_rows(database, table)
    finally:
        target_database.run("DROP OWNED BY plain_copier CASCADE", "DROP ROLE plain_copier")


@pytest.mark.parametrize("code", ["P0001", "22000", "23505", "23514", "42501"])
def test_a_function_of_the_target_tells_no_value(
    database: Database, target_database: Database, tmp_path: Path, code: str
) -> None:
    """What it raises may be nothing but a row's values: it is not repeated."""
    database.run("CREATE TABLE card (id int PRIMARY KEY, number text)")
    pipeline(database, PostgresSink(target_database.url), tmp_path).run(once=True)
    target_database.run(
        "CREATE FUNCTION no(v text) RETURNS bool LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE 'number % is not allowed here', v USING ERRCODE = '{code}'; END $$",
        "ALTER TABLE card ADD CHECK (no(number))",
    )
    database.run("INSERT INTO card VALUES (1, 'card4111')")
    with pytest.raises(TargetError, match="exception that a function of the target raises") as caught:
        pipeline(database, PostgresSink(target_database.url), tmp_path).run(once=True)
    assert "card4111" not in str(caught.value)
