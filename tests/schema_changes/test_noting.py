"""What the event triggers note, and that nobody's statement fails or waits because of them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.errors import NotInitializedError
from pgsluice.schema import migrate
from pgsluice.source.install import InitOptions, destroy, init
from pgsluice.source.schema_log import read_log

if TYPE_CHECKING:
    from tests.fix_pg import Database

pytestmark = pytest.mark.both_versions


@pytest.fixture
def prepared(database: Database) -> Database:
    """A database with the triggers."""
    database.run("CREATE TABLE shop (id int PRIMARY KEY, name text)")
    init(database.url)
    return database


def entries(database: Database) -> list[tuple[Any, ...]]:
    """The command and the kinds and names of what it changed, of every entry."""
    return [
        (
            entry.tag,
            *((change.definition.get("kind"), change.definition.get("name")) for change in entry.changes),
        )
        for entry in read_log(database.url, 1000)
    ]


def test_before_and_after(prepared: Database) -> None:
    """An entry says how an object was and how it is; columns keep their numbers."""
    prepared.run("ALTER TABLE shop RENAME name TO title", "ALTER TABLE shop DROP COLUMN title, ADD title int")
    first, *others = read_log(prepared.url, 10)
    (change,) = first.changes
    assert change.before is not None
    assert change.after is not None
    assert [(c["number"], c["name"]) for c in change.before["columns"]] == [(1, "id"), (2, "name")]
    assert [(c["number"], c["name"]) for c in change.after["columns"]] == [(1, "id"), (2, "title")]
    assert [(c["number"], c["name"]) for c in others[-1].changes[0].definition["columns"]] == [
        (1, "id"),
        (3, "title"),
    ]
    assert first.statement == "ALTER TABLE shop RENAME name TO title"
    assert first.schemas == {"public"}


def test_a_user_without_rights(prepared: Database) -> None:
    """Who may not even look into our schema has its changes noted, under its own name and search path."""
    with prepared.connect() as conn:
        conn.execute("DROP ROLE IF EXISTS plain_user")
        conn.execute("CREATE ROLE plain_user LOGIN PASSWORD 'x'")
        conn.execute("CREATE SCHEMA own AUTHORIZATION plain_user")
    with psycopg.connect(prepared.url_as("plain_user", "x"), autocommit=True) as conn:
        conn.execute("SET search_path = own")
        conn.execute("CREATE TABLE mine (id int PRIMARY KEY)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("INSERT INTO pgsluice.schema_log (tag, changes) VALUES ('x', '[]')")
    last = read_log(prepared.url, 1)[0]
    assert (last.tag, last.user, last.search_path) == ("CREATE TABLE", "plain_user", "own")
    prepared.run("DROP OWNED BY plain_user CASCADE", "DROP ROLE plain_user")


def test_no_error_of_ours_fails_a_statement(prepared: Database) -> None:
    """What can't be noted is an entry with a problem, or a warning; the statement is done all the same."""
    prepared.run("ALTER TABLE pgsluice.known_object RENAME TO gone", "CREATE TABLE one (id int)")
    last = read_log(prepared.url, 1)[0]
    assert last.problem is not None
    assert "known_object" in last.problem
    prepared.run("ALTER TABLE pgsluice.schema_log RENAME TO gone_too")
    with prepared.connect() as conn:
        said: list[str] = []
        conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        conn.execute("CREATE TABLE two (id int)")
    assert any("could not note a schema change" in line for line in said)
    assert prepared.rows("SELECT to_regclass('one')::text, to_regclass('two')::text") == [("one", "two")]


def test_nobody_waits(prepared: Database) -> None:
    """Sessions that change the schema at the same time, in transactions that stay open, pass each other."""
    with prepared.connect() as one, prepared.connect() as two:
        for conn in (one, two):
            conn.execute("SET statement_timeout = '20s'")
            conn.execute("BEGIN")
        one.execute("CREATE TABLE a (id int)")
        two.execute("CREATE TABLE b (id int)")
        one.execute("CREATE INDEX i1 ON shop (name)")
        two.execute("CREATE INDEX i2 ON shop (name)")
        two.execute("COMMIT")
        one.execute("COMMIT")
    assert sorted(entries(prepared)) == [
        ("CREATE INDEX", ("index", "i1")),
        ("CREATE INDEX", ("index", "i2")),
        ("CREATE TABLE", ("table", "a")),
        ("CREATE TABLE", ("table", "b")),
    ]


def test_what_is_not_noted(prepared: Database) -> None:
    """Temporary tables, what was rolled back, what changes nothing, and sessions that opt out."""
    prepared.run(
        "CREATE TEMP TABLE t (id int); ALTER TABLE t ADD x int; DROP TABLE t",
        "BEGIN; CREATE TABLE rolled (id int); ROLLBACK",
        "CREATE TABLE IF NOT EXISTS shop (id int)",
        "ANALYZE shop",
        "SET pgsluice.skip_ddl = on; CREATE TABLE skipped (id int)",
    )
    assert entries(prepared) == []
    prepared.run("SET session_replication_role = replica; CREATE TABLE noted (id int)")
    assert entries(prepared) == [("CREATE TABLE", ("table", "noted"))]


def test_without_event_triggers(database: Database) -> None:
    """Asked not to, or not allowed to: there are none, and init says so in the second case."""
    database.run("CREATE TABLE shop (id int PRIMARY KEY)")
    report = init(database.url, InitOptions(event_triggers=False))
    assert not any("event" in action for action in report.actions)
    assert report.warnings == ()
    assert destroy(database.url)
    database.run(
        "DROP ROLE IF EXISTS repl",
        "CREATE ROLE repl LOGIN REPLICATION PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{database.name}" TO repl',
        "ALTER TABLE shop OWNER TO repl",
    )
    report = init(database.url_as("repl", "x"))
    assert [warning for warning in report.warnings if "no event triggers" in warning]
    assert database.rows("SELECT count(*) FROM pg_event_trigger") == [(0,)]
    database.run("ALTER TABLE shop ADD c int")
    assert database.rows("SELECT count(*) FROM pgsluice.schema_log") == [(0,)]
    destroy(database.url)
    database.run("REASSIGN OWNED BY repl TO postgres", "DROP OWNED BY repl", "DROP ROLE repl")


def test_destroy_removes_all_of_it(prepared: Database) -> None:
    """Triggers, functions, tables and the publication."""
    destroy(prepared.url)
    assert prepared.rows(
        "SELECT (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_publication),"
        " (SELECT count(*) FROM pg_namespace WHERE nspname = 'pgsluice')"
    ) == [(0, 0, 0)]
    prepared.run("CREATE TABLE after (id int)")


def test_the_command(prepared: Database) -> None:
    """``schema log`` for people and for programs."""
    prepared.run("ALTER TABLE shop RENAME TO store", "DROP TABLE store")

    def run(*options: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pgsluice.cli.main",
            "schema",
            "log",
            "--source-url",
            prepared.url,
            *options,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    lines = run().splitlines()
    assert lines[0].split() == [
        *("id", "position", "at", "user", "command", "version", "acknowledged", "changed")
    ]
    assert "table public.store (was public.shop)" in lines[1]
    assert "dropped table public.store" in lines[2]
    found = json.loads(run("--json", "--limit", "1"))
    assert [(each["command"], each["changes"][0]["dropped"]) for each in found] == [("DROP TABLE", True)]


def test_nothing_of_a_users_own_runs_with_more_rights(database: Database) -> None:
    """An operator that stands before the server's in the search path is never called by the triggers."""
    role = f"mallory_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"CREATE SCHEMA evil AUTHORIZATION {role}")
    init(database.url)
    try:
        with psycopg.connect(database.url_as(role, "x"), autocommit=True) as conn:
            conn.execute("SET search_path = evil, pg_catalog")
            for left, right in (("text", "text"), ("text", "text[]"), ("jsonb", "jsonb"), ("oid", "oid")):
                name = f"evil.eq_{left}_{right}".replace("[]", "s")
                conn.execute(
                    f"CREATE FUNCTION {name}(a {left}, b {right}) RETURNS bool LANGUAGE plpgsql AS"
                    f" $$ BEGIN EXECUTE 'ALTER ROLE {role} SUPERUSER'; RETURN true; END $$"
                )
                for operator in ("=", "<>"):
                    conn.execute(
                        f"CREATE OPERATOR evil.{operator} (leftarg = {left}, rightarg = {right},"
                        f" function = {name})"
                    )
            conn.execute("CREATE TABLE evil.x (id int)")
            conn.execute("ALTER TABLE evil.x ADD y int")
            conn.execute("DROP TABLE evil.x")
        assert database.rows(f"SELECT rolsuper FROM pg_roles WHERE rolname = '{role}'") == [(False,)]
        assert database.rows("SELECT count(*) FROM pgsluice.schema_log WHERE problem IS NOT NULL") == [(0,)]
    finally:
        database.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_nobody_waits_for_anothers_changes(database: Database) -> None:
    """Tables that a view or a key ties together are changed by two sessions at once, and both are noted."""
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)",
        "CREATE VIEW v AS SELECT a.id FROM a, b",
    )
    init(database.url)
    with database.connect() as conn:
        conn.autocommit = False
        conn.execute("ALTER TABLE a ADD x int")
        database.run("SET lock_timeout = '5s'; ALTER TABLE b ADD y int")
        conn.commit()
    database.run("ALTER TABLE b ADD z int")
    found = database.rows("SELECT tag, changes, problem FROM pgsluice.schema_log ORDER BY id")
    assert [problem for *_, problem in found] == [None] * 3
    added = [
        {column["name"] for column in change["after"]["columns"]}
        - {column["name"] for column in change["before"]["columns"]}
        for _, changes, _ in found
        for change in changes
    ]
    assert added == [{"x"}, {"y"}, {"z"}]


def test_passwords_are_not_kept(database: Database) -> None:
    """The statement of a change may have others in it."""
    init(database.url)
    role = f"r_{database.name}"
    try:
        database.run(f"CREATE ROLE {role} PASSWORD 'canary'; CREATE TABLE t (id int PRIMARY KEY)")
        assert database.rows("SELECT tag, statement FROM pgsluice.schema_log") == [("CREATE TABLE", None)]
    finally:
        database.run(f"DROP ROLE {role}")


OLDER_TRIGGERS = """
INSERT INTO pgsluice.known_object SELECT class, object, definition
  FROM pgsluice.all_objects(), pgsluice.describe(class, object) definition WHERE definition IS NOT NULL;
CREATE EVENT TRIGGER pgsluice_ddl_command_end ON ddl_command_end EXECUTE FUNCTION pgsluice.note_ddl();
CREATE EVENT TRIGGER pgsluice_sql_drop ON sql_drop EXECUTE FUNCTION pgsluice.note_ddl();
CREATE EVENT TRIGGER pgsluice_table_rewrite ON table_rewrite EXECUTE FUNCTION pgsluice.note_ddl();
ALTER EVENT TRIGGER pgsluice_ddl_command_end ENABLE ALWAYS;
ALTER EVENT TRIGGER pgsluice_sql_drop ENABLE ALWAYS;
ALTER EVENT TRIGGER pgsluice_table_rewrite ENABLE ALWAYS;
CREATE PUBLICATION pgsluice_schema FOR TABLE pgsluice.schema_log WITH (publish = 'insert');
"""


def test_triggers_of_an_older_version(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade they know what they knew, and entries of before are read as ever."""
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)"
    )
    newest = migrate.available()
    with monkeypatch.context() as older:
        older.setattr(migrate, "available", lambda: newest[:2])
        init(database.url, InitOptions(event_triggers=False))
        database.run(OLDER_TRIGGERS, "ALTER TABLE b ADD x int", "ALTER TABLE a RENAME TO a2")
    with pytest.raises(NotInitializedError, match="--upgrade"):
        init(database.url)
    assert any("migration 3" in done for done in init(database.url, InitOptions(upgrade=True)).actions)
    database.run("ALTER TABLE b ADD y int", "DROP TABLE b")
    found = read_log(database.url, 9)
    assert [entry.problem for entry in found] == [None] * 4
    before, after = found[2].changes[0].before, found[2].changes[0].after
    assert before is not None
    assert after is not None
    assert [column["name"] for column in before["columns"]] == ["id", "a", "x"]
    assert [column["name"] for column in after["columns"]] == ["id", "a", "x", "y"]
    assert before["constraints"] == after["constraints"]
    destroy(database.url)
    assert database.rows("SELECT FROM pg_namespace WHERE nspname = 'pgsluice'") == []
