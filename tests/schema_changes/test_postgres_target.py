"""Every form of a schema change: afterwards the target's catalog and its rows are the source's."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.pipeline.config import load_config
from pgsluice.pipeline.schema_live import compare_live
from pgsluice.schema.quotes import quoted
from pgsluice.source.snapshot.schema_dump import find_pg_dump
from tests.fix_pg import Database, create_database, drop_database
from tests.schema_changes.forms import FORMS, PREFIX, Form

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres


@dataclass(frozen=True, slots=True)
class Pair:
    """A source, and the target that its changes were brought to."""

    source: Database
    target: Database


def run(pair: Pair, place: Path) -> None:
    """Copy, or catch up."""
    source = PostgresSource(pair.source.url, keyless="full", init=True)
    sink = PostgresSink(pair.target.url)
    Pipeline(source, sink, state_dir=place).run(once=True)


@pytest.fixture(scope="module", params=["pg15", "pg18"])
def changed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """All forms, made on a source while its pipeline was down, and applied in one run."""
    server: EmbeddedPostgres = request.getfixturevalue(request.param)
    pair = Pair(create_database(server), create_database(server))
    place = tmp_path_factory.mktemp("state")
    for form in FORMS:
        pair.source.run(f"CREATE SCHEMA {form.schema}", *form.before)
    run(pair, place)
    for form in FORMS:
        for query in form.queries:
            pair.source.run(query)
    run(pair, place)
    yield pair
    drop_database(pair.source)
    drop_database(pair.target)


def dump(database: Database, schema: str) -> list[str]:
    """The statements that make a schema, as pg_dump writes them."""
    program = find_pg_dump(18)
    assert program is not None
    said = subprocess.run(
        [program, "--schema-only", "--no-owner", "--no-privileges", f"--schema={schema}*", database.url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [
        line for line in said.splitlines() if line and not line.startswith(("--", "\\", "SET ", "SELECT "))
    ]
    return sorted("\n".join(lines).split(";\n"))


def rows(database: Database, schema: str) -> dict[str, list[str]]:
    """
    The rows of all tables of a schema, as text, sorted.

    Columns by their names: where a parent got one after its heir was made, pg_dump has another order.
    """
    tables = database.rows(
        "SELECT n.nspname, c.relname, c.relispopulated, (SELECT coalesce(array_agg(a.attname::text"
        " ORDER BY a.attname), '{}') FROM pg_attribute a"
        " WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind IN ('r', 'm') AND n.nspname LIKE '{schema}%'"
    )
    found = {}
    for space, name, is_filled, columns in tables:
        table = f"{quoted(space)}.{quoted(name)}"
        if not is_filled:
            found[f"{space}.{name}"] = ["not filled"]
            continue
        of = ", ".join(map(quoted, columns))
        found[f"{space}.{name}"] = sorted(
            row[0] for row in database.rows(f"SELECT t::text FROM (SELECT {of} FROM ONLY {table}) AS t")
        )
    return found


def require_equal(pair: Pair, schema: str = "s") -> int:
    """Catalog and rows of both are the same; gives how many rows were compared."""
    assert dump(pair.target, schema) == dump(pair.source, schema)
    held = rows(pair.source, schema)
    assert rows(pair.target, schema) == held
    return sum(map(len, held.values()))


def test_compared_live(changed: Pair, tmp_path: Path) -> None:
    """After all forms, the triggers know what the catalog has, and the target has the same."""
    config = tmp_path / "config.yaml"
    config.write_text(
        f"source: {{postgres: {{url: '{changed.source.url}'}}}}\n"
        f"target: {{postgres: {{url: '{changed.target.url}'}}}}\n"
    )
    found = compare_live(load_config(config, {}, {}))
    assert [f"{each.where}: {each.kind} {each.name}: {each.what}" for each in found.differences] == []


@pytest.fixture(scope="module")
def dumped(changed: Pair) -> tuple[list[str], list[str]]:
    """The statements of all forms, of source and target."""
    return dump(changed.source, PREFIX), dump(changed.target, PREFIX)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form(changed: Pair, dumped: tuple[list[str], list[str]], form: Form) -> None:
    """The target's catalog and rows are the source's."""
    schema = form.schema
    wanted, got = ([statement for statement in each if schema in statement] for each in dumped)
    assert wanted
    assert got == wanted
    held = rows(changed.source, schema)
    assert rows(changed.target, schema) == held
    print(f"compared {len(wanted)} statements and {sum(map(len, held.values()))} rows")
