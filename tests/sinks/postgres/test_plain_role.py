"""A role that may not switch triggers off: what would act is refused, foreign keys are satisfied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import TargetError, TargetSchemaError
from pgsluice.testing.batches import UNCHANGED, Changes, table
from tests.pipeline.test_run import source_rows
from tests.sinks.postgres.test_merge import ITEMS, MANY, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

TOWN = table("public.town", {"id": "int8", "name": "text", "body": "text"}, key=["id"], version=1)
PERSON = table("public.person", {"id": "int8", "town": "int8", "boss": "int8"}, key=["id"], version=2)
SCHEMA = (
    "CREATE TABLE town (id int8 PRIMARY KEY, name text UNIQUE, body text)",
    """CREATE TABLE person (id int8 PRIMARY KEY, town int8 REFERENCES town {how},
    boss int8 REFERENCES person {how})""",
)


@pytest.fixture
def role(target_database: Database) -> Iterator[str]:
    """A role that owns what it makes, and has no other right."""
    name = f"plain_{target_database.name}"
    target_database.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {target_database.name} TO {name}",
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    yield name
    target_database.run(
        f"REVOKE SET ON PARAMETER session_replication_role FROM {name}",
        f"DROP OWNED BY {name} CASCADE",
        f"DROP ROLE {name}",
    )


@pytest.fixture
def writer(target_database: Database, role: str, tmp_path: Path) -> Iterator[Writer]:
    """A writer of that role."""
    made = Writer(target_database, tmp_path, url=target_database.url_as(role, "x"))
    yield made
    made.close()


def give_all(writer: Writer, role: str, *tables: str) -> None:
    """Let the role own tables."""
    writer.database.run(*(f"ALTER TABLE {name} OWNER TO {role}" for name in tables))


@pytest.mark.parametrize("how", ["", "DEFERRABLE"])
@pytest.mark.parametrize("count", [5, MANY])
def test_foreign_keys_are_satisfied(writer: Writer, role: str, how: str, count: int) -> None:
    """Children before parents, parents that change or go, rows that refer to each other: all in one batch."""
    writer.database.run(*(statement.format(how=how) for statement in SCHEMA))
    give_all(writer, role, "town", "person")
    first = Changes()
    for number in range(count):
        first.insert(PERSON, str(number), str(number), str((number + 1) % count))  # in a circle
    for number in range(count):
        first.insert(TOWN, str(number), f"name {number}", "large")
    writer.apply(first)
    then = Changes()
    for number in range(count):  # names change places: rows are taken out and put back under their children
        then.update(TOWN, str(number), f"name {(number + 1) % count}", UNCHANGED)
    then.update(PERSON, "1", "9999", "1")
    then.insert(TOWN, "9999", "name 1 of old", "new")
    then.delete(TOWN, "0", None, None)
    then.update(PERSON, "0", None, "0")
    writer.apply(then)
    towns = writer.database.rows("SELECT id, name, body FROM town ORDER BY id")
    assert towns == [
        *((n, f"name {(n + 1) % count}", "large") for n in range(1, count)),
        (9999, "name 1 of old", "new"),
    ]
    people = writer.database.rows("SELECT id, town, boss FROM person ORDER BY id")
    assert people == [(0, None, 0), (1, 9999, 1), *((n, n, (n + 1) % count) for n in range(2, count))]
    print(f"compared {len(towns) + len(people)} rows")
    emptied = Changes()
    emptied.truncate(TOWN, PERSON)
    emptied.insert(TOWN, "1", "again", None)
    writer.apply(emptied)
    assert writer.database.rows("SELECT id, name FROM town") == [(1, "again")]
    assert writer.database.rows("SELECT count(*) FROM person") == [(0,)]


def test_a_foreign_key_that_is_not_satisfied(writer: Writer, role: str) -> None:
    """A row whose parent is not there stops the batch, with the key's name and without a value."""
    writer.database.run(*(statement.format(how="") for statement in SCHEMA))
    give_all(writer, role, "town", "person")
    changes = Changes()
    changes.insert(PERSON, "1", "77", None)
    with pytest.raises(
        TargetSchemaError, match=r"person_town_fkey of .*public.person .*GRANT SET"
    ) as refused:
        writer.apply(changes)
    assert "77" not in str(refused.value)
    assert writer.database.rows("SELECT count(*) FROM person") == [(0,)]


@pytest.mark.parametrize(
    ("made", "named", "mended"),
    [
        (
            "CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION shout()",
            "the trigger loud of public.items .*GRANT SET ON PARAMETER session_replication_role",
            "ALTER TABLE items DISABLE TRIGGER loud",
        ),
        (
            "CREATE RULE twice AS ON INSERT TO items DO ALSO NOTIFY x",
            "the rule twice of public.items",
            "DROP RULE twice ON items",
        ),
        (
            "CREATE TABLE child (id int8 REFERENCES items ON DELETE CASCADE)",
            "the foreign key child_id_fkey of public.items",
            "DROP TABLE child",
        ),
    ],
)
def test_what_would_act_is_refused(writer: Writer, role: str, made: str, named: str, mended: str) -> None:
    """It is named with the right that is missing, and nothing is written; without it, rows are."""
    writer.database.run(
        "CREATE TABLE items (id int8 PRIMARY KEY, name text, body text)",
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.name := 'changed'; RETURN NEW; END $$",
        made,
    )
    give_all(writer, role, "items")
    changes = Changes()
    changes.insert(ITEMS, "1", "one", None)
    with pytest.raises(TargetError, match=named):
        writer.apply(changes)
    assert writer.database.rows("SELECT count(*) FROM items") == [(0,)]
    writer.database.run(mended)
    writer._batches = 0
    writer.apply(changes)
    assert writer.database.rows("SELECT id, name FROM items") == [(1, "one")]


def test_the_right_is_enough(target_database: Database, role: str, tmp_path: Path) -> None:
    """With it an ordinary role leaves triggers aside."""
    target_database.run(
        f"GRANT SET ON PARAMETER session_replication_role TO {role}",
        "CREATE TABLE items (id int8 PRIMARY KEY, name text, body text)",
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.name := 'changed'; RETURN NEW; END $$",
        "CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION shout()",
        f"ALTER TABLE items OWNER TO {role}",
    )
    writer = Writer(target_database, tmp_path, url=target_database.url_as(role, "x"))
    changes = Changes()
    changes.insert(ITEMS, "1", "one", None)
    writer.apply(changes)
    writer.close()
    assert target_database.rows("SELECT id, name FROM items") == [(1, "one")]


@pytest.mark.parametrize("how", ["", "DEFERRABLE"])
def test_a_whole_run(
    database: Database, target_database: Database, role: str, tmp_path: Path, how: str
) -> None:
    """Schema, copy and changes of tables with foreign keys, by a role that has only its own tables."""
    database.run(
        *(statement.format(how=how) for statement in SCHEMA),
        "INSERT INTO town SELECT g, 'town ' || g, repeat('x', 20) FROM generate_series(1, 200) g",
        "INSERT INTO person SELECT g, g % 200 + 1, nullif(g / 2, 0) FROM generate_series(1, 2000) g",
    )

    def run() -> None:
        sink = PostgresSink(target_database.url_as(role, "x"))
        where = PostgresSource(database.url, init=True)
        assert Pipeline(where, sink, state_dir=tmp_path / "state").run(once=True)

    run()
    database.run(
        "UPDATE town SET name = name || ' changed' WHERE id % 3 = 0",
        "BEGIN; INSERT INTO town VALUES (900, 'new'); UPDATE person SET town = 900 WHERE town < 50; "
        "DELETE FROM town WHERE id < 50; COMMIT",
        "UPDATE person SET boss = NULL WHERE boss > 900; DELETE FROM person WHERE id > 1800",
        "ALTER TABLE town ADD extra int DEFAULT 5",
        "INSERT INTO town (id, name, extra) VALUES (901, 'newer', 6)",
        "INSERT INTO person VALUES (5000, 901, 5001), (5001, 901, 5000)",
    )
    run()
    people = source_rows(database, "person")
    assert source_rows(target_database, "person") == people
    towns = "SELECT id, name, body FROM town ORDER BY id"  # without the default of a column that is new
    assert target_database.rows(towns) == database.rows(towns)
    assert target_database.rows("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == [(2,)]
    print(f"compared {len(people) + len(database.rows(towns))} rows")
