"""The schema of a source in a PostgreSQL target: made before and after the rows, and equal in the end."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import TargetSchemaError
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.source.snapshot import schema_dump
from pgsluice.source.snapshot.schema_dump import find_pg_dump, statements
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

TYPES = """
CREATE SCHEMA sales;
CREATE TYPE sales.state AS ENUM ('new', 'paid');
CREATE DOMAIN sales.amount AS numeric(12,2) CHECK (VALUE >= 0);
CREATE TYPE sales.place AS (street text, town text);
"""
OBJECTS = """
CREATE TABLE sales.customer (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    home sales.place,
    since timestamptz NOT NULL DEFAULT now());
CREATE TABLE sales.bill (
    id serial PRIMARY KEY,
    customer bigint NOT NULL REFERENCES sales.customer ON DELETE CASCADE,
    state sales.state NOT NULL DEFAULT 'new',
    total sales.amount CHECK (total < 1000000),
    twice numeric GENERATED ALWAYS AS (total * 2) STORED,
    EXCLUDE USING btree (id WITH =));
CREATE INDEX bill_open ON sales.bill (customer DESC) INCLUDE (total) WHERE state = 'new';
CREATE VIEW sales.open_bills AS SELECT * FROM sales.bill WHERE state = 'new';
CREATE FUNCTION sales.note() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.total := NEW.total + 1; RETURN NEW; END; $$;
CREATE TRIGGER note BEFORE INSERT ON sales.bill FOR EACH ROW EXECUTE FUNCTION sales.note();
CREATE TABLE sales.day (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE sales.day_1 PARTITION OF sales.day FOR VALUES FROM ('2026-01-01') TO ('2026-07-01');
CREATE TABLE sales.day_2 PARTITION OF sales.day FOR VALUES FROM ('2026-07-01') TO ('2027-01-01');
CREATE SEQUENCE sales.loose START 100 INCREMENT 5;
COMMENT ON TABLE sales.bill IS 'what is owed; Type: TABLE; --';
CREATE TABLE sales."Odd %s ""name" ("a b" int PRIMARY KEY, c text);
CREATE TABLE sales.nothing ();
ALTER TABLE sales.nothing REPLICA IDENTITY FULL;
"""
ROWS = r"""
INSERT INTO sales.customer (name, home)
    SELECT 'name ' || g, ROW('street', 'town')::sales.place FROM generate_series(1, 300) g;
INSERT INTO sales.bill (customer, total) SELECT g % 300 + 1, g FROM generate_series(1, 900) g;
INSERT INTO sales.day SELECT g, date '2026-01-01' + g FROM generate_series(1, 300) g;
INSERT INTO sales."Odd %s ""name" VALUES (1, E'a\\tb');
INSERT INTO sales.nothing DEFAULT VALUES;
SELECT nextval('sales.loose'), nextval('sales.loose');
"""


@pytest.fixture
def source(database: Database) -> Database:
    """Objects of many kinds, with rows."""
    database.run(TYPES, OBJECTS, ROWS)
    return database


def copy(source: Database, target: Database, tmp_path: Path, **options: Any) -> None:
    """Bring the target up to date."""
    sink = PostgresSink(PostgresConfig.model_validate({"url": target.url, **options}))
    where = PostgresSource(source.url, init=True)
    assert Pipeline(where, sink, state_dir=tmp_path / "state").run(once=True)


OWN_TRIGGERS = re.compile(
    r"--\n-- Name: pgsluice_\w+; Type: EVENT TRIGGER;[^\n]*\n--\n\n"
    r"[^;]*;\n(\nALTER EVENT TRIGGER [^;]*;\n)?\n*"
)


def schema_of(database: Database) -> str:
    """The whole schema as pg_dump writes it, but for our own."""
    program = find_pg_dump(18)
    assert program is not None
    command = [
        str(program), database.url, "--schema-only", "--no-owner", "--no-publications", "-N", "pgsluice",
        "--restrict-key=x",
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return OWN_TRIGGERS.sub("", dumped)


def test_the_target_has_the_source_s_schema(
    source: Database, target_database: Database, tmp_path: Path
) -> None:
    """Types, tables, keys, indexes, views, functions, triggers, partitions; rows and sequences with them."""
    copy(source, target_database, tmp_path)
    assert schema_of(target_database) == schema_of(source)
    source.run(
        "INSERT INTO sales.bill (customer, total) VALUES (7, 70)",
        "DELETE FROM sales.customer WHERE id = 5",
        "UPDATE sales.day SET at = at + 181 WHERE id = 1",
        "TRUNCATE sales.nothing",
    )
    copy(source, target_database, tmp_path)
    compared = 0
    for table in ("customer", "bill", "day", "day_1", "day_2", '"Odd %s ""name"', "nothing"):
        wanted = source_rows(source, f"sales.{table}")
        assert source_rows(target_database, f"sales.{table}") == wanted, table
        compared += len(wanted)
    print(f"compared {compared} rows")
    assert target_database.rows("SELECT nextval('sales.loose')") == source.rows(
        "SELECT nextval('sales.loose')"
    )
    assert target_database.rows("SELECT last_value FROM sales.bill_id_seq")[0][0] >= 900


def test_only_the_chosen_tables(source: Database, target_database: Database, tmp_path: Path) -> None:
    """Tables that are not copied are not made; what needs them is left out and named."""
    sink = PostgresSink(target_database.url)
    where = PostgresSource(source.url, tables=["sales.bill"], init=True)
    Pipeline(where, sink, state_dir=tmp_path / "state").run(once=True)
    made = target_database.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'sales'::regnamespace"
    )
    assert made == [("bill",)]
    assert source_rows(target_database, "sales.bill") == source_rows(source, "sales.bill")


def test_what_is_there_stays(source: Database, target_database: Database, tmp_path: Path) -> None:
    """A table that the target has is used as it is, also when the copy is done again."""
    target_database.run(
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.day (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE sales.day_1 PARTITION OF sales.day FOR VALUES FROM ('2026-01-01') TO ('2026-07-01')",
        "CREATE INDEX mine ON sales.day_1 (at)",
    )
    copy(source, target_database, tmp_path)
    assert source_rows(target_database, "sales.day") == source_rows(source, "sales.day")
    assert target_database.rows("SELECT to_regclass('sales.mine') IS NOT NULL") == [(True,)]


def test_a_table_that_can_t_be_made(source: Database, target_database: Database, tmp_path: Path) -> None:
    """What rows need stops the copy, with its name and the target's words."""
    target_database.run(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF current_query() LIKE '%TABLE sales%' THEN RAISE EXCEPTION 'not here'; END IF; END $$",
        "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') "
        "EXECUTE FUNCTION refuse()",
        "ALTER EVENT TRIGGER refuse ENABLE ALWAYS",
    )
    with pytest.raises(TargetSchemaError, match=r"TABLE sales\..+ of the source: not here"):
        copy(source, target_database, tmp_path)


def test_statements_of_a_dump() -> None:
    """Headings inside of bodies, psql's commands and the end of the dump are told apart."""
    text = (
        "--\n-- PostgreSQL database dump\n--\n\n\\restrict abc\n\nSET x = 1;\n\n"
        "--\n-- Name: t; Type: TABLE; Schema: public; Owner: -\n--\n\nCREATE TABLE public.t ();\n\n\n"
        "--\n-- Name: p; Type: PUBLICATION; Schema: -; Owner: -\n--\n\nCREATE PUBLICATION p;\n\n"
        "--\n-- Name: s; Type: SCHEMA; Schema: -; Owner: -\n--\n\nCREATE SCHEMA s;\n\n\n"
        "--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict abc\n"
    )
    found = [(each.kind, each.name, each.sql) for each in statements(text)]
    assert found == [
        ("TABLE", "public.t", "CREATE TABLE public.t ();"),
        ("SCHEMA", "s", "CREATE SCHEMA s;"),
    ]


def test_tables_without_keys_and_texts_like_a_dump(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """A section without objects is empty; texts that look like parts of a dump stay texts."""
    heading = (
        "--\n-- Name: x; Type: TABLE; Schema: public; Owner: -\n--\n\nCREATE TABLE public.slipped_in ();\n"
    )
    database.run(
        r"CREATE TABLE t (id int, v text DEFAULT E'one\n\\w two\nthree')",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1)",
        "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $_$ SELECT '1\n\\gone\n2' $_$",
        f"COMMENT ON TABLE t IS 'it''s {heading}'",
        f"COMMENT ON FUNCTION f() IS E'\\\\ \\' {heading}'",
    )
    copy(database, target_database, tmp_path)
    assert source_rows(target_database, "t") == source_rows(database, "t")
    assert schema_of(target_database) == schema_of(database)


def test_odd_names_of_rules(database: Database, target_database: Database, tmp_path: Path) -> None:
    """From 18 on NOT NULL has a name, which pg_dump 18 writes without quotes for a column of a parent."""
    odd = 'it\'s "x"; --'
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        f'CREATE TABLE "{odd.replace(chr(34), chr(34) * 2)}" (v text, PRIMARY KEY (id)) INHERITS (parent)',
        f'ALTER TABLE "{odd.replace(chr(34), chr(34) * 2)}" RENAME TO heir',
        "INSERT INTO heir VALUES (1, 'a')",
    )
    copy(database, target_database, tmp_path)
    assert source_rows(target_database, "heir") == source_rows(database, "heir")
    names = "SELECT conname FROM pg_constraint WHERE conrelid = 'heir'::regclass ORDER BY 1"
    assert target_database.rows(names) == database.rows(names) == [(f"{odd}_id_not_null",), (f"{odd}_pkey",)]


def test_triggers_that_always_fire(database: Database, target_database: Database, tmp_path: Path) -> None:
    """What a trigger did on the source is in the stream: on the target it does not do it again."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE audit (n serial PRIMARY KEY, v int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.audit VALUES (NEW.id + TG_ARGV[0]::int, NEW.id); RETURN NEW; END $$",
        'CREATE TRIGGER "a;""b" AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note(100)',
        "CREATE TRIGGER later AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note(200)",
        'ALTER TABLE t ENABLE ALWAYS TRIGGER "a;""b"',
        "ALTER TABLE t ENABLE REPLICA TRIGGER later",
    )
    copy(database, target_database, tmp_path)
    database.run("INSERT INTO t VALUES (2)")
    copy(database, target_database, tmp_path)
    assert source_rows(target_database, "t") == [("2",)]
    assert source_rows(target_database, "audit") == source_rows(database, "audit") == [("102", "2")]


def test_materialized_views_are_filled(database: Database, target_database: Database, tmp_path: Path) -> None:
    """After the copy, also one that reads from another, and with the source's; an empty one stays so."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 400)",
        "CREATE MATERIALIZED VIEW a_first AS SELECT 1 AS x",
        "CREATE MATERIALIZED VIEW base AS SELECT id * 2 AS twice FROM t",
        "DROP MATERIALIZED VIEW a_first",
        "CREATE MATERIALIZED VIEW a_first AS SELECT sum(twice) AS total FROM base",
        "CREATE MATERIALIZED VIEW never AS SELECT 1 WITH NO DATA",
    )
    copy(database, target_database, tmp_path)
    for view in ("base", "a_first"):
        assert source_rows(target_database, view) == source_rows(database, view)
    assert target_database.rows("SELECT count(*) FROM base") == [(400,)]
    unfilled = "SELECT relname FROM pg_class WHERE relkind = 'm' AND NOT relispopulated"
    assert target_database.rows(unfilled) == [("never",)]
    database.run("DELETE FROM t WHERE id = 1", "REFRESH MATERIALIZED VIEW base")
    copy(database, target_database, tmp_path)
    assert target_database.rows("SELECT count(*) FROM base") == [(399,)]
    assert source_rows(target_database, "a_first") == source_rows(database, "a_first")  # as it was before


LOOKING = """#!{python}
import os, stat, sys
from pathlib import Path
service = Path(os.environ["PGSERVICEFILE"])
assert stat.S_IMODE(service.stat().st_mode) == 0o600
Path({seen!r}).write_bytes(Path("/proc/self/cmdline").read_bytes() + b"\\n" + service.read_bytes()
    + os.environ["PGOPTIONS"].encode())
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def test_no_secret_on_the_command_line(
    source: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the URL has in it, others who list processes see nothing of it."""
    real = find_pg_dump(18)
    assert real is not None
    wrapper, seen = tmp_path / "pg_dump", tmp_path / "seen"
    wrapper.write_text(LOOKING.format(python=sys.executable, seen=str(seen), program=str(real)))
    wrapper.chmod(0o755)
    monkeypatch.setattr(schema_dump, "find_pg_dump", lambda _: wrapper)
    role = f"reader_{source.name}"
    source.run(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'hush1'")
    secrets = f"{source.url_as(role, 'hush1')}?sslpassword=hush2&options=-c%20app.key%3Dhush3&sslmode=disable"
    sink = PostgresSink(target_database.url)
    where = PostgresSource(secrets, init=True)
    assert Pipeline(where, sink, state_dir=tmp_path / "state").run(once=True)
    line, _, service = seen.read_bytes().partition(b"\n")
    assert b"--schema-only" in line
    assert b"hush" not in line
    assert b"hush2" in service
    assert b"hush3" in service
    source.run(f"REASSIGN OWNED BY {role} TO CURRENT_USER", f"DROP ROLE {role}")
    assert source_rows(target_database, "sales.bill") == source_rows(source, "sales.bill")


FAILING_ONCE = """#!{python}
import os, sys
from pathlib import Path
if "--schema-only" in sys.argv and not Path({done!r}).exists():
    Path({done!r}).touch()
    sys.exit('pg_dump: error: query failed: ERROR:  relation "public.gone" does not exist')
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def test_a_table_that_goes_while_the_schema_is_read(
    database: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once more, at a new point."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    real, wrapper, done = find_pg_dump(18), tmp_path / "bin" / "pg_dump", tmp_path / "done"
    wrapper.parent.mkdir()
    wrapper.write_text(FAILING_ONCE.format(python=sys.executable, done=str(done), program=str(real)))
    wrapper.chmod(0o755)
    monkeypatch.setattr(schema_dump, "find_pg_dump", lambda _version: wrapper)
    copy(database, target_database, tmp_path)
    assert done.exists()
    assert source_rows(target_database, "t") == source_rows(database, "t")
