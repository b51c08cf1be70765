"""A small shop with customers who never sleep: the schema and the traffic of the demo."""

from __future__ import annotations

import random
import threading
from typing import Any, Final

import psycopg

SCHEMA: Final = """
CREATE TYPE order_state AS ENUM ('new', 'paid', 'shipped', 'returned');
CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    email text NOT NULL UNIQUE,
    joined timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE product (
    sku text PRIMARY KEY,
    title text NOT NULL,
    price numeric(10, 2) NOT NULL,
    stock int NOT NULL,
    manual text  -- long enough to be stored out of line: unchanged in most updates
);
CREATE TABLE purchase (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer bigint NOT NULL REFERENCES customer,
    state order_state NOT NULL DEFAULT 'new',
    total numeric(12, 2) NOT NULL DEFAULT 0,
    placed timestamptz NOT NULL DEFAULT now(),
    note jsonb
);
CREATE TABLE purchase_line (
    purchase bigint REFERENCES purchase ON DELETE CASCADE,
    line int,
    sku text NOT NULL REFERENCES product ON UPDATE CASCADE,
    quantity int NOT NULL,
    PRIMARY KEY (purchase, line)
);
CREATE TABLE visit (at timestamptz NOT NULL DEFAULT clock_timestamp(), page text);
ALTER TABLE visit REPLICA IDENTITY FULL;
"""

TABLES: Final = ("customer", "product", "purchase", "purchase_line", "visit")

_FIRST = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Radia", "Ken", "Frances", "Tony", "Margaret")
_LAST = (
    "Lovelace",
    "Hopper",
    "Dijkstra",
    "Liskov",
    "Knuth",
    "Perlman",
    "Thompson",
    "Allen",
    "Hoare",
    "Hamilton",
)
_THINGS = ("lamp", "kettle", "chair", "clock", "desk", "radio", "rug", "shelf", "mug", "plant")


class ShopTraffic(threading.Thread):
    """Transactions of every kind against the shop, until stopped."""

    def __init__(self, url: str, seed: int, *, fill: bool = True, pause: float = 0.002) -> None:
        super().__init__(name="shop-traffic", daemon=True)
        self._url = url
        self._fill = fill  # begin with customers and products
        self._pause = pause  # seconds, after each transaction
        self._random = random.Random(seed)  # noqa: S311 - a shop, not a secret
        self._stopping = threading.Event()
        self.transactions = 0
        self.error: BaseException | None = None

    def stop(self) -> None:
        """End after the running transaction."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Buy, change, return, rename and clean up."""
        acts = [self._buy] * 12 + [self._move_on] * 8 + [self._visit] * 6 + [self._reprice] * 3
        acts += [self._give_back, self._rename_product, self._forget_visits, self._change_mind]
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                if self._fill:
                    _fill(connection, self._random)
                while not self._stopping.is_set():
                    with connection.transaction():
                        self._random.choice(acts)(connection)
                    self.transactions += 1
                    self._stopping.wait(self._pause)
        except psycopg.Error as exc:
            self.error = exc

    def _buy(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(
            "INSERT INTO purchase (customer, note) SELECT id, jsonb_build_object('gift', %s::bool)"
            " FROM customer ORDER BY random() LIMIT 1 RETURNING id",
            (self._random.random() < 0.2,),
        ).fetchone()
        assert row is not None
        connection.execute(
            "INSERT INTO purchase_line SELECT %s, row_number() OVER (), sku, 1 + (random() * 3)::int"
            " FROM (SELECT sku FROM product ORDER BY random() LIMIT %s) p",
            (row[0], self._random.randint(1, 4)),
        )
        connection.execute(
            "UPDATE purchase SET total = (SELECT sum(quantity * price) FROM purchase_line"
            " JOIN product USING (sku) WHERE purchase = purchase.id) WHERE id = %s",
            (row[0],),
        )

    def _move_on(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "UPDATE purchase SET state = CASE state WHEN 'new' THEN 'paid'::order_state ELSE 'shipped' END"
            " WHERE id IN (SELECT id FROM purchase WHERE state <> 'shipped' ORDER BY random() LIMIT 3)"
        )

    def _visit(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "INSERT INTO visit (page) SELECT '/' || sku FROM product ORDER BY random() LIMIT 5"
        )

    def _reprice(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "UPDATE product SET price = round(price * (0.9 + random() * 0.2)::numeric, 2), stock = stock - 1"
        )

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "DELETE FROM purchase WHERE id IN (SELECT id FROM purchase ORDER BY random() LIMIT 2)"
        )

    def _rename_product(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "UPDATE product SET sku = split_part(sku, '/', 1) || '/' || %s"
            " WHERE sku = (SELECT sku FROM product ORDER BY random() LIMIT 1)",
            (self._random.randrange(10**9),),
        )

    def _forget_visits(self, connection: psycopg.Connection[Any]) -> None:
        if self._random.random() < 0.2:
            connection.execute("TRUNCATE visit")
        else:
            connection.execute("DELETE FROM visit WHERE random() < 0.3")

    def _change_mind(self, connection: psycopg.Connection[Any]) -> None:
        """A part of the transaction is rolled back and must not arrive."""
        with connection.transaction(force_rollback=True):
            connection.execute("DELETE FROM purchase")
        connection.execute("UPDATE customer SET name = name || '' WHERE random() < 0.05")


def _fill(connection: psycopg.Connection[Any], rng: random.Random) -> None:
    with connection.transaction():
        connection.execute(
            "INSERT INTO customer (name, email)"
            " SELECT name, lower(replace(name, ' ', '.')) || n || '@example.com'"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS people (name, n)",
            ([f"{rng.choice(_FIRST)} {rng.choice(_LAST)}" for _ in range(200)],),
        )
        connection.execute(
            "INSERT INTO product SELECT title || '-' || n, title, n + 0.99, 1000,"
            " (SELECT string_agg(md5(title || i), ' ') FROM generate_series(1, 200) i)"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS things (title, n)",
            ([rng.choice(_THINGS) for _ in range(60)],),
        )
