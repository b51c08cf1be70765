"""Rows that go on by a condition: the target has the source's rows that fulfil it, whatever happens."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.errors import ConfigError, UntypedValueError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from tests.modifiers.ruled import forced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.pipeline.run import Pipeline
    from tests.fix_pg import Database

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, country text, total numeric, at date, body text)"
FULL = "ALTER TABLE orders REPLICA IDENTITY FULL"
WHERE = "country = 'DE' and total > 10 and (at is null or at < date '2024-06-01') and body like '%x%'"


def pipeline(
    source: Database, target: Database, state: Path, filters: dict[str, Any], **batch: Any
) -> Pipeline:
    """A pipeline with filters."""
    config = load_config(
        None,
        {},
        {
            "source.postgres.url": source.url,
            "target": {"postgres": {"url": target.url}},
            "state_dir": str(state),
            "batch": batch,
            "modifiers": {"filter": {"tables": filters}},
        },
    )
    return build_pipeline(config, init=True)


def random_changes(seed: int, count: int) -> list[str]:
    """Statements that move rows into the condition and out of it, large texts that stay included."""
    dice = random.Random(seed)

    def value(column: str) -> str:
        return {
            "country": dice.choice(["'DE'", "'FR'", "NULL"]),
            "total": dice.choice(["10", "10.000000000000000001", "11", "9.99", "NULL"]),
            "at": dice.choice(["'2024-05-31'", "'2024-06-01'", "NULL"]),
            "body": dice.choice(
                ["'x'", "'y'", "(SELECT string_agg(md5(i::text), 'x') FROM generate_series(1, 300) i)"]
            ),
        }[column]

    columns = ["country", "total", "at", "body"]
    made = []
    for number in range(count):
        key = dice.randrange(1, 60)
        match dice.choice(["insert", "insert", "update", "update", "update", "key", "delete"]):
            case "insert":
                row = ", ".join(map(value, columns))
                made.append(f"INSERT INTO orders VALUES ({key}, {row}) ON CONFLICT DO NOTHING")
            case "update":
                some = dice.sample(columns, dice.randrange(1, 4))
                made.append(
                    f"UPDATE orders SET {', '.join(f'{c} = {value(c)}' for c in some)} WHERE id = {key}"
                )
            case "key":
                made.append(f"UPDATE orders SET id = {1000 + number} WHERE id = {key}")
            case _:
                made.append(f"DELETE FROM orders WHERE id = {key}")
    return made


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_rows_move_into_the_condition_and_out_of_it(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession, way: str
) -> None:
    """Random changes of rows that were copied and of new ones."""
    source, target = pair
    seed = random.randrange(1_000_000)
    print(f"\nseed {seed}")
    changes = random_changes(seed, 400)
    source.run(ORDERS, FULL, "CREATE TABLE other (id int PRIMARY KEY, v text)", *changes[:100])
    filters = {"public.orders": {"where": WHERE}}
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    wanted = f"SELECT * FROM orders WHERE {WHERE} ORDER BY id"
    assert target.rows("SELECT * FROM orders ORDER BY id") == source.rows(wanted)
    source.run(*changes[100:], "INSERT INTO other VALUES (1, 'as it is')")
    assert forced(pipeline(source, target, tmp_path, filters), way).run(once=True)
    found = target.rows("SELECT * FROM orders ORDER BY id")
    assert found == source.rows(wanted)
    assert target.rows("SELECT count(*) FROM other") == source.rows("SELECT count(*) FROM other")
    print(f"compared {len(found)} rows of {source.rows('SELECT count(*) FROM orders')[0][0]}")
    source.run("TRUNCATE orders")
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    assert target.rows("SELECT * FROM orders") == []


@pytest.mark.spark
def test_a_condition_over_the_key(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """Needs no more than the key, which every UPDATE and DELETE has."""
    source, target = pair
    source.run(ORDERS, "INSERT INTO orders SELECT n, 'DE', n FROM generate_series(1, 20) n")
    filters = {"public.orders": {"where": "id % 2 = 0"}}
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    source.run(
        "UPDATE orders SET country = 'FR' WHERE id < 5",
        "UPDATE orders SET id = id + 101 WHERE id > 15",
        "DELETE FROM orders WHERE id BETWEEN 8 AND 11",
    )
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    wanted = source.rows("SELECT * FROM orders WHERE id % 2 = 0 ORDER BY id")
    assert target.rows("SELECT * FROM orders ORDER BY id") == wanted
    assert len(wanted) > 5


@pytest.mark.spark
def test_operations(pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession) -> None:
    """What is left out never comes; the others go on."""
    source, target = pair
    source.run(ORDERS, "INSERT INTO orders VALUES (1, 'DE')")
    filters = {"public.orders": {"operations": ["insert", "update"]}}
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    source.run(
        "DELETE FROM orders", "INSERT INTO orders VALUES (2, 'FR')", "UPDATE orders SET country = 'IT'"
    )
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    source.run("TRUNCATE orders")
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    assert target.rows("SELECT id, country FROM orders ORDER BY id") == [(1, "DE"), (2, "IT")]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "where", "words"),
    [
        ("public.orders", "country = 'DE'", "names country, whose old values are not in the stream"),
        (
            "public.orders",
            "county = 'DE'",
            "names county, which is no column of the table; did you mean country",
        ),
        ("public.orders", "op = 'I'", "names op, which is no column of the table"),
        ("public.orders", "id = ", "can't be parsed"),
        ("public.orders", "id + 1", "does not fit the table"),
        ("public.orders", "id in (select 1)", "looks at other rows"),
        ("public.orders", "row_number() over (order by id) = 1", "looks at other rows"),
        ("public.ordrs", "id = 1", "no such table is replicated"),
    ],
)
def test_faulty_conditions_stop_at_the_start(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession, table: str, where: str, words: str
) -> None:
    """Each says what is wrong, and nothing is made."""
    source, target = pair
    source.run(ORDERS)
    with pytest.raises(ConfigError, match=words):
        pipeline(source, target, tmp_path / "state", {table: {"where": where}}).run(once=True)
    assert source.rows("SELECT FROM pg_namespace WHERE nspname = 'pgsluice'") == []


@pytest.mark.spark
def test_a_value_without_a_typed_form_stops(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """Infinity is no date of Spark: neither kept nor left out without a word."""
    source, target = pair
    source.run(ORDERS, FULL)
    filters = {"public.orders": {"where": "at > date '2024-01-01'"}}
    assert pipeline(source, target, tmp_path, filters).run(once=True)
    source.run("INSERT INTO orders (id, at) VALUES (1, 'infinity')")
    with pytest.raises(UntypedValueError, match=r"public\.orders\.at has at .* change 1"):
        pipeline(source, target, tmp_path, filters).run(once=True)
