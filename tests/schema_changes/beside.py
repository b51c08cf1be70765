"""Statements of two transactions that go on at the same time; ``{s}`` is the schema of the case."""

from __future__ import annotations

from dataclasses import dataclass

BEFORE = (
    "CREATE SCHEMA {s}",
    "CREATE SCHEMA {s}_other",
    "CREATE TYPE {s}.mood AS ENUM ('a', 'b')",
    "CREATE DOMAIN {s}.d AS int CHECK (VALUE > 0)",
    "CREATE FUNCTION {s}.f() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
    "CREATE FUNCTION {s}.t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "CREATE SEQUENCE {s}.q",
    "CREATE TABLE {s}.a (id int PRIMARY KEY, x int, m {s}.mood DEFAULT 'b')",
    "CREATE INDEX ia ON {s}.a ((x + 1))",
    "CREATE TABLE {s}.b (id int PRIMARY KEY, a int REFERENCES {s}.a, n int DEFAULT {s}.f())",
    "ALTER TABLE {s}.b ADD g int GENERATED ALWAYS AS (n + {s}.f()) STORED, ADD CHECK (n >= {s}.f())",
    "CREATE VIEW {s}.v AS SELECT id, x FROM {s}.a",
    "CREATE VIEW {s}.vv AS SELECT x FROM {s}.v WHERE x > {s}.f()",
    "CREATE RULE r AS ON DELETE TO {s}.vv DO INSTEAD DELETE FROM {s}.b WHERE n = old.x",
    "CREATE TRIGGER tr BEFORE INSERT ON {s}.b FOR EACH ROW WHEN (new.n > 1) EXECUTE FUNCTION {s}.t()",
    "CREATE POLICY p ON {s}.b USING (n > {s}.f() AND EXISTS (SELECT FROM {s}.a WHERE x = n))",
    "INSERT INTO {s}.a VALUES (1, 2)",
    "INSERT INTO {s}.b VALUES (1, 1)",
)


@dataclass(frozen=True, slots=True)
class Beside:
    """Two statements of two transactions, and what comes after both of them."""

    name: str
    one: str
    two: str
    then: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


PAIRS = [
    Beside(
        "key to a renamed table",
        "ALTER TABLE {s}.a RENAME TO a2",
        "ALTER TABLE {s}.b ADD y int",
        (
            "ALTER TABLE {s}.b ADD z int",
            "INSERT INTO {s}.a2 VALUES (5)",
            "INSERT INTO {s}.b (id, a) VALUES (5, 5)",
        ),
    ),
    Beside(
        "view over a renamed table",
        "ALTER TABLE {s}.a RENAME TO a2",
        "ALTER VIEW {s}.v RENAME TO w",
        ("COMMENT ON VIEW {s}.w IS 'w'", "ALTER TABLE {s}.a2 ADD z int"),
    ),
    Beside(
        "view over a renamed column",
        "ALTER TABLE {s}.a RENAME x TO x2",
        "ALTER VIEW {s}.v ALTER x SET DEFAULT 3",
        ("ALTER VIEW {s}.v SET (security_barrier = true)", "COMMENT ON VIEW {s}.vv IS 'vv'"),
    ),
    Beside(
        "rule and policy over a renamed column",
        "ALTER TABLE {s}.a RENAME x TO x2",
        "ALTER TABLE {s}.b ENABLE ROW LEVEL SECURITY",
        ("ALTER POLICY p ON {s}.b TO PUBLIC", "ALTER RULE r ON {s}.vv RENAME TO r2"),
    ),
    Beside(
        "index of a table that is altered",
        "ALTER TABLE {s}.a ALTER x SET DEFAULT 3",
        "ALTER INDEX {s}.ia RENAME TO ia2",
        (
            "COMMENT ON INDEX {s}.ia2 IS 'i'",
            "ALTER TABLE {s}.a RENAME x TO x2",
            "ALTER INDEX {s}.ia2 SET (fillfactor = 60)",
        ),
    ),
    Beside(
        "function in a default",
        "ALTER FUNCTION {s}.f() RENAME TO g",
        "ALTER TABLE {s}.b ADD y int DEFAULT {s}.f(), ADD CHECK (y > {s}.f() - 5)",
        ("ALTER TABLE {s}.b ALTER n DROP DEFAULT", "INSERT INTO {s}.b (id, n) VALUES (5, 5)"),
    ),
    Beside(
        "function in a generated column",
        "ALTER FUNCTION {s}.f() SET SCHEMA {s}_other",
        "ALTER TABLE {s}.b RENAME n TO nn",
        ("ALTER TABLE {s}.b ADD y int GENERATED ALWAYS AS (nn + {s}_other.f()) STORED",),
    ),
    Beside(
        "function of a trigger",
        "ALTER FUNCTION {s}.t() RENAME TO t2",
        "CREATE TRIGGER more BEFORE UPDATE ON {s}.b FOR EACH ROW EXECUTE FUNCTION {s}.t()",
        ("ALTER TRIGGER tr ON {s}.b RENAME TO tr2", "ALTER TABLE {s}.b DISABLE TRIGGER more"),
    ),
    Beside(
        "function of a view",
        "ALTER FUNCTION {s}.f() RENAME TO g",
        "CREATE VIEW {s}.w AS SELECT {s}.f() AS f, x FROM {s}.a",
        ("ALTER VIEW {s}.w RENAME COLUMN f TO g", "ALTER VIEW {s}.vv RENAME TO vvv"),
    ),
    Beside(
        "type of a column",
        "ALTER TYPE {s}.mood RENAME TO mood2",
        "ALTER TABLE {s}.a ADD m2 {s}.mood DEFAULT 'a'",
        ("ALTER TABLE {s}.a ADD m3 {s}.mood2", "INSERT INTO {s}.a (id, m3) VALUES (6, 'b')"),
    ),
    Beside(
        "type of a new table and function",
        "ALTER TYPE {s}.mood SET SCHEMA {s}_other",
        "CREATE TABLE {s}.made (id int PRIMARY KEY, m {s}.mood[]);"
        " CREATE FUNCTION {s}.of(m {s}.mood) RETURNS {s}.mood LANGUAGE sql AS 'SELECT m'",
        ("COMMENT ON FUNCTION {s}.of IS 'of'", "INSERT INTO {s}.made VALUES (1, '{a,b}')"),
    ),
    Beside(
        "domain of a column",
        "ALTER DOMAIN {s}.d RENAME TO dd",
        "ALTER TABLE {s}.a ADD k {s}.d",
        ("ALTER DOMAIN {s}.dd ADD CHECK (VALUE < 99)", "ALTER TABLE {s}.a ADD z int"),
    ),
    Beside(
        "label in a default",
        "ALTER TYPE {s}.mood RENAME VALUE 'b' TO 'c'",
        "ALTER TABLE {s}.a ADD z int",
        ("ALTER TABLE {s}.a ADD zz int", "INSERT INTO {s}.a (id) VALUES (6)"),
    ),
    Beside(
        "sequence in a default",
        "ALTER SEQUENCE {s}.q RENAME TO q2",
        "ALTER TABLE {s}.b ALTER n SET DEFAULT nextval('{s}.q')",
        ("ALTER TABLE {s}.b ADD z int",),
    ),
    Beside(
        "schema and its tables",
        "ALTER SCHEMA {s} RENAME TO {s}_2",
        "ALTER TABLE {s}.b ADD y {s}.mood; ALTER VIEW {s}.vv RENAME TO v3; CREATE INDEX ib ON {s}.b (n)",
        (
            "ALTER TABLE {s}_2.b ADD z int",
            "ALTER INDEX {s}_2.ib RENAME TO ib2",
            "ALTER VIEW {s}_2.v RENAME TO w",
            "ALTER TRIGGER tr ON {s}_2.b RENAME TO tr2",
            "INSERT INTO {s}_2.b (id, z) VALUES (7, 7)",
        ),
    ),
    Beside(
        "schema and new objects",
        "ALTER SCHEMA {s} RENAME TO {s}_2",
        "CREATE TABLE {s}.made (id serial PRIMARY KEY, a int REFERENCES {s}.a, n int DEFAULT {s}.f());"
        " CREATE VIEW {s}.w AS SELECT made.id, x FROM {s}.made JOIN {s}.a ON a.id = made.a; DROP VIEW {s}.vv;"
        " CREATE FUNCTION {s}.more(m {s}.mood) RETURNS {s}.mood LANGUAGE sql AS 'SELECT m'",
        (
            "ALTER TABLE {s}_2.made ADD z int",
            "INSERT INTO {s}_2.made (z) VALUES (7)",
            "DROP VIEW {s}_2.w",
            "DROP FUNCTION {s}_2.more",
            "DROP TRIGGER tr ON {s}_2.b",
        ),
    ),
    Beside(
        "schema with a comment",
        "ALTER SCHEMA {s} RENAME TO {s}_2",
        "COMMENT ON SCHEMA {s} IS 'said'",
        (
            "COMMENT ON SCHEMA {s}_2 IS 'more'",
            "ALTER SCHEMA {s}_2 RENAME TO {s}_3",
            "ALTER TABLE {s}_3.a SET SCHEMA {s}_other",
        ),
    ),
    Beside(
        "type that is renamed and grows",
        "ALTER TYPE {s}.mood RENAME TO mood2",
        "ALTER TYPE {s}.mood ADD VALUE 'z'",
        (
            "COMMENT ON TYPE {s}.mood2 IS 'm'",
            "ALTER TYPE {s}.mood2 ADD VALUE 'zz'",
            "ALTER TABLE {s}.a ADD z int",
        ),
    ),
    Beside(
        "function that is replaced and commented",
        "CREATE OR REPLACE FUNCTION {s}.f() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2'",
        "COMMENT ON FUNCTION {s}.f IS 'f'",
        ("ALTER FUNCTION {s}.f() RENAME TO g",),
    ),
    Beside(
        "rights beside an altered table",  # from 18 on the server itself lets one wait for the other
        "DO $$ BEGIN IF current_setting('server_version_num')::int < 180000 THEN"
        " EXECUTE 'ALTER TABLE {s}.a ALTER x SET DEFAULT 3'; END IF; END $$",
        "GRANT SELECT (id) ON {s}.a TO PUBLIC",
        ("ALTER TABLE {s}.a ADD z int", "GRANT SELECT ON {s}.a TO PUBLIC"),
    ),
    Beside(
        "rights beside a comment",
        "COMMENT ON TABLE {s}.a IS 'a'",
        "GRANT ALL ON {s}.a TO PUBLIC; REVOKE ALL ON {s}.a FROM PUBLIC; GRANT INSERT ON {s}.a TO PUBLIC",
        ("REVOKE INSERT ON {s}.a FROM PUBLIC", "COMMENT ON TABLE {s}.a IS NULL"),
    ),
    Beside(
        "heir of a table that is commented",
        "ALTER TABLE {s}.child ADD CHECK (h > 0)",
        "COMMENT ON TABLE {s}.parent IS 'p'",
        ("ALTER TABLE {s}.parent ADD z int",),
        (
            "CREATE TABLE {s}.parent (id int PRIMARY KEY, h int) PARTITION BY RANGE (id)",
            "CREATE TABLE {s}.child PARTITION OF {s}.parent FOR VALUES FROM (0) TO (100)",
        ),
    ),
    Beside(
        "others",
        "CREATE TABLE {s}.one (id int PRIMARY KEY)",
        "CREATE TABLE {s}.two (id int PRIMARY KEY); ALTER TABLE {s}.b ADD y int; DROP VIEW {s}.vv",
        ("ALTER TABLE {s}.one ADD x int", "ALTER TABLE {s}.two ADD x int"),
    ),
]

AFTER_ONE = [
    Beside(
        "key",
        "ALTER TABLE {s}.a RENAME TO a2",
        "ALTER TABLE {s}.b ADD y int",
        ("ALTER TABLE {s}.b ADD z int",),
    ),
    Beside(
        "view",
        "ALTER TABLE {s}.a RENAME x TO x2",
        "ALTER VIEW {s}.v RENAME TO w",
        ("COMMENT ON VIEW {s}.w IS 'w'",),
    ),
    Beside(
        "default",
        "ALTER FUNCTION {s}.f() RENAME TO g",
        "ALTER TABLE {s}.b ADD y int DEFAULT {s}.g()",
        ("ALTER TABLE {s}.b ALTER n DROP DEFAULT",),
    ),
    Beside(
        "schema",
        "ALTER SCHEMA {s} RENAME TO {s}_2",
        "ALTER TABLE {s}_2.b ADD y int",
        ("ALTER TABLE {s}_2.b ADD z int",),
    ),
    Beside(
        "others",
        "CREATE TABLE {s}.one (id int PRIMARY KEY)",
        "DROP VIEW {s}.vv; CREATE TABLE {s}.two (id int PRIMARY KEY)",
        ("ALTER TABLE {s}.one ADD x int", "ALTER TABLE {s}.two ADD x int"),
    ),
]
"""The second transaction has a snapshot from before the first, which is done when the second begins."""
