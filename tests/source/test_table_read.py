"""Tables read as a batch, without Spark around them: every value, one point, and what can go wrong."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

import pgsluice.spark
from pgsluice.changelog.position import Lsn
from pgsluice.errors import (
    ConfigError,
    MissingRightError,
    SnapshotEndedError,
    SourceError,
    TableChangedError,
    TableRewrittenError,
    UntypedValueError,
)
from pgsluice.schema.typed import SpecialValues, typed_arrow
from pgsluice.source.scan.held import HeldSnapshot
from pgsluice.source.spark import PgsluiceDataSource
from tests.schema.type_cases import CASES, PREPARE
from tests.schema.typed_rows import by_columns, declare, pinned, texts, version_of
from tests.source.streaming import capturing, wait_until
from tests.source.table_reading import plan_table, read_table, read_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.fix_pg import Database

ORDERS = """
    CREATE TABLE orders (id int8 PRIMARY KEY, total numeric(10, 2), day date, note text,
                         twice numeric GENERATED ALWAYS AS (total * 2) STORED)"""
FILL = """
    INSERT INTO orders (id, total, day, note)
    SELECT i, i / 7.0, date '2024-01-01' + i % 400, CASE WHEN i % 3 > 0 THEN E'tab\\t\\\\ ' || i END
    FROM generate_series(1, 5000) i"""


@pytest.fixture
def orders(database: Database) -> Database:
    """A table with rows."""
    database.run(ORDERS, FILL)
    return database


def plain(database: Database, table: str = "orders", **options: str) -> dict[str, str]:
    """The options of a read of now."""
    return {"url": database.url, "table": table, "columns": "*", **options}


def as_rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of some columns, sorted."""
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


def in_database(database: Database, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, sorted."""
    return sorted(database.rows(query), key=repr)


@pytest.mark.both_versions
@pytest.mark.parametrize("held", [False, True])
def test_every_type_is_what_the_stream_makes_of_it(database: Database, held: bool):
    """All values of docs/types.md have the form, and the marks, that a row of the stream has."""
    database.run(*PREPARE)
    names = [case.type for case in CASES]
    with pinned(database.url) as conn:
        version = version_of(declare(conn, names), names)
        columns = [texts(conn, case.type, case.values) for case in CASES]
        make_table(conn, columns)
        special = SpecialValues()
        expected = typed_arrow(by_columns(columns), version, special)
        with pgsluice.spark.snapshot(database.url) as point:
            options = plain(database, "cases") | (point.options if held else {})
            found = read_table(options).sort_by("n").drop_columns(["n"])
            alone = [one_column(options, name) for name in names]
    assert found.column_names == [*names, "_untyped"]
    compared = 0
    for name in found.column_names:
        assert found.schema.field(name).type == expected.schema.field(name).type
        values = list(map(repr, found[name].to_pylist()))
        assert values == list(map(repr, expected[name].to_pylist())), name
        compared += len(values)
    untyped = expected["_untyped"].to_pylist()
    for name, (column, marks, _) in zip(names, alone, strict=True):
        assert column.type == expected.schema.field(name).type
        assert list(map(repr, column.to_pylist())) == list(map(repr, expected[name].to_pylist())), name
        wanted = [dict(row or ()).get(name) for row in untyped]
        assert marks in (wanted, None), name
        assert marks is not None or not any(wanted), name
        compared += len(column)
    by_binary = {name for name, (_, _, binary) in zip(names, alone, strict=True) if binary}
    assert by_binary >= {
        "bool",
        "int8",
        "numeric(12,2)",
        "timestamptz",
        "uuid",
        "jsonb",
        "kinds.mood",
        "bytea",
    }
    print(f"compared {compared} values of {len(names)} types; {len(by_binary)} types in the binary format")


def one_column(options: dict[str, str], name: str) -> tuple[Any, list[str | None] | None, bool]:
    """A column read without the others: its values, the texts of its misfits, and if binary served."""
    quoted = name.replace('"', '""')
    options = options | {"columns": f'n, "{quoted}"'}
    tasks = plan_table(options)
    found = read_tasks(tasks, options).sort_by("n")
    marks = None
    if "_untyped" in found.column_names:
        marks = [dict(row or ()).get(name) for row in found["_untyped"].to_pylist()]
    return found[name], marks, tasks[0].binary


def make_table(conn: Any, columns: Sequence[Sequence[str | None]]) -> None:
    """A table with the values of all cases side by side, the short columns filled up with NULL."""
    declared = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(case.type), sql.SQL(case.type)) for case in CASES
    )
    conn.execute(sql.SQL("CREATE TABLE public.cases (n int4, {})").format(declared))
    for n in range(max(map(len, columns))):
        values = [column[n] if n < len(column) else None for column in columns]
        literals = sql.SQL(", ").join(map(sql.Literal, values))
        conn.execute(sql.SQL("INSERT INTO public.cases VALUES ({}, {})").format(n, literals))


@pytest.mark.both_versions
def test_a_read_without_a_snapshot_is_one_task(orders: Database):
    """All rows with all columns, generated ones too; nothing has to be prepared on the database."""
    tasks = plan_table(plain(orders))
    found = read_tasks(tasks, plain(orders))
    assert len(tasks) == 1
    assert found.column_names == ["id", "total", "day", "note", "twice", "_untyped"]
    rows = as_rows(found, "id", "total", "day", "note", "twice")
    assert rows == in_database(orders, "SELECT id, total, day, note, twice::text FROM orders")
    print(f"compared {len(rows)} rows")


@pytest.mark.both_versions
def test_a_read_in_a_snapshot_is_in_ranges_of_one_point(orders: Database):
    """Each task has a part of the rows, together every row once, and later changes are in none."""
    expected = in_database(orders, "SELECT id, total, day, note FROM orders")
    with pgsluice.spark.snapshot(orders.url) as point:
        options = plain(orders, partitions="7") | point.options
        tasks = plan_table(options)
        orders.run(
            "DELETE FROM orders WHERE id % 5 = 0",
            "UPDATE orders SET note = 'later', id = id + 100000 WHERE id % 7 = 0",
            "INSERT INTO orders (id) SELECT generate_series(200000, 201000)",
        )
        parts = [read_tasks([task], options) for task in tasks]
        again = read_tasks(tasks, options)
    assert [part.num_rows > 0 for part in parts] == [True] * 7
    assert as_rows(pa.concat_tables(parts), "id", "total", "day", "note") == expected
    assert as_rows(again, "id", "total", "day", "note") == expected
    print(f"compared {2 * len(expected)} rows in {len(tasks)} tasks")


def test_several_tables_are_seen_at_one_point(database: Database):
    """What is moved between two tables meanwhile is counted once, however often they are read."""
    database.run(
        "CREATE TABLE a (n int)", "CREATE TABLE b (n int)", "INSERT INTO a SELECT generate_series(1, 1000)"
    )
    sums = []
    with pgsluice.spark.snapshot(database.url) as point, database.connect() as conn:
        for _ in range(5):
            for table in ("a", "b"):
                found = read_table(plain(database, table) | point.options)
                sums.append((table, found.num_rows, sum(found["n"].to_pylist()) if found.num_rows else 0))
                with conn.transaction():
                    conn.execute("WITH gone AS (DELETE FROM a WHERE n % 10 < 3 RETURNING n)"
                                 " INSERT INTO b SELECT n FROM gone")  # fmt: skip
                    conn.execute("UPDATE b SET n = n + 1")
    assert sums == [("a", 1000, 500500), ("b", 0, 0)] * 5


@pytest.mark.both_versions
def test_tables_of_every_shape(database: Database):
    """Partitions, inheritance, no columns, no rows, odd names, dropped columns: each with its own rows."""
    database.run(
        "CREATE TABLE root (id int, day date, v text) PARTITION BY RANGE (day)",
        "CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM ('2026-01-01') TO ('2026-07-01')",
        # Other numbers of the columns than the root has.
        "CREATE TABLE leaf2 (v text, gone int, day date, id int)",
        "ALTER TABLE leaf2 DROP gone",
        "ALTER TABLE root ATTACH PARTITION leaf2 FOR VALUES FROM ('2026-07-01') TO ('2027-01-01')",
        "CREATE TABLE sub PARTITION OF root DEFAULT PARTITION BY LIST (id)",
        "CREATE TABLE sub_rest PARTITION OF sub DEFAULT",
        "INSERT INTO root SELECT g, date '2025-06-01' + g, 'v' || g FROM generate_series(1, 900) g",
        "CREATE TABLE parent (id int, v text)",
        "CREATE TABLE child (extra int) INHERITS (parent)",
        "INSERT INTO parent VALUES (1, 'p')",
        "INSERT INTO child VALUES (2, 'c', 3)",
        "CREATE TABLE bare ()",
        "INSERT INTO bare SELECT FROM generate_series(1, 2500)",
        "CREATE TABLE nothing (id int)",
        "CREATE TABLE nowhere (id int) PARTITION BY LIST (id)",
        'CREATE SCHEMA "Odd.näme"',
        'CREATE TABLE "Odd.näme"."a ""b"" %s" ("select" int, "a,b" text, "%s ""q""" text)',
        """INSERT INTO "Odd.näme"."a ""b"" %s" VALUES (1, 'x', 'y'), (2, NULL, '')""",
    )
    odd = '"Odd.näme"."a ""b"" %s"'
    with pgsluice.spark.snapshot(database.url) as point:
        for held in ({}, point.options):
            shapes = {
                name: read_table(plain(database, name) | held)
                for name in ("root", "parent", "child", "bare", "nothing", "nowhere", odd)
            }
            assert as_rows(shapes["root"], "id", "day", "v") == in_database(database, "TABLE root")
            assert as_rows(shapes["parent"], "id", "v") == [(1, "p")]
            assert as_rows(shapes["child"], "id", "v", "extra") == [(2, "c", 3)]
            assert (shapes["bare"].num_rows, shapes["bare"].num_columns) == (2500, 0)
            assert (shapes["nothing"].num_rows, shapes["nowhere"].num_rows) == (0, 0)
            assert as_rows(shapes[odd], "select", "a,b", '%s "q"') == [(1, "x", "y"), (2, None, "")]
            chosen = read_table(plain(database, odd, columns='"%s ""q""", select') | held)
            assert as_rows(chosen, "select", '%s "q"') == [(1, "y"), (2, "")]


def test_only_chosen_columns_travel(orders: Database):
    """The others are not even asked for; a name that is not there is an error with the nearest."""
    found = read_table(plain(orders, columns="note, id"))
    assert found.column_names == ["note", "id"]
    orders.run("CREATE ROLE only_id LOGIN PASSWORD 'x'", "GRANT SELECT (id) ON orders TO only_id")
    try:
        mine = plain(orders, columns="id") | {"url": orders.url_as("only_id", "x")}
        assert read_table(mine).num_rows == 5000
        with pytest.raises(MissingRightError, match="permission denied"):
            read_table(mine | {"columns": "id, note"})
    finally:
        orders.run("DROP OWNED BY only_id", "DROP ROLE only_id")
    with pytest.raises(ConfigError, match=r"public\.orders has no column totl, did you mean total\?"):
        plan_table(plain(orders, columns="id, totl"))
    with pytest.raises(ConfigError, match="is not a list of names"):
        plan_table(plain(orders, columns="id total"))


@pytest.mark.both_versions
def test_only_chosen_rows_travel(orders: Database):
    """A condition is the server's to judge, in a read of now and in every range of a snapshot."""
    where = "id % 10 = 3 AND note IS NOT NULL -- and a remark"
    expected = in_database(orders, f"SELECT id, note FROM orders WHERE {where}")
    with pgsluice.spark.snapshot(orders.url) as point:
        for held in ({}, point.options):
            found = read_table(plain(orders, columns="id, note", where=where, partitions="3") | held)
            assert as_rows(found, "id", "note") == expected
    print(f"compared {2 * len(expected)} rows")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("idd = 1", 'column "idd" does not exist'),
        ("id =", "syntax error"),
        ("true) TO PROGRAM 'true'; --", "syntax error"),
        ("true); DROP TABLE orders; SELECT (true", "cannot insert multiple commands"),
        ("id", "must be type boolean"),
    ],
)
def test_what_is_no_condition_is_refused(orders: Database, where: str, said: str):
    """When the table is loaded, in the server's words; nothing else can be said by it."""
    with pytest.raises(ConfigError, match=rf"where is no condition on public\.orders: .*{said}"):
        PgsluiceDataSource(plain(orders, where=where)).schema()
    assert orders.rows("SELECT count(*) FROM orders") == [(5000,)]


def test_a_schema_of_ones_own_chooses_columns_too(orders: Database):
    """With the types that they have; another type is an error, never a cast."""
    from pyspark.sql import types as t

    own = t.StructType([t.StructField("total", t.DecimalType(10, 2)), t.StructField("id", t.LongType())])
    (task,) = plan_table(plain(orders), schema=own)
    found = read_tasks([task], plain(orders))
    assert as_rows(found, "id", "total") == in_database(orders, "SELECT id, total FROM orders")
    for wrong, said in [
        (t.StructField("id", t.StringType()), r"the column id as bigint \(bigint\), not as string"),
        (t.StructField("idd", t.LongType()), "has no column idd"),
    ]:
        with pytest.raises(TableChangedError, match=said):
            plan_table(plain(orders), schema=t.StructType([wrong]))


def test_the_columns_of_a_stream(database: Database, tmp_path: Path):
    """Without an option that only a batch has, rows look like those of the stream, as copied ones do."""
    with capturing(database, tmp_path / "state", ORDERS) as captured:
        database.run("INSERT INTO orders VALUES (1, 'NaN', '2024-02-29', 'x')")
        options = captured.with_options(table="orders")
        stream = PgsluiceDataSource(options)
        columns = stream.schema()
        assert stream.streamReader(columns) is not None
        with pgsluice.spark.snapshot(database.url) as point:
            now, then = [
                read_tasks(plan_table(given, schema=columns), options).to_pylist()[0]
                for given in (options, options | point.options)
            ]
    assert list(now) == columns.fieldNames()
    assert {name: now[name] for name in ("_op", "_lsn", "_seq", "_unchanged", "_old", "_untyped")} == {
        "_op": "S", "_lsn": None, "_seq": 1, "_unchanged": [], "_old": None, "_untyped": [("total", "NaN")],
    }  # fmt: skip
    assert str(Lsn(then["_lsn"])) == point.lsn
    assert then["_ts"] is not None


def test_what_is_not_published_can_be_read_and_not_streamed(orders: Database, tmp_path: Path):
    """Spark learns the columns before it says which it is; the stream is refused when it is asked for."""
    options = {"url": orders.url, "table": "orders", "stateDir": str(tmp_path)}
    source = PgsluiceDataSource(options)
    columns = source.schema()
    assert columns.fieldNames()[:3] == ["id", "total", "day"]
    assert read_table(options).num_rows == 5000
    with pytest.raises(ConfigError, match=r"has no table public\.orders, .* pgsluice init"):
        source.streamReader(columns)
    for option in ({"columns": "*"}, {"snapshot": "x"}, {"where": "true"}):
        with pytest.raises(ConfigError, match="are for tables that are read as a batch"):
            PgsluiceDataSource(options | option).streamReader(columns)
    for given, said in [
        ({"table": "nothing"}, r"there is no table public\.nothing"),
        ({"table": "orders_pkey"}, r"public\.orders_pkey is no table but an index"),
        ({"snapshot": "x"}, "names no snapshot"),
    ]:
        with pytest.raises(ConfigError, match=said):
            read_table(options | given)
    with pytest.raises(ConfigError, match="by the options url and table"):
        plan_table({"url": orders.url, "stateDir": str(tmp_path)})
    with pytest.raises(ConfigError, match="by the options url and table"):
        plan_table({"log": str(tmp_path), "table": "orders", "columns": "*"})


def test_special_values_follow_the_options(database: Database):
    """As in the stream; a column for their texts is there only where one could be needed."""
    database.run("CREATE TABLE odd (day date, n int)", "INSERT INTO odd VALUES ('infinity', 1), (NULL, 2)")
    found = {
        choice: read_table(plain(database, "odd", specialDates=choice)).to_pydict()
        for choice in ("null", "clamp", "string")
    }
    last = dt.date(9999, 12, 31)
    marks = [[("day", "infinity")], None]
    assert found == {
        "null": {"day": [None, None], "n": [1, 2], "_untyped": marks},
        "clamp": {"day": [last, None], "n": [1, 2], "_untyped": marks},
        "string": {"day": ["infinity", None], "n": [1, 2]},
    }
    assert "_untyped" not in read_table(plain(database, "odd", columns="n")).column_names
    with pytest.raises(UntypedValueError, match=r"public\.odd\.day has a value that has no place in date32"):
        read_table(plain(database, "odd", specialDates="stop"))


def test_a_snapshot_that_has_ended(orders: Database):
    """Reading goes on for as long as it is held; afterwards planning and tasks say so in one line."""
    with pgsluice.spark.snapshot(orders.url) as point:
        options = plain(orders) | point.options
        tasks = plan_table(options)
        assert read_tasks(tasks, options).num_rows == 5000
    said = rf"the snapshot of .* UTC at {point.lsn} has ended\. Run every action inside the block"
    reader = PgsluiceDataSource(options).reader(None)  # type: ignore[arg-type]
    with pytest.raises(SnapshotEndedError, match=said):
        list(reader.read(tasks[0]))
    with pytest.raises(SnapshotEndedError, match=said):
        plan_table(options)
    mine = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert orders.rows(mine) == []


def test_a_snapshot_of_the_same_name_is_not_taken_for_it(orders: Database):
    """A server that was started again gives names away again: what the snapshot sees has to agree."""
    with pgsluice.spark.snapshot(orders.url) as point:
        orders.run("INSERT INTO orders (id) VALUES (-1)")
        with pgsluice.spark.snapshot(orders.url) as later:
            first, second = (HeldSnapshot.decode(each.token) for each in (point, later))
            forged = replace(first, name=second.name).encode()
            with pytest.raises(SnapshotEndedError):
                plan_table(plain(orders, snapshot=forged))


def test_an_error_in_the_block_is_left_as_it_is(orders: Database):
    """What fails inside has nothing to do with the snapshot, also when its connection is gone by then."""
    end = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'pgsluice snapshot'"
    )

    def block() -> None:
        with pgsluice.spark.snapshot(orders.url):
            assert set(orders.rows(end)) == {(True,)}  # one of before may be on its way out
            orders.rows("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        block()


@pytest.mark.both_versions
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("TRUNCATE orders", TableRewrittenError),
        ("VACUUM FULL orders", TableRewrittenError),
        ("ALTER TABLE orders ALTER id TYPE numeric", TableRewrittenError),
        ("DROP TABLE orders", TableRewrittenError),
        ("ALTER TABLE orders RENAME TO others", TableRewrittenError),
        ("ALTER TABLE orders DROP note", TableChangedError),
        ("ALTER TABLE orders RENAME note TO remark", TableChangedError),
    ],
)
@pytest.mark.parametrize("planned", [False, True])
def test_a_table_that_is_changed_after_the_point(
    orders: Database, statement: str, error: type[SourceError], planned: bool
):
    """Before or after the read is planned: an error, never a row too few."""
    with pgsluice.spark.snapshot(orders.url) as point:
        options = plain(orders) | point.options
        tasks = plan_table(options) if planned else []
        orders.run(statement)
        with pytest.raises(error, match=r"public\.orders"):
            read_tasks(tasks or plan_table(options), options)


def test_columns_that_change_their_names(orders: Database):
    """Two columns swap names: no rewrite and no missing name, and still no value under the wrong one."""
    orders.run("ALTER TABLE orders ADD other text DEFAULT 'other'")
    with pgsluice.spark.snapshot(orders.url) as point:
        given = (plain(orders), plain(orders) | point.options)
        planned = [plan_table(options) for options in given]
        orders.run(
            "ALTER TABLE orders RENAME note TO third",
            "ALTER TABLE orders RENAME other TO note",
            "ALTER TABLE orders RENAME third TO other",
        )
        for options, tasks in zip(given, planned, strict=True):
            with pytest.raises(TableChangedError, match=r"columns of public\.orders were changed"):
                read_tasks(tasks, options)


def test_partitions_come_and_go(database: Database):
    """One that was detached after the point still belongs to it; one that was attached does not."""
    database.run(
        "CREATE TABLE root (id int) PARTITION BY LIST (id)",
        "CREATE TABLE one PARTITION OF root FOR VALUES IN (1)",
        "CREATE TABLE two PARTITION OF root FOR VALUES IN (2)",
        "CREATE TABLE three (id int)",
        "INSERT INTO root SELECT 1 + g % 2 FROM generate_series(1, 100) g",
        "INSERT INTO three VALUES (3)",
    )
    with pgsluice.spark.snapshot(database.url) as point:
        database.run(
            "ALTER TABLE root DETACH PARTITION two",
            "ALTER TABLE root ATTACH PARTITION three FOR VALUES IN (3)",
        )
        found = read_table(plain(database, "root") | point.options)
        assert as_rows(found, "id") == [(1,)] * 50 + [(2,)] * 50
        assert as_rows(read_table(plain(database, "root")), "id") == [(1,)] * 50 + [(3,)]


def test_a_foreign_partition_has_no_place_in_a_snapshot(database: Database):
    """It is an error there; a read of now has its rows."""
    database.run(
        "CREATE TABLE root (id int) PARTITION BY LIST (id)",
        "CREATE FOREIGN DATA WRAPPER nowhere",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere",
        "CREATE FOREIGN TABLE far PARTITION OF root FOR VALUES IN (1) SERVER nowhere",
    )
    with (
        pgsluice.spark.snapshot(database.url) as point,
        pytest.raises(SourceError, match=r"public\.far, a partition of public\.root, is a foreign table"),
    ):
        plan_table(plain(database, "root") | point.options)


def test_small_partitions_share_a_task(database: Database):
    """A connection for each of a hundred small partitions would cost more than their rows."""
    database.run("CREATE TABLE root (id int) PARTITION BY LIST (id)")
    database.run(*(f"CREATE TABLE leaf{n} PARTITION OF root FOR VALUES IN ({n})" for n in range(100)))
    database.run("INSERT INTO root SELECT g % 100 FROM generate_series(1, 1000) g")
    with pgsluice.spark.snapshot(database.url) as point:
        options = plain(database, "root") | point.options
        tasks = plan_table(options)
        rows = as_rows(read_tasks(tasks, options), "id")
        assert len(plan_table(options | {"partitions": "3"})) == 3
    assert len(tasks) == 1
    assert rows == in_database(database, "TABLE root")


def test_a_reader_that_stops_early_leaves_nothing_behind(orders: Database):
    """A LIMIT ends a task in the middle of an answer: its connection goes at once."""
    orders.run(
        "INSERT INTO orders (id, note) SELECT i, repeat('x', 1000) FROM generate_series(10000, 60000) i"
    )
    reader = PgsluiceDataSource(plain(orders)).reader(None)  # type: ignore[arg-type]
    rows = reader.read(plan_table(plain(orders))[0])
    assert next(rows).num_rows > 0
    rows.close()  # type: ignore[attr-defined]
    left = (
        "SELECT FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'pgsluice read'"
    )
    wait_until(lambda: orders.rows(left) == [])


def test_no_secret_is_shown(orders: Database):
    """The URL is in the text of neither a task nor a snapshot."""
    with pgsluice.spark.snapshot(orders.url) as point:
        (task,) = plan_table(plain(orders))
        assert orders.url not in repr(point) + repr(task)
