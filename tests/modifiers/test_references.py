"""Rules that go with foreign keys, and keys that must be changed as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.errors import ConfigError
from pgsluice.pipeline.build import build_source
from pgsluice.pipeline.modify import find_problems
from pgsluice.pipeline.resync import ask_for_copy
from pgsluice.pipeline.verify.verify import verify
from tests.modifiers.ruled import Ruled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

SHOP = (
    """CREATE TABLE people (login text PRIMARY KEY, boss text REFERENCES people, zone text, no int,
       UNIQUE (zone, no))""",
    """CREATE TABLE orders (id int PRIMARY KEY, who text NOT NULL REFERENCES people, zone text, no int,
       FOREIGN KEY (zone, no) REFERENCES people (zone, no))""",
    "CREATE TABLE lines (id int PRIMARY KEY, who text UNIQUE REFERENCES people)",
    "CREATE TABLE notes (id int PRIMARY KEY, line text REFERENCES lines (who))",
    "INSERT INTO people VALUES ('canary1', NULL, 'canary a', 1), ('canary2', 'canary1', 'canary b', 2)",
    "INSERT INTO orders VALUES (1, 'canary1', 'canary b', 2), (2, 'canary2', NULL, NULL)",
    "INSERT INTO lines VALUES (1, 'canary2')",
    "INSERT INTO notes VALUES (1, 'canary2')",
)
KEYS = (
    "SELECT conrelid::regclass::text, conname FROM pg_constraint"
    " WHERE contype = 'f' AND connamespace = 'public'::regnamespace ORDER BY 1, 2"
)


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path, spark: SparkSession) -> Ruled:
    """Before its first run."""
    made = Ruled(database, target_database, tmp_path)
    made.targets = ["postgres", "duckdb"]
    return made


def require_keys(run: Ruled, count: int) -> None:
    """The target has all foreign keys of the source, and its rows obey them."""
    keys = run.target.rows(KEYS)
    assert keys == run.source.rows(KEYS)
    assert len(keys) == count
    for table, name in keys:
        (definition,) = run.target.rows(
            f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '{name}'"
        )
        run.target.run(
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
            f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition[0]}",
        )


def test_rules_follow(run: Ruled) -> None:
    """From key to key, by place in a key of several columns, to itself, and to tables that come later."""
    run.rule("people", login={"name": "hash", "references": "follow"}, zone="hash")
    run.modifiers["transformations"]["references"] = "follow"
    run.once(*SHOP)
    require_keys(run, 5)
    run.once(
        "INSERT INTO people VALUES ('canary3', 'canary2', 'canary c', 3)",
        "INSERT INTO orders VALUES (3, 'canary3', 'canary c', 3)",
        "UPDATE orders SET who = 'canary3' WHERE id = 1",
        "CREATE TABLE late (id int PRIMARY KEY, who text REFERENCES people, own text)",
        "INSERT INTO late VALUES (1, 'canary3', 'fine')",
        "CREATE TABLE later (id int PRIMARY KEY, who text)",
        "INSERT INTO later VALUES (1, 'canary1')",
    )
    run.once(
        "ALTER TABLE later ADD FOREIGN KEY (who) REFERENCES people",
        "INSERT INTO later VALUES (2, 'canary2')",
    )
    run.once()
    require_keys(run, 7)
    assert run.rows("SELECT own FROM public.late") == [("fine",)]
    for database in (run.target.rows, run.in_duckdb):
        for table in ("people", "orders", "lines", "notes", "late", "later"):
            assert "canary" not in str(database(f"SELECT * FROM public.{table}")), table
    for report in verify(run.config()):
        assert [each.problems for each in report.tables if each.problems] == []
        assert not report.differs, report


def test_what_would_not_hold(run: Ruled) -> None:
    """Under check, the default, each foreign key is named with what to do; ignore lets them be."""
    run.source.run(*SHOP)

    def no_spark() -> Any:
        raise AssertionError("no rule here has an expression")

    def problems(**rules: Any) -> set[str]:
        run.modifiers = {}
        for table, columns in rules.items():
            run.rule(table, **columns)
        config = run.config()
        return {str(each) for each in find_problems(config, build_source(config, init=True), no_spark)}

    key = "its foreign key points at public.people.login"
    assert problems(people={"login": "hash"}) == {
        f"public.{column}: {key}, whose values a rule changes, and it has no rule"
        for column in ("people.boss", "orders.who", "lines.who")
    }
    assert problems(people={"login": {"name": "hash", "references": "ignore"}}) == set()
    assert problems(people={"login": {"name": "hash", "references": "follow"}}) == set()
    own = {"login": {"name": "hash", "references": "follow"}, "boss": {"name": "email"}}
    assert problems(people=own) == {f"public.people.boss: {key}, whose values become others"}
    assert problems(people={"boss": "null"}) == set()
    assert problems(people={"boss": "hash"}) == {f"public.people.boss: {key}, whose values go as they are"}
    random = {"name": "string", "allow_uniqueness_loss": True, "references": "follow"}
    assert f"public.lines.who: {key}, whose rule goes by chance or by other columns" in problems(
        people={"login": random}
    )


def test_keys_stay_as_they_were(run: Ruled) -> None:
    """Another rule or salt is refused at a start, until a new copy is asked for; other columns may change."""
    run.source.run(
        "CREATE TABLE people (login text PRIMARY KEY, name text)", "CREATE TABLE t (id int PRIMARY KEY)"
    )
    run.rule("people", login="hash", name="masking")
    run.once("INSERT INTO people VALUES ('canary1', 'canary')", "INSERT INTO t VALUES (1)")
    for kept in (run.place / "state").glob("*.json"):
        assert run.modifiers["transformations"]["salt"] not in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0

    def refused(**rules: Any) -> None:
        run.modifiers = {}
        run.rule("people", **rules)
        with pytest.raises(ConfigError, match=r"of public\.people whose key was changed otherwise: login"):
            run.once()

    refused(login="email", name="masking")
    refused(login="noop", name="masking")
    run.modifiers = {}
    with pytest.raises(ConfigError, match="whose key was changed otherwise"):
        run.once()
    run.rule("people", login="hash").rule("t", id={"name": "greenmask_integer", "parameters": {
        "generator": "deterministic"}, "allow_uniqueness_loss": True})  # fmt: skip
    with pytest.raises(ConfigError, match=r"rows of public\.t whose key was changed otherwise: id"):
        run.once()
    run.modifiers = {}
    run.rule("people", login="hash", name="null")
    run.once("INSERT INTO people VALUES ('canary2', 'canary')")
    assert [name for (name,) in run.target.rows("SELECT name FROM people ORDER BY name")] == ["******", None]
    run.modifiers["transformations"]["salt"] = "another salt"
    with pytest.raises(ConfigError, match="or the salt is another"):
        run.once()
    config = run.config()
    ask_for_copy(run.source.url, config.name, config.state_dir, run.targets, ("public", "people"))
    run.once("UPDATE people SET name = 'canary new' WHERE login = 'canary1'")
    run.once("DELETE FROM people WHERE login = 'canary2'")
    assert run.rows("SELECT count(*), count(name) FROM public.people") == [(1, 0)]
    refused(login="hash", name="null")
