"""A table that is copied anew while the stream goes on."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice import DuckDBSink, MemorySink, Pipeline, PostgresSink, PostgresSource
from pgsluice.changelog.consumers import Consumers
from pgsluice.errors import ConfigError, TargetError, WrongSystemError
from pgsluice.pipeline import copy
from pgsluice.pipeline.loop import SinkLoop
from pgsluice.pipeline.resync import ask_for_copy
from pgsluice.schema.renames import Renames
from pgsluice.sinks.memory import MemoryStore
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.source.install import InitOptions, init
from pgsluice.source.selection import Selection
from pgsluice.state.requests import Requests
from tests.fix_pg import create_database, drop_database
from tests.pipeline.test_copy import Traffic, compare, cut_small, filled, pipeline
from tests.pipeline.test_run import source_rows
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database

__all__ = ["filled"]


def ask(database: Database, tmp_path: Path, table: str = "item", sink: str = "target") -> None:
    """As ``pgsluice resync`` does."""
    ask_for_copy(database.url, "main", tmp_path / "state", [sink], ("public", table))


def spoil(store: MemoryStore) -> None:
    """Lose some rows of the target."""
    rows = store.tables["public.item"]._found
    for key in list(rows)[:500]:
        del rows[key]


def test_a_spoilt_table_is_whole_again(filled: Database, tmp_path: Path) -> None:
    """Also without a single change meanwhile; nothing is left of the copy beside."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    spoil(store)
    ask(filled, tmp_path)
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    print(f"{compare(filled, store)} rows compared")
    assert list(store.progress) == ["main"]
    assert not [name for name in store.tables if name.startswith("pgsluice.")]
    assert not list(Requests(tmp_path / "state").open())
    assert [each.name for each in Consumers(tmp_path / "state" / "log").all()] == ["target"]


def test_changes_of_a_table_that_can_not_take_them(filled: Database, tmp_path: Path) -> None:
    """What made the copy necessary does not stop the stream: the old rows are left alone until they go."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    spoil(store)
    filled.run("UPDATE item SET price = 1 WHERE id <= 500")  # leaves large values out that are not there
    with pytest.raises(Exception, match="relies on a row that is not there"):
        pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    ask(filled, tmp_path)
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    print(f"{compare(filled, store)} rows compared")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["memory", "duckdb", "postgres"])
def test_under_traffic(filled: Database, target_database: Database, tmp_path: Path, kind: str) -> None:
    """The other tables go on; a run that is stopped in between goes on with it; all is equal in the end."""
    store, file = MemoryStore(), tmp_path / "copy.duckdb"
    sinks: dict[str, Any] = {
        "memory": lambda: MemorySink(store),
        "duckdb": lambda: DuckDBSink(file),
        "postgres": lambda: PostgresSink(target_database.url),
    }
    pipeline(filled, sinks[kind](), tmp_path).run(once=True)
    with Traffic(filled) as traffic:
        for table in ("item", "leaf1", "item"):
            running = pipeline(filled, sinks[kind](), tmp_path)
            thread = threading.Thread(target=running.run)
            thread.start()
            ask(filled, tmp_path, table)
            threading.Event().wait(1.5)
            running.stop()
            thread.join()
    assert traffic.done > 20
    pipeline(filled, sinks[kind](), tmp_path).run(once=True)
    tables = ("item", "line", "leaf1", "leaf2", "child")
    if kind == "memory":
        print(f"{compare(filled, store)} rows compared")
    elif kind == "postgres":
        for table in tables:
            assert source_rows(target_database, table) == source_rows(filled, table), table
        assert target_database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'anew%'") == []
        assert target_database.rows("SELECT pipeline FROM pgsluice.progress") == [("main",)]
    else:
        with duckdb.connect(str(file)) as conn:
            for table in tables:
                (count,) = filled.rows(f"SELECT count(*) FROM ONLY {table}")[0]
                assert conn.sql(f"SELECT count(*) FROM public.{table}").fetchall() == [(count,)], table
            assert conn.sql("SELECT pipeline FROM pgsluice.progress").fetchall() == [("main",)]
    assert not list(Requests(tmp_path / "state").open())


class Dying(MemorySink):
    """Breaks at a batch of the sink's own loop that a test chooses."""

    def __init__(self, store: MemoryStore, at: str, *, after: bool) -> None:
        super().__init__(store)
        self._at = at
        self._after = after

    def apply(self, batch: Batch) -> None:
        """Break before or after the batch."""
        hit = bool(batch.swaps) if self._at == "swap" else '"anew"' in batch.end and not batch.steps
        if hit and not self._after:
            raise RuntimeError("before it")
        super().apply(batch)
        if hit:
            raise RuntimeError("after it")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", ["begin", "swap"])
def test_a_crash_at_the_turning_points(filled: Database, tmp_path: Path, at: str, *, after: bool) -> None:
    """Before or after the progress that takes it up, or puts it in place: nothing lost, nothing twice."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    spoil(store)
    ask(filled, tmp_path)
    with pytest.raises(RuntimeError, match="it"):
        pipeline(filled, Dying(store, at, after=after), tmp_path).run(once=True)
    filled.run("UPDATE item SET price = price + 1 WHERE id % 3 = 0", "DELETE FROM item WHERE id % 50 = 0")
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    filled.run("UPDATE item SET price = price + 1 WHERE id % 3 = 0")
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    print(f"{compare(filled, store)} rows compared")
    assert not list(Requests(tmp_path / "state").open())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_both_loops_meet_at_one_position(filled: Database, tmp_path: Path, monkeypatch: Any) -> None:
    """Wherever the copy is when it is told to stop, ahead or behind: each change is applied exactly once."""
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    filled.run("CREATE TABLE pair (id int PRIMARY KEY, n int)", "INSERT INTO pair VALUES (1, 0)")
    met: list[tuple[Any, Any, Any]] = []
    real = SinkLoop._keep_anew  # to look at the moment of the swap

    def look(loop: SinkLoop, relids: Any, swaps: Any = (), copied: Any = ()) -> bool:
        if swaps:
            copy = loop._anew._copy
            assert copy is not None
            own, other = loop.facts.position, copy.facts.position
            met.append((own, other, own < other and loop._standing.reader.next(own, 1, until=other)))
        return real(loop, relids, swaps, copied)

    monkeypatch.setattr(SinkLoop, "_keep_anew", look)
    with Traffic(filled) as traffic:
        running = pipeline(filled, MemorySink(store), tmp_path)
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            for wanted in range(1, 7):
                ask(filled, tmp_path)
                wait_until(lambda wanted=wanted: len(met) >= wanted)
        finally:
            running.stop()
            thread.join()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    assert not any(between for *_, between in met)
    print(f"{compare(filled, store)} rows compared, {traffic.done} transactions, met at {met}")


class Waiting(MemorySink):
    """Its twin waits before each batch until it is let go."""

    def __init__(self, store: MemoryStore, go_on: threading.Event | None = None) -> None:
        super().__init__(store)
        self.go_on = go_on or threading.Event()
        self.waits = go_on is not None
        self.waiting = threading.Event()

    def twin(self) -> MemorySink:
        """One that waits."""
        twin = Waiting(self._store, self.go_on)
        twin.waiting = self.waiting
        return twin

    def apply(self, batch: Batch) -> None:
        """Apply, perhaps later."""
        if self.waits:
            self.waiting.set()
            assert self.go_on.wait(60)
        super().apply(batch)


def test_asked_again_while_it_is_being_copied(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy that is under way is the answer to both; another table that is asked for waits its turn."""
    cut_small(monkeypatch)
    monkeypatch.setattr(copy, "SMALL_BYTES", 1 << 30)
    store = MemoryStore()
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    spoil(store)
    ask(filled, tmp_path)
    sink = Waiting(store)
    running = pipeline(filled, sink, tmp_path)
    thread = threading.Thread(target=running.run, kwargs={"once": True})
    thread.start()
    try:
        assert sink.waiting.wait(60)
        ask(filled, tmp_path)
        ask(filled, tmp_path, "leaf1")
        _wait(lambda: len(running.loops["target"]._standing.left_alone) == 2)
        filled.run(
            "UPDATE item SET price = 5 WHERE id < 100", "UPDATE leaf1 SET id = id + 10000 WHERE id < 9"
        )
    finally:
        sink.go_on.set()
        thread.join()
    assert running.loops["target"].error is None
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    print(f"{compare(filled, store)} rows compared")
    assert not list(Requests(tmp_path / "state").open())
    assert list(store.progress) == ["main"]


def test_a_table_that_the_target_does_not_want(filled: Database, tmp_path: Path) -> None:
    """A filter keeps it away, also when it is asked for."""
    store = MemoryStore()
    only_items = {"wanted": lambda _schema, table: table == "item"}
    pipeline(filled, MemorySink(store), tmp_path, **only_items).run(once=True)
    ask(filled, tmp_path, "line")
    pipeline(filled, MemorySink(store), tmp_path, **only_items).run(once=True)
    assert list(store.tables) == ["public.item"]
    pipeline(filled, MemorySink(store), tmp_path, **only_items).run(once=True)
    assert not list(Requests(tmp_path / "state").open())


def test_a_table_that_is_not_replicated(filled: Database, tmp_path: Path) -> None:
    """It is named, with the nearest one."""
    pipeline(filled, MemorySink(MemoryStore()), tmp_path).run(once=True)
    with pytest.raises(ConfigError, match=r"public\.itme is not a table of the publication .*public\.item"):
        ask(filled, tmp_path, "itme")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["memory", "duckdb", "postgres"])
def test_tables_that_join_and_leave_a_running_pipeline(
    filled: Database, target_database: Database, tmp_path: Path, kind: str
) -> None:
    """What `init` adds is copied beside the stream, what it takes off stays as it was."""
    store, file = MemoryStore(), tmp_path / "copy.duckdb"
    sinks: dict[str, Any] = {
        "memory": lambda: MemorySink(store),
        "duckdb": lambda: DuckDBSink(file),
        "postgres": lambda: PostgresSink(target_database.url),
    }

    def chosen(*tables: str) -> InitOptions:
        return InitOptions(selection=Selection(include=tables, keyless="full"))

    init(filled.url, chosen("item", "leaf1"))
    running = Pipeline(PostgresSource(filled.url), sinks[kind](), state_dir=tmp_path / "state")
    thread = threading.Thread(target=running.run)
    with Traffic(filled) as traffic:
        thread.start()
        _wait(lambda: running.loops and running.loops["target"].is_streaming)
        filled.run(
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE joiner (id int PRIMARY KEY, mood mood DEFAULT 'ok', body text)",
            "ALTER TABLE joiner ALTER body SET STORAGE EXTERNAL",
            "INSERT INTO joiner SELECT g, 'sad', repeat('x', 9000) FROM generate_series(1, 50) g",
        )
        init(filled.url, chosen("item", "leaf2", "joiner", "line"))
        filled.run("UPDATE joiner SET mood = 'ok' WHERE id < 20", "UPDATE line SET n = n + 10")
        oids = filled.rows("SELECT oid FROM pg_class WHERE relname IN ('joiner', 'line', 'leaf2')")
        _wait(lambda: {oid for (oid,) in oids} <= running.loops["target"].copied_tables)
        threading.Event().wait(0.5)
    running.stop()
    thread.join()
    assert running.loops["target"].error is None
    assert traffic.done > 10
    Pipeline(PostgresSource(filled.url), sinks[kind](), state_dir=tmp_path / "state").run(once=True)
    compared = 0
    for table in ("item", "joiner", "line", "leaf2"):
        rows = source_rows(filled, table)
        compared += len(rows)
        if kind == "memory":
            assert sorted(store.tables[f"public.{table}"].rows, key=repr) == rows, table
        elif kind == "postgres":
            assert source_rows(target_database, table) == rows, table
        else:
            with duckdb.connect(str(file)) as conn:
                assert conn.sql(f"SELECT count(*) FROM public.{table}").fetchall() == [(len(rows),)], table
    print(f"{compared} rows compared")
    if kind == "postgres":
        assert target_database.rows("INSERT INTO joiner (id) VALUES (1000) RETURNING mood::text") == [("ok",)]


def _wait(reached: Callable[[], Any]) -> None:
    for _ in range(600):
        if reached():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it did not come")


def test_the_copy_of_a_table_is_gone(filled: Database, target_database: Database, tmp_path: Path) -> None:
    """Whoever removed it: the old rows stay until there is another, and are never replaced by nothing."""
    removed = []

    class Robbed(PostgresSink):
        def holds(self, table: Any) -> bool:
            if not removed:
                removed.append(table.name)
                target_database.run(f"DROP TABLE pgsluice.{table.name}")
            return super().holds(table)

    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    ask(filled, tmp_path)
    pipeline(filled, Robbed(target_database.url), tmp_path).run(once=True)
    assert removed
    wanted = source_rows(filled, "item")
    assert source_rows(target_database, "item") == wanted
    print(f"compared {len(wanted)} rows")


def test_two_pipelines_with_tables_of_one_number(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Copies beside tables are told apart by pipeline: sources that were set up alike have equal numbers."""
    database.run("CREATE TABLE cust (id int PRIMARY KEY)", "INSERT INTO cust SELECT generate_series(1, 300)")
    names = {"one": "tenant1", "two": "tenant2"}
    both = threading.Barrier(2, timeout=60)

    class Together(PostgresSink):
        """Waits for the other one before its table is put in place."""

        def holds(self, table: Any) -> bool:
            both.wait()
            return super().holds(table)

    def run(name: str, kind: type[PostgresSink]) -> None:
        Pipeline(
            PostgresSource(database.url, init=True),
            kind(target_database.url),
            name=name,
            state_dir=tmp_path / name,
            renames=Renames({"public": names[name]}),
        ).run(once=True)

    for name in names:
        run(name, PostgresSink)
        ask_for_copy(database.url, name, tmp_path / name, ["target"], ("public", "cust"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: run(name, Together), names))
    for schema in names.values():
        assert target_database.rows(f"SELECT count(*) FROM {schema}.cust") == [(300,)]


def test_a_column_that_came_and_went(database: Database, target_database: Database, tmp_path: Path) -> None:
    """The table is put in place as it is now, not as it was when it had most columns."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item SELECT generate_series(1, 50)")

    def run() -> None:
        pipeline(database, PostgresSink(target_database.url), tmp_path).run(once=True)

    run()
    database.run("ALTER TABLE item ADD x int", "INSERT INTO item VALUES (51, 1)")
    run()
    for each in (database, target_database):
        each.run("ALTER TABLE item DROP x")
    database.run("INSERT INTO item VALUES (52)")
    run()
    ask(database, tmp_path)
    run()
    database.run("INSERT INTO item VALUES (53)")
    run()
    assert target_database.rows("SELECT * FROM item ORDER BY 1") == [(n,) for n in range(1, 54)]


def test_a_table_that_others_refer_to_by_a_plain_role(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Foreign keys that can't be switched off see the old rows or the new ones, never none."""
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY, v text)",
        "CREATE TABLE child (id int PRIMARY KEY, pid int NOT NULL REFERENCES parent)",
        "INSERT INTO parent SELECT g, 'v' || g FROM generate_series(1, 200) g",
        "INSERT INTO child SELECT g, g FROM generate_series(1, 200) g",
    )
    target_database.run(
        "DROP ROLE IF EXISTS plain_writer",
        "CREATE ROLE plain_writer LOGIN PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{target_database.name}" TO plain_writer',
        "GRANT CREATE ON SCHEMA public TO plain_writer",
    )
    url = target_database.url_as("plain_writer", "x")
    try:
        for _ in range(2):
            pipeline(database, PostgresSink(url), tmp_path).run(once=True)
            target_database.run("UPDATE parent SET v = 'spoilt'")
            ask(database, tmp_path, "parent")
        pipeline(database, PostgresSink(url), tmp_path).run(once=True)
        for table in ("parent", "child"):
            assert source_rows(target_database, table) == source_rows(database, table)
        found = target_database.rows("SELECT conname FROM pg_constraint WHERE contype = 'f'")
        assert found == [("child_pid_fkey",)]
    finally:
        target_database.run("DROP OWNED BY plain_writer CASCADE", "DROP ROLE plain_writer")


@pytest.fixture
def plain_url(target_database: Database) -> Iterator[str]:
    """Connects to the target as a role that can't switch foreign keys off."""
    name = f"plain_{target_database.name}"
    target_database.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{target_database.name}" TO {name}',
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    yield target_database.url_as(name, "x")
    target_database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.mark.parametrize("asked", [["parent"], ["child"], ["parent", "child"]])
def test_tables_that_foreign_keys_tie_together_by_a_plain_role(
    database: Database, target_database: Database, plain_url: str, tmp_path: Path, asked: list[str]
) -> None:
    """New parents with new children come while the copy goes on, and both go: all of them are copied anew."""
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY, v text)",
        "CREATE TABLE child (id int PRIMARY KEY, pid int NOT NULL REFERENCES parent)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO parent SELECT g, 'v' || g FROM generate_series(1, 200) g",
        "INSERT INTO child SELECT g, g FROM generate_series(1, 200) g",
    )
    pipeline(database, PostgresSink(plain_url), tmp_path).run(once=True)
    for table in asked:
        ask(database, tmp_path, table)
    database.run(
        "BEGIN; INSERT INTO parent VALUES (2000, 'new'); INSERT INTO child VALUES (2000, 2000); COMMIT",
        "BEGIN; DELETE FROM child WHERE id = 1; DELETE FROM parent WHERE id = 1; COMMIT",
        "BEGIN; UPDATE child SET pid = 2000 WHERE id = 2; DELETE FROM parent WHERE id = 2; COMMIT",
        "INSERT INTO other VALUES (1)",
    )
    pipeline(database, PostgresSink(plain_url), tmp_path).run(once=True)
    for table in ("parent", "child", "other"):
        assert source_rows(target_database, table) == source_rows(database, table)
    assert not list(Requests(tmp_path / "state").open())


@pytest.mark.parametrize("on_conflict", ["update", "nothing"])
def test_rows_of_others_stay(
    database: Database, target_database: Database, tmp_path: Path, on_conflict: str
) -> None:
    """Where others may write too, a copy anew removes no rows, unless people ask for just that."""
    for each in (database, target_database):
        each.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.run("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 20) g")
    target_database.run("INSERT INTO t SELECT -g, 'of others' FROM generate_series(1, 5) g")

    def run() -> None:
        options = {"url": target_database.url, "on_conflict": on_conflict}
        pipeline(database, PostgresSink(PostgresConfig.model_validate(options)), tmp_path).run(once=True)

    def found(*, above: int) -> list[tuple]:
        return target_database.rows(f"SELECT * FROM t WHERE id > {above} ORDER BY id")

    run()
    target_database.run("UPDATE t SET v = 'spoilt' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    ask(database, tmp_path, "t")
    run()
    wanted = database.rows("SELECT * FROM t ORDER BY id")
    if on_conflict == "nothing":
        wanted[0] = (1, "spoilt")
    assert found(above=0) == wanted
    assert len(found(above=-10)) == 25
    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("public", "t"), replace=True)
    run()
    assert found(above=-10) == database.rows("SELECT * FROM t ORDER BY id")


@pytest.mark.parametrize("on_conflict", ["error", "update"])
def test_a_table_that_joins_where_others_have_rows(
    database: Database, target_database: Database, tmp_path: Path, on_conflict: str
) -> None:
    """It is refused, or its rows are added: rows that were never this pipeline's are not removed."""
    target_database.run("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (-1)")
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    options = {"url": target_database.url, "on_conflict": on_conflict}
    running = pipeline(database, PostgresSink(PostgresConfig.model_validate(options)), tmp_path)
    failed: list[Exception] = []

    def run() -> None:
        try:
            running.run()
        except TargetError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: bool(running.loops) and running.loops["target"].is_streaming)
    database.run("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (1)")
    init(database.url, InitOptions())
    if on_conflict == "error":
        wait_until(lambda: bool(failed))
        assert re.search("rows that are not from this pipeline|already exists", str(failed[0]))
        assert target_database.rows("SELECT id FROM late ORDER BY id") == [(-1,)]
    else:
        wait_until(lambda: len(target_database.rows("SELECT id FROM late")) == 2)
        assert target_database.rows("SELECT id FROM late ORDER BY id") == [(-1,), (1,)]
    running.stop()
    thread.join()


def test_two_databases_of_one_server_under_one_name(
    database: Database, target_database: Database, pg: EmbeddedPostgres, tmp_path: Path
) -> None:
    """Their positions can't be told apart, so the second pipeline of that name is refused."""
    other = create_database(pg)
    try:
        for each, table in ((database, "a"), (other, "b")):
            each.run(f"CREATE TABLE {table} (id int PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
        pipeline(database, PostgresSink(target_database.url), tmp_path / "one").run(once=True)
        with pytest.raises(WrongSystemError, match="Give this pipeline a name of its own"):
            pipeline(other, PostgresSink(target_database.url), tmp_path / "two").run(once=True)
    finally:
        drop_database(other)
    database.run("INSERT INTO a VALUES (2)")
    pipeline(database, PostgresSink(target_database.url), tmp_path / "one").run(once=True)
    assert source_rows(target_database, "a") == source_rows(database, "a")


def test_tables_that_refer_to_each_other_join_by_a_plain_role(
    database: Database, target_database: Database, plain_url: str, tmp_path: Path, capfd: Any
) -> None:
    """They are put in place together, and are not copied a second time at the next start."""
    database.run("CREATE TABLE first (id int PRIMARY KEY)")
    running = pipeline(database, PostgresSink(plain_url), tmp_path)
    thread = threading.Thread(target=running.run)
    thread.start()
    wait_until(lambda: bool(running.loops) and running.loops["target"].is_streaming)
    database.run(
        "CREATE TABLE kid (id int PRIMARY KEY, p int)",
        "CREATE TABLE par (id int PRIMARY KEY, k int)",
        "INSERT INTO par SELECT g FROM generate_series(1, 100) g",
        "INSERT INTO kid SELECT g, g FROM generate_series(1, 100) g",
        "UPDATE par SET k = id",
        "ALTER TABLE kid ADD FOREIGN KEY (p) REFERENCES par",
        "ALTER TABLE par ADD FOREIGN KEY (k) REFERENCES kid",
    )
    init(database.url, InitOptions())
    wait_until(lambda: running.loops["target"].error or len(running.loops["target"].copied_tables) == 3)
    running.stop()
    thread.join()
    database.run("BEGIN; INSERT INTO par VALUES (101); INSERT INTO kid VALUES (101, 101); COMMIT")
    capfd.readouterr()
    pipeline(database, PostgresSink(plain_url), tmp_path).run(once=True)
    assert "copying tables" not in capfd.readouterr().err
    for table in ("kid", "par"):
        assert source_rows(target_database, table) == source_rows(database, table)


def test_a_table_that_leaves_while_it_is_copied(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """What was begun for it goes; what an earlier copy has left is never taken for a later one's progress."""
    database.run(
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 100)",
    )
    sink = PostgresSink(target_database.url)
    pipeline(database, sink, tmp_path).run(once=True)
    ask(database, tmp_path, "t")

    class Stopped(PostgresSink):
        """Breaks when its table could be put in place."""

        def holds(self, table: Any) -> bool:
            raise TargetError("enough")

    def rows_of_progress() -> list[tuple]:
        return target_database.rows("SELECT pipeline FROM pgsluice.progress ORDER BY 1")

    with pytest.raises(TargetError, match="enough"):
        pipeline(database, Stopped(target_database.url), tmp_path).run(once=True)
    assert rows_of_progress() == [("main",), ("main/anew",)]
    ((stale,),) = target_database.rows("SELECT token FROM pgsluice.progress WHERE pipeline = 'main/anew'")
    init(database.url, InitOptions(selection=Selection(exclude=("public.t",), keyless="full")))
    Pipeline(PostgresSource(database.url), sink, state_dir=tmp_path / "state").run(once=True)
    assert rows_of_progress() == [("main",)]
    assert target_database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'anew%'") == []
    init(database.url, InitOptions(selection=Selection(keyless="full")))
    pipeline(database, sink, tmp_path).run(once=True)
    target_database.run(f"INSERT INTO pgsluice.progress VALUES ('main/anew', '{stale}', 1)")
    ask(database, tmp_path, "t")

    class Killed(PostgresSink):
        """Breaks right after tables were left alone, before their copy begins."""

        def forget(self, pipeline: str) -> None:
            if target_database.rows("SELECT FROM pgsluice.progress WHERE token LIKE '%anew%'"):
                raise TargetError("enough")
            super().forget(pipeline)

    with pytest.raises(TargetError, match="enough"):
        pipeline(database, Killed(target_database.url), tmp_path).run(once=True)
    database.run("INSERT INTO t VALUES (101)")
    pipeline(database, sink, tmp_path).run(once=True)
    assert source_rows(target_database, "t") == source_rows(database, "t")
