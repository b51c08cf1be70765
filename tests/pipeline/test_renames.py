"""Tables that have other names in the target: their schema, their rows, and what comes afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice import DuckDBSink, Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import ConfigError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from pgsluice.schema.renames import Renames
from pgsluice.sinks.postgres import PostgresConfig
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

CHANGES = (
    "INSERT INTO orders (item, mood) VALUES (1, 'sad')",
    "UPDATE item SET name = 'changed' WHERE id = 2",
    "DELETE FROM other.note WHERE id = 1",
)
NAMES = {"orders": "sales.orders", "item": "shop.item", "other.note": "other.note"}


@pytest.fixture
def shop(database: Database) -> Database:
    """Tables that refer to each other, types, sequences and a view."""
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE item (id int PRIMARY KEY, name text UNIQUE)",
        "CREATE TABLE orders (id serial PRIMARY KEY, item int REFERENCES item, mood mood DEFAULT 'ok')",
        "CREATE INDEX orders_item ON orders (item)",
        "CREATE VIEW sold AS SELECT i.name, count(*) AS n FROM orders o "
        "JOIN item i ON i.id = o.item GROUP BY 1",
        "CREATE SCHEMA other",
        "CREATE TABLE other.note (id int PRIMARY KEY, t text)",
        "INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 40) g",
        "INSERT INTO orders (item) SELECT g % 40 + 1 FROM generate_series(1, 300) g",
        "INSERT INTO other.note VALUES (1, 'a'), (2, 'b')",
    )
    return database


def test_into_another_postgres(shop: Database, target_database: Database, tmp_path: Path) -> None:
    """Everything that belongs to a table goes with it, and views and foreign keys find it."""
    config = tmp_path / "pipeline.yaml"
    config.write_text(
        f"""
        state_dir: {tmp_path / "state"}
        source: {{postgres: {{url: "{shop.url}"}}}}
        target:
          postgres:
            url: "{target_database.url}"
            schema_map: {{public: shop}}
            tables:
              orders: {{target: sales.orders}}
        """
    )
    for _ in range(2):
        build_pipeline(load_config(config, {}, {}), init=True).run(once=True)
        compared = 0
        for source, target in NAMES.items():
            rows = source_rows(shop, source)
            assert source_rows(target_database, target) == rows, target
            compared += len(rows)
        assert compared > 330
        shop.run(*CHANGES)
    print(f"{compared} rows compared")
    target_database.run("UPDATE shop.item SET id = id WHERE id = 1")
    assert target_database.rows("SELECT count(*) FROM shop.sold") == [(40,)]
    assert target_database.rows("SELECT indexdef FROM pg_indexes WHERE indexname = 'orders_item'") == [
        ("CREATE INDEX orders_item ON sales.orders USING btree (item)",)
    ]
    assert target_database.rows(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
    ) == [("sales.orders", "shop.item")]
    assert target_database.rows(
        "SELECT last_value, pg_get_serial_sequence('sales.orders', 'id') FROM sales.orders_id_seq"
    ) == [(301, "sales.orders_id_seq")]
    assert target_database.rows("SELECT to_regclass('public.item'), to_regtype('shop.mood')::text") == [
        (None, "shop.mood")
    ]


def test_into_duckdb(shop: Database, tmp_path: Path) -> None:
    """The same names in a file."""
    file = tmp_path / "target.duckdb"
    pipeline = Pipeline(
        PostgresSource(shop.url, init=True),
        DuckDBSink(file),
        state_dir=tmp_path / "state",
        renames=Renames.parse({"public": "shop"}, {"orders": "sales.orders"}),
    )
    pipeline.run(once=True)
    with duckdb.connect(str(file)) as conn:
        for source, target in NAMES.items():
            (count,) = shop.rows(f"SELECT count(*) FROM {source}")[0]
            assert conn.sql(f"SELECT count(*) FROM {target}").fetchall() == [(count,)]


def test_two_tables_under_one_name(shop: Database, target_database: Database, tmp_path: Path) -> None:
    """Nothing is made; both are named."""
    shop.run("CREATE TABLE other.item (id int PRIMARY KEY)")
    pipeline = Pipeline(
        PostgresSource(shop.url, init=True),
        PostgresSink(PostgresConfig(url=target_database.url)),
        state_dir=tmp_path / "state",
        renames=Renames.parse({"other": "public"}, {}),
    )
    with pytest.raises(ConfigError, match=r"would both be public\.item"):
        pipeline.run(once=True)
    assert target_database.rows("SELECT to_regclass('public.item')") == [(None,)]
