--- add column
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD COLUMN c int
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- add without the word
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD c int DEFAULT 7
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- add not null
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD c text NOT NULL DEFAULT 'x'
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- stable default
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD c timestamptz DEFAULT now()
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- several actions
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD c int, DROP COLUMN a, ALTER b SET DEFAULT 'd', ADD d text CHECK (d <> '')
-- query
INSERT INTO {s}.t (id) VALUES (50)

--- drop column
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t DROP COLUMN a
-- query
UPDATE {s}.t SET b = 'x' WHERE id = 3

--- rename column
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t RENAME a TO "Odd näme.x"
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- swap names of columns
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
BEGIN;
ALTER TABLE {s}.t RENAME a TO x;
ALTER TABLE {s}.t RENAME b TO a;
ALTER TABLE {s}.t RENAME x TO b;
INSERT INTO {s}.t VALUES (60, 1, 'y');
COMMIT

--- rename table
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t RENAME TO "T two"
-- query
INSERT INTO {s}."T two" (id) VALUES (70)

--- swap two tables
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE TABLE {s}.u (LIKE {s}.t INCLUDING ALL)
-- before
INSERT INTO {s}.u VALUES (1, 1, 'u')
-- query
BEGIN;
ALTER TABLE {s}.t RENAME TO x;
ALTER TABLE {s}.u RENAME TO t;
ALTER TABLE {s}.x RENAME TO u;
COMMIT
-- query
INSERT INTO {s}.t VALUES (2, 2, 'was u')
-- query
INSERT INTO {s}.u VALUES (200, 2, 'was t')

--- move to another schema
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE SCHEMA {s}_other
-- query
ALTER TABLE {s}.t SET SCHEMA {s}_other
-- query
INSERT INTO {s}_other.t VALUES (80)

--- defaults and not null
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ALTER a DROP DEFAULT, ALTER b SET NOT NULL, ALTER b SET DEFAULT 'z'
-- query
INSERT INTO {s}.t (id) VALUES (81)

--- constraints
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD CONSTRAINT positive CHECK (id > 0) NOT VALID, ADD CONSTRAINT once UNIQUE (b)
-- query
ALTER TABLE {s}.t VALIDATE CONSTRAINT positive
-- query
ALTER TABLE {s}.t RENAME CONSTRAINT once TO twice
-- query
CREATE TABLE {s}.child (id int PRIMARY KEY, t int REFERENCES {s}.t DEFERRABLE)
-- query
ALTER TABLE {s}.t DROP CONSTRAINT positive

--- indexes
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
CREATE INDEX ON {s}.t (a)
-- query
CREATE INDEX CONCURRENTLY "I x" ON {s}.t (lower(b), a DESC)
-- query
CREATE UNIQUE INDEX part ON {s}.t (b) WHERE a > 0
-- query
ALTER INDEX {s}.t_a_idx RENAME TO ia
-- query
DROP INDEX CONCURRENTLY {s}.part

--- create table
-- query
CREATE TABLE {s}.n (id bigserial PRIMARY KEY, v varchar(10) COLLATE "C" NOT NULL UNIQUE, g int GENERATED ALWAYS AS (1) STORED, i int GENERATED BY DEFAULT AS IDENTITY (START 100), w numeric(10,2))
-- query
COMMENT ON TABLE {s}.n IS 'it''s new'
-- query
COMMENT ON COLUMN {s}.n.v IS 'v'

--- drop table
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE TABLE {s}.u (id int PRIMARY KEY)
-- query
DROP TABLE {s}.t

--- drop cascade
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE VIEW {s}.v AS SELECT id FROM {s}.t
-- before
CREATE TABLE {s}.f (id int PRIMARY KEY, t int REFERENCES {s}.t)
-- query
DROP TABLE {s}.t CASCADE
-- query
INSERT INTO {s}.f VALUES (1, 77)

--- drop and make again
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
DROP TABLE {s}.t
-- query
CREATE TABLE {s}.t (id text PRIMARY KEY)

--- made, filled and dropped
-- query
BEGIN;
CREATE TABLE {s}.x (id int PRIMARY KEY);
INSERT INTO {s}.x VALUES (1);
DROP TABLE {s}.x;
COMMIT

--- several statements
-- query
CREATE TABLE {s}.a1 (id int PRIMARY KEY); CREATE TABLE {s}.a2 (id int PRIMARY KEY)

--- do block
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
DO $$ BEGIN ALTER TABLE {s}.t ADD c int; CREATE TABLE {s}.d (id int PRIMARY KEY); EXECUTE 'CREATE INDEX ON {s}.d (id)'; END $$
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- function that runs ddl
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE FUNCTION {s}.run() RETURNS void LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE {s}.t ADD by_function int; END $$
-- query
SELECT {s}.run()
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- search path
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
SET search_path = {s}; ALTER TABLE t ADD c int; CREATE TABLE q (id int PRIMARY KEY)

--- quoted names
-- query
CREATE TABLE {s}."A.b ""c"" Ä" ("Id.x" int PRIMARY KEY, "%s" text)
-- query
ALTER TABLE {s}."A.b ""c"" Ä" RENAME "%s" TO "%%d"

--- savepoint
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
BEGIN;
SAVEPOINT p;
ALTER TABLE {s}.t ADD gone int;
ROLLBACK TO p;
ALTER TABLE {s}.t ADD stays int;
COMMIT

--- rows and schema mixed
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
BEGIN;
UPDATE {s}.t SET a = 1;
ALTER TABLE {s}.t ADD c int;
UPDATE {s}.t SET c = id;
ALTER TABLE {s}.t DROP a;
DELETE FROM {s}.t WHERE id > 15;
INSERT INTO {s}.t VALUES (90, 'n', 9);
COMMIT

--- temporary tables
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
CREATE TEMP TABLE t (x int); ALTER TABLE t ADD y int; DROP TABLE t

--- sequences
-- query
CREATE SEQUENCE {s}.q START 5 INCREMENT 3
-- query
ALTER SEQUENCE {s}.q MAXVALUE 500 CYCLE
-- query
ALTER SEQUENCE {s}.q RENAME TO q2
-- query
CREATE SEQUENCE {s}.r; DROP SEQUENCE {s}.r

--- views
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
CREATE VIEW {s}.v AS SELECT id, a FROM {s}.t
-- query
CREATE OR REPLACE VIEW {s}.v AS SELECT id, a, b FROM {s}.t WHERE id > 1
-- query
ALTER VIEW {s}.v RENAME TO v2
-- query
ALTER VIEW {s}.v2 SET (security_barrier)
-- query
CREATE VIEW {s}.w AS SELECT 1 AS x; DROP VIEW {s}.w
-- query
CREATE MATERIALIZED VIEW {s}.m AS SELECT count(*) AS n FROM {s}.t
-- query
ALTER MATERIALIZED VIEW {s}.m RENAME n TO many

--- enum
-- query
CREATE TYPE {s}.mood AS ENUM ('sad', 'ok')
-- query
ALTER TYPE {s}.mood ADD VALUE 'fine' BEFORE 'ok'
-- query
ALTER TYPE {s}.mood ADD VALUE 'first' BEFORE 'sad'
-- query
ALTER TYPE {s}.mood ADD VALUE 'last'
-- query
ALTER TYPE {s}.mood RENAME VALUE 'ok' TO 'o''k'
-- query
ALTER TYPE {s}.mood RENAME TO feeling
-- query
CREATE TABLE {s}.felt (id int PRIMARY KEY, m {s}.feeling DEFAULT 'last')

--- domain
-- query
CREATE DOMAIN {s}.price AS numeric(8,2) DEFAULT 1 CONSTRAINT up CHECK (VALUE > 0)
-- query
ALTER DOMAIN {s}.price DROP DEFAULT
-- query
ALTER DOMAIN {s}.price SET NOT NULL
-- query
ALTER DOMAIN {s}.price ADD CONSTRAINT small CHECK (VALUE < 1000)
-- query
ALTER DOMAIN {s}.price DROP CONSTRAINT up
-- query
ALTER DOMAIN {s}.price RENAME CONSTRAINT small TO little

--- composite and range
-- query
CREATE TYPE {s}.pair AS (x int, y text COLLATE "C")
-- query
ALTER TYPE {s}.pair ADD ATTRIBUTE z date, DROP ATTRIBUTE x
-- query
ALTER TYPE {s}.pair RENAME ATTRIBUTE y TO why
-- query
CREATE TYPE {s}.span AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = float8mi)

--- functions
-- query
CREATE FUNCTION {s}.f(a int, b text DEFAULT 'x') RETURNS int LANGUAGE sql AS 'SELECT a'
-- query
CREATE OR REPLACE FUNCTION {s}.f(a int, b text DEFAULT 'y') RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + 1'
-- query
CREATE PROCEDURE {s}.p() LANGUAGE plpgsql AS 'BEGIN END'
-- query
ALTER FUNCTION {s}.f RENAME TO g
-- query
COMMENT ON FUNCTION {s}.g(int, text) IS 'a function'
-- query
DROP PROCEDURE {s}.p()

--- triggers
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE FUNCTION {s}.tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'
-- query
CREATE TRIGGER one BEFORE INSERT ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.tf()
-- query
CREATE OR REPLACE TRIGGER one AFTER UPDATE ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.tf()
-- query
ALTER TRIGGER one ON {s}.t RENAME TO two
-- query
ALTER TABLE {s}.t DISABLE TRIGGER two
-- query
CREATE TRIGGER three BEFORE DELETE ON {s}.t EXECUTE FUNCTION {s}.tf(); DROP TRIGGER three ON {s}.t

--- row security
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ENABLE ROW LEVEL SECURITY
-- query
CREATE POLICY p ON {s}.t USING (id > 0)
-- query
ALTER POLICY p ON {s}.t USING (id > 1) WITH CHECK (true)
-- query
ALTER POLICY p ON {s}.t RENAME TO q
-- query
CREATE POLICY gone ON {s}.t; DROP POLICY gone ON {s}.t
-- query
ALTER TABLE {s}.t FORCE ROW LEVEL SECURITY
-- query
ALTER TABLE {s}.t NO FORCE ROW LEVEL SECURITY

--- rules and statistics
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE VIEW {s}.v AS SELECT * FROM {s}.t
-- query
CREATE RULE quiet AS ON UPDATE TO {s}.v DO INSTEAD NOTHING
-- query
ALTER RULE quiet ON {s}.v RENAME TO still
-- query
CREATE STATISTICS {s}.st ON a, b FROM {s}.t
-- query
ALTER STATISTICS {s}.st RENAME TO st2

--- partitions
-- before
CREATE TABLE {s}.p (id int, k int, PRIMARY KEY (id)) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
INSERT INTO {s}.p SELECT g, g FROM generate_series(0, 9) g
-- query
CREATE TABLE {s}.p2 PARTITION OF {s}.p FOR VALUES FROM (10) TO (20)
-- query
ALTER TABLE {s}.p ADD COLUMN z int DEFAULT 3
-- query
CREATE INDEX on_k ON {s}.p (k)
-- query
ALTER TABLE {s}.p RENAME k TO kk
-- query
INSERT INTO {s}.p (id) VALUES (5 + 4 * 0 - 5 + 3) ON CONFLICT DO NOTHING
-- query
ALTER TABLE {s}.p DETACH PARTITION {s}.p1
-- query
ALTER TABLE {s}.p ATTACH PARTITION {s}.p1 FOR VALUES FROM (0) TO (10)
-- query
ALTER TABLE {s}.p DROP z

--- filled and attached
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
INSERT INTO {s}.p SELECT g, 'x' FROM generate_series(0, 9) g
-- query
CREATE TABLE {s}.p2 (LIKE {s}.p INCLUDING ALL)
-- query
INSERT INTO {s}.p2 SELECT g, 'y' FROM generate_series(10, 19) g
-- query
ALTER TABLE {s}.p ATTACH PARTITION {s}.p2 FOR VALUES FROM (10) TO (20)
-- query
UPDATE {s}.p SET v = 'z' WHERE id = 15
-- query
ALTER TABLE {s}.p DETACH PARTITION {s}.p1
-- query
UPDATE {s}.p1 SET v = 'changed while it was out' WHERE id < 5
-- query
DELETE FROM {s}.p1 WHERE id = 9
-- query
ALTER TABLE {s}.p ATTACH PARTITION {s}.p1 FOR VALUES FROM (0) TO (10)

--- a partitioned table that has no partition yet
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)
-- query
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- query
INSERT INTO {s}.p VALUES (1, 'x')

--- rewritten before a type that comes later
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- before
INSERT INTO {s}.t VALUES (1)
-- query
ALTER TABLE {s}.t ADD r float8 DEFAULT random()
-- query
CREATE TYPE {s}.mood AS ENUM ('a')
-- query
ALTER TABLE {s}.t ADD m {s}.mood DEFAULT 'a'

--- keyless table made from another and changed
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, b text)
-- before
INSERT INTO {s}.t SELECT g, 'x' FROM generate_series(1, 10) g
-- query
CREATE TABLE {s}.c AS SELECT * FROM {s}.t
-- query
ALTER TABLE {s}.c REPLICA IDENTITY FULL
-- query
UPDATE {s}.c SET b = 'y' WHERE id < 5

--- inheritance
-- before
CREATE TABLE {s}.mother (id int PRIMARY KEY, a text)
-- before
CREATE TABLE {s}.child (b text, PRIMARY KEY (id)) INHERITS ({s}.mother)
-- before
INSERT INTO {s}.child VALUES (1, 'a', 'b')
-- query
ALTER TABLE {s}.mother ADD c int
-- query
ALTER TABLE {s}.mother RENAME a TO aa
-- query
ALTER TABLE {s}.mother DROP aa
-- query
INSERT INTO {s}.child VALUES (2, 'x', 9)
-- query
ALTER TABLE {s}.child NO INHERIT {s}.mother

--- replica identity and options
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t REPLICA IDENTITY FULL
-- query
ALTER TABLE {s}.t SET (fillfactor = 70, autovacuum_enabled = off)
-- query
ALTER TABLE {s}.t RESET (fillfactor)
-- query
UPDATE {s}.t SET b = 'full' WHERE id = 1

--- schemas
-- query
CREATE SCHEMA {s}_x CREATE TABLE t (id int PRIMARY KEY)
-- query
ALTER SCHEMA {s}_x RENAME TO {s}_y
-- query
CREATE SCHEMA {s}_gone
-- query
CREATE TABLE {s}_gone.t (id int PRIMARY KEY)
-- query
DROP SCHEMA {s}_gone CASCADE

--- create table as
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
CREATE TABLE {s}.c AS SELECT id, b FROM {s}.t WHERE id < 5
-- query
SELECT id INTO {s}.i FROM {s}.t WHERE id < 3
-- query
INSERT INTO {s}.c VALUES (500, 'later')

--- another type
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ALTER a TYPE bigint
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- another type using
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ALTER a DROP DEFAULT, ALTER a TYPE text USING 'n' || (a * 3), ALTER b TYPE int USING id + 1
-- query
INSERT INTO {s}.t VALUES (51, 'n', 3)

--- volatile defaults
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ADD u uuid NOT NULL DEFAULT gen_random_uuid(), ADD c timestamptz DEFAULT clock_timestamp()
-- query
CREATE SEQUENCE {s}.q; ALTER TABLE {s}.t ADD n int DEFAULT nextval('{s}.q')
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g

--- comments
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
COMMENT ON CONSTRAINT t_pkey ON {s}.t IS 'key'
-- query
COMMENT ON SCHEMA {s} IS 'here'
-- query
COMMENT ON TABLE {s}.t IS 'x'
-- query
COMMENT ON TABLE {s}.t IS NULL

--- drop a type with its columns
-- before
CREATE TYPE {s}.e AS ENUM ('x')
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, e {s}.e)
-- before
INSERT INTO {s}.t VALUES (1, 'x')
-- query
DROP TYPE {s}.e CASCADE
-- query
INSERT INTO {s}.t VALUES (2)

--- refresh
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT count(*) AS n FROM {s}.t
-- query
INSERT INTO {s}.t (id, b) SELECT g, 'later' FROM generate_series(101, 110) g
-- query
REFRESH MATERIALIZED VIEW {s}.m

--- identity columns
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int DEFAULT 5, b text)
-- before
INSERT INTO {s}.t SELECT g, g * 2, 'row ' || g FROM generate_series(1, 20) g
-- query
ALTER TABLE {s}.t ALTER a DROP DEFAULT, ALTER a SET NOT NULL, ALTER a ADD GENERATED ALWAYS AS IDENTITY
-- query
ALTER TABLE {s}.t ALTER a SET GENERATED BY DEFAULT
-- query
ALTER TABLE {s}.t ALTER a DROP IDENTITY

--- indexes that another type makes anew
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a numeric(10,2), b int)
-- before
CREATE INDEX i ON {s}.t (a); CREATE INDEX j ON {s}.t (a, b); CREATE STATISTICS {s}.st ON a, b FROM {s}.t
-- query
ALTER TABLE {s}.t ALTER a TYPE numeric(12,2)
-- query
DROP INDEX {s}.i
-- query
ALTER INDEX {s}.j RENAME TO k
-- query
DROP STATISTICS {s}.st

--- rename a partitioned table
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- query
ALTER TABLE {s}.p RENAME TO "P two"
-- query
INSERT INTO {s}."P two" VALUES (1)
-- query
ALTER TABLE {s}."P two" DETACH PARTITION {s}.p1

--- filled before it is attached
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p0 PARTITION OF {s}.p FOR VALUES FROM (0) TO (20)
-- query
CREATE TABLE {s}.p1 (id int PRIMARY KEY); INSERT INTO {s}.p1 (id) VALUES (2001); ALTER TABLE {s}.p ATTACH PARTITION {s}.p1 FOR VALUES FROM (2000) TO (3000)

--- schema renamed with a trigger
-- before
CREATE SCHEMA {s}_2
-- before
CREATE TABLE {s}_2.t (id int PRIMARY KEY)
-- before
CREATE FUNCTION {s}.tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'
-- before
CREATE TRIGGER one BEFORE INSERT ON {s}_2.t FOR EACH ROW EXECUTE FUNCTION {s}.tf()
-- query
ALTER SCHEMA {s}_2 RENAME TO {s}_3
-- query
ALTER TABLE {s}_3.t DISABLE TRIGGER one
-- query
INSERT INTO {s}_3.t VALUES (11)

--- keyless table and its schema renamed
-- before
CREATE SCHEMA {s}_2
-- before
CREATE TABLE {s}_2.t (id int, g int)
-- before
ALTER TABLE {s}_2.t REPLICA IDENTITY FULL
-- before
INSERT INTO {s}_2.t (id) VALUES (1)
-- query
ALTER SCHEMA {s}_2 RENAME TO {s}_3
-- query
INSERT INTO {s}_3.t (id) VALUES (2)
-- query
UPDATE {s}_3.t SET id = 3 WHERE id = 1; CREATE INDEX ON {s}_3.t (id) WHERE g IS NOT NULL

--- columns dropped with views and policies
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text, b int)
-- before
CREATE VIEW {s}.v AS SELECT id, a FROM {s}.t
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT b FROM {s}.t
-- before
CREATE POLICY p ON {s}.t USING (b > 0)
-- query
ALTER TABLE {s}.t DROP a CASCADE
-- query
ALTER TABLE {s}.t DROP b CASCADE

--- partition with an index of its own dropped
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)
-- before
CREATE INDEX ON {s}.t (length(a))
-- query
CREATE TABLE {s}.p (LIKE {s}.t INCLUDING ALL)
-- query
ALTER TABLE {s}.t ATTACH PARTITION {s}.p FOR VALUES FROM (1) TO (10)
-- query
INSERT INTO {s}.t VALUES (1, 'one')
-- query
DROP TABLE {s}.p

--- partition with another default than its parent
-- before
CREATE SCHEMA {s}_2
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a serial, b int DEFAULT 1) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p PARTITION OF {s}.t FOR VALUES FROM (0) TO (10)
-- query
ALTER TABLE {s}.p ALTER a SET DEFAULT NULL, ALTER b SET DEFAULT 3
-- query
ALTER TABLE {s}.t SET SCHEMA {s}_2
-- query
ALTER TABLE {s}_2.t ALTER b TYPE bigint

--- like a table with an identity
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int GENERATED BY DEFAULT AS IDENTITY)
-- query
CREATE TABLE {s}.u (LIKE {s}.t INCLUDING ALL)
-- query
INSERT INTO {s}.u (id) VALUES (1)

--- types of values that are there
-- before
CREATE TYPE {s}.mood AS ENUM ('sad', 'ok')
-- before
CREATE TYPE {s}.pair AS (x int, y {s}.mood)
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, m {s}.mood, many {s}.mood[], p {s}.pair)
-- before
INSERT INTO {s}.t VALUES (1, 'ok', '{ok,sad}', (1, 'ok')), (2, 'sad', '{}', NULL)
-- query
ALTER TYPE {s}.mood RENAME VALUE 'ok' TO 'fine'
-- query
UPDATE {s}.t SET m = 'fine' WHERE id = 2
-- query
ALTER TYPE {s}.pair ADD ATTRIBUTE z int
-- query
INSERT INTO {s}.t VALUES (3, 'fine', '{fine}', (7, 'sad', 3))

--- moved with what counts
-- before
CREATE SCHEMA {s}_2
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, a serial)
-- query
ALTER TABLE {s}.t SET SCHEMA {s}_2
-- query
ALTER SEQUENCE {s}_2.t_id_seq RENAME TO numbers
-- query
INSERT INTO {s}_2.t DEFAULT VALUES

--- another type of a generated column
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id * 2) STORED)
-- before
INSERT INTO {s}.t VALUES (1)
-- query
ALTER TABLE {s}.t ALTER a TYPE bigint
-- query
INSERT INTO {s}.t VALUES (2)

--- index of a detached partition dropped
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p PARTITION OF {s}.t FOR VALUES FROM (1) TO (10)
-- before
CREATE INDEX ON {s}.t (a)
-- query
ALTER TABLE {s}.t DETACH PARTITION {s}.p
-- query
DROP INDEX {s}.p_a_idx

--- not null of parents and heirs
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int, b int NOT NULL, c int)
-- before
CREATE TABLE {s}.u (d int) INHERITS ({s}.t)
-- query
ALTER TABLE {s}.t ALTER a SET NOT NULL
-- query
ALTER TABLE {s}.t ALTER b DROP NOT NULL
-- query
ALTER TABLE {s}.u ALTER c SET NOT NULL
-- query
ALTER TABLE {s}.u ALTER d SET NOT NULL

--- disabled trigger renamed
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- before
CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$
-- before
CREATE TRIGGER a BEFORE INSERT ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.f()
-- query
ALTER TABLE {s}.t DISABLE TRIGGER a
-- query
ALTER TRIGGER a ON {s}.t RENAME TO b

--- identity of a partitioned table
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, a int) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p PARTITION OF {s}.t FOR VALUES FROM (1) TO (1000)
-- query
INSERT INTO {s}.t (a) VALUES (1)
-- query
ALTER TABLE {s}.t ALTER id SET GENERATED BY DEFAULT
-- query
ALTER TABLE {s}.t ALTER id DROP IDENTITY
-- query
ALTER TABLE {s}.t ALTER id ADD GENERATED ALWAYS AS IDENTITY (START 50)
-- query
INSERT INTO {s}.t (a) VALUES (2)

--- schemas that swap their names
-- before
CREATE SCHEMA {s}_a
-- before
CREATE SCHEMA {s}_b
-- before
CREATE TABLE {s}_a.t (id int PRIMARY KEY, a int)
-- before
CREATE TABLE {s}_b.t (id int PRIMARY KEY, b int)
-- query
INSERT INTO {s}_a.t VALUES (1); INSERT INTO {s}_b.t VALUES (2)
-- query
ALTER SCHEMA {s}_a RENAME TO {s}_c; ALTER SCHEMA {s}_b RENAME TO {s}_a; ALTER SCHEMA {s}_c RENAME TO {s}_b
-- query
INSERT INTO {s}_a.t VALUES (3); UPDATE {s}_b.t SET a = 4
-- query
ALTER SCHEMA {s}_a RENAME TO {s}_c
-- query
INSERT INTO {s}_c.t VALUES (5)
-- query
ALTER SCHEMA {s}_b RENAME TO {s}_a; INSERT INTO {s}_a.t VALUES (6); ALTER SCHEMA {s}_c RENAME TO {s}_b
-- query
UPDATE {s}_b.t SET b = 7; UPDATE {s}_a.t SET a = 8

--- another type of a key that others refer to
-- before
CREATE TABLE {s}.a (id int PRIMARY KEY, n int CHECK (n > 0), UNIQUE (n))
-- before
CREATE TABLE {s}.c (id int PRIMARY KEY, a int REFERENCES {s}.a)
-- before
INSERT INTO {s}.a VALUES (1, 1), (2, 2)
-- before
INSERT INTO {s}.c VALUES (1, 1)
-- query
ALTER TABLE {s}.a ALTER id TYPE bigint, ALTER n TYPE bigint
-- query
ALTER TABLE {s}.c ALTER a TYPE bigint
-- query
INSERT INTO {s}.c VALUES (2, 2)

--- constraints from indexes
-- before
CREATE TABLE {s}.t (id int, a int NOT NULL, b int)
-- before
INSERT INTO {s}.t VALUES (1, 1, 1)
-- query
CREATE UNIQUE INDEX i ON {s}.t (id)
-- query
ALTER TABLE {s}.t ADD PRIMARY KEY USING INDEX i
-- query
CREATE UNIQUE INDEX j ON {s}.t (a, b)
-- query
ALTER TABLE {s}.t ADD CONSTRAINT k UNIQUE USING INDEX j DEFERRABLE
-- query
UPDATE {s}.t SET b = 2
-- query
ALTER TABLE {s}.t DROP CONSTRAINT k
-- query
CREATE INDEX l ON {s}.t (b)

--- dropped with all that needs it
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- before
CREATE VIEW {s}.v AS SELECT id FROM {s}.t
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT id FROM {s}.v
-- before
CREATE VIEW {s}.w AS SELECT id FROM {s}.m
-- before
CREATE TABLE {s}.u (id int PRIMARY KEY)
-- before
CREATE FUNCTION {s}.f() RETURNS SETOF {s}.u LANGUAGE sql AS 'SELECT * FROM {s}.u'
-- query
DROP VIEW {s}.v CASCADE
-- query
DROP TABLE {s}.u CASCADE

--- column of a parent alone dropped
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int, b int)
-- before
CREATE TABLE {s}.u (c int) INHERITS ({s}.t)
-- before
INSERT INTO {s}.u VALUES (1, 2, 3, 4)
-- query
ALTER TABLE ONLY {s}.t DROP a
-- query
ALTER TABLE {s}.t DROP b
-- query
INSERT INTO {s}.u VALUES (5, 6, 7)

--- dropped and added under one name
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, d date)
-- before
INSERT INTO {s}.t VALUES (1, '2024-01-02')
-- query
ALTER TABLE {s}.t DROP d, ADD d date
-- query
INSERT INTO {s}.t VALUES (2, '2025-01-02')

--- odd values of older rows
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- before
INSERT INTO {s}.t VALUES (1)
-- query
ALTER TABLE {s}.t ADD b box DEFAULT '(1,2),(3,4)', ADD a int[] DEFAULT '{1,2,3}', ADD q text DEFAULT 'it''s "q", \x'
-- query
SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Shanghai'; SET extra_float_digits = -5;
ALTER TABLE {s}.t ADD d date DEFAULT '31/12/2024', ADD ts timestamptz DEFAULT '2024-03-04 10:00+08',
    ADD f float8 DEFAULT 0.1234567890123456

--- materialized view emptied
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT id FROM {s}.t
-- query
REFRESH MATERIALIZED VIEW {s}.m WITH NO DATA

--- default partition split
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.rest PARTITION OF {s}.t DEFAULT
-- before
INSERT INTO {s}.t SELECT g, 'a' || g FROM generate_series(1, 20) g
-- query
BEGIN; ALTER TABLE {s}.t DETACH PARTITION {s}.rest; CREATE TABLE {s}.p PARTITION OF {s}.t FOR VALUES FROM (1) TO (10);
INSERT INTO {s}.t SELECT * FROM {s}.rest WHERE id < 10; DELETE FROM {s}.rest WHERE id < 10;
ALTER TABLE {s}.t ATTACH PARTITION {s}.rest DEFAULT; COMMIT
-- query
INSERT INTO {s}.t VALUES (21, 'later'), (0, 'too')

--- renamed type of an array with a view on it
-- before
CREATE TYPE {s}.e AS ENUM ('a', 'b')
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, m {s}.e[])
-- before
CREATE VIEW {s}.v AS SELECT m FROM {s}.t
-- query
ALTER TYPE {s}.e RENAME TO f
-- query
ALTER TABLE {s}.t ADD x int

--- schemas renamed between rows
-- before
CREATE SCHEMA {s}_2
-- before
CREATE TABLE {s}_2.t (id int PRIMARY KEY, a text)
-- query
INSERT INTO {s}_2.t SELECT g FROM generate_series(1, 9) g
-- query
ALTER SCHEMA {s}_2 RENAME TO {s}_3
-- query
UPDATE {s}_3.t SET a = 'later' WHERE id > 5
-- query
DELETE FROM {s}_3.t WHERE id = 1; ALTER SCHEMA {s}_3 RENAME TO {s}_4; DELETE FROM {s}_4.t WHERE id = 2
-- query
INSERT INTO {s}_4.t VALUES (10)
-- query
CREATE SCHEMA {s}_2
-- query
CREATE TABLE {s}_2.t (id int PRIMARY KEY, a text); INSERT INTO {s}_2.t VALUES (1, 'other')
-- query
INSERT INTO {s}_2.t VALUES (2); INSERT INTO {s}_4.t VALUES (11)

--- dropped with heirs and keys
-- before
CREATE TABLE {s}.a (id int PRIMARY KEY)
-- before
CREATE TABLE {s}.b (PRIMARY KEY (id)) INHERITS ({s}.a)
-- before
CREATE TABLE {s}.c (id int PRIMARY KEY REFERENCES {s}.b)
-- before
CREATE VIEW {s}.v AS SELECT id FROM {s}.c
-- before
CREATE VIEW {s}.w AS SELECT id FROM {s}.v
-- query
DROP VIEW {s}.v CASCADE
-- query
DROP TABLE {s}.a, {s}.c CASCADE

--- index of a constraint renamed
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, u int GENERATED ALWAYS AS IDENTITY)
-- query
ALTER INDEX {s}.t_pkey RENAME TO "I x"
-- query
ALTER SEQUENCE {s}.t_u_seq INCREMENT 3 MAXVALUE 5000
-- query
ALTER SEQUENCE {s}.t_u_seq RENAME TO q

--- no cast from type to type
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int[])
-- before
INSERT INTO {s}.t VALUES (1, '{1,2,3}')
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, a int[]) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
INSERT INTO {s}.p VALUES (1, '{1,2,3}')
-- query
ALTER TABLE {s}.t ALTER a TYPE int USING a[1]
-- query
ALTER TABLE {s}.p ALTER a TYPE int USING a[2]
-- query
INSERT INTO {s}.t VALUES (2, 3)

--- serial among others
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY)
-- query
ALTER TABLE {s}.t ADD a text, ADD b serial, ADD c bigserial
-- query
INSERT INTO {s}.t VALUES (2)

--- rows with a new label
-- before
CREATE TYPE {s}.e AS ENUM ('a')
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, e {s}.e)
-- query
ALTER TYPE {s}.e ADD VALUE 'b'
-- query
INSERT INTO {s}.t VALUES (1, 'b')

--- index of a parent alone
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
CREATE TABLE {s}.p2 PARTITION OF {s}.p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p21 PARTITION OF {s}.p2 FOR VALUES FROM (10) TO (20)
-- query
CREATE INDEX whole ON ONLY {s}.p (a)
-- query
CREATE INDEX CONCURRENTLY "First one" ON {s}.p1 (a)
-- query
ALTER INDEX {s}.whole ATTACH PARTITION {s}."First one"
-- query
CREATE INDEX second ON ONLY {s}.p2 (a); CREATE INDEX second_1 ON {s}.p21 (a);
ALTER INDEX {s}.second ATTACH PARTITION {s}.second_1; ALTER INDEX {s}.whole ATTACH PARTITION {s}.second
-- query
CREATE INDEX half ON ONLY {s}.p (b); CREATE INDEX half_1 ON {s}.p1 (b); ALTER INDEX {s}.half ATTACH PARTITION {s}.half_1
-- query
CREATE INDEX lonely ON ONLY {s}.p (b, a)
-- query
CREATE UNIQUE INDEX single ON {s}.p (id, a)
-- query
CREATE INDEX gone ON ONLY {s}.p (a, b); CREATE INDEX gone_1 ON {s}.p1 (a, b); ALTER INDEX {s}.gone ATTACH PARTITION {s}.gone_1
-- query
DROP INDEX {s}.gone
-- query
INSERT INTO {s}.p SELECT g, g, 'row' FROM generate_series(0, 19) g

--- key of a parent alone
-- before
CREATE TABLE {s}.p (id int NOT NULL, a int NOT NULL) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
CREATE UNIQUE INDEX own ON {s}.p1 (id, a)
-- query
ALTER TABLE ONLY {s}.p ADD CONSTRAINT key UNIQUE (id, a)
-- query
ALTER TABLE {s}.p1 ADD CONSTRAINT own_key UNIQUE USING INDEX own
-- query
ALTER INDEX {s}.key ATTACH PARTITION {s}.own_key
-- query
INSERT INTO {s}.p VALUES (1, 1)

--- tables of a type
-- before
CREATE TYPE {s}.pair AS (id int, a text)
-- before
CREATE TABLE {s}.free (id int PRIMARY KEY, a text)
-- query
CREATE TABLE {s}.t OF {s}.pair (PRIMARY KEY (id), a WITH OPTIONS DEFAULT 'x' NOT NULL)
-- query
INSERT INTO {s}.t VALUES (1, 'one')
-- query
ALTER TABLE {s}.free OF {s}.pair
-- query
ALTER TYPE {s}.pair ADD ATTRIBUTE b int CASCADE
-- query
ALTER TYPE {s}.pair RENAME ATTRIBUTE a TO aa CASCADE
-- query
INSERT INTO {s}.t VALUES (2, 'two', 2)
-- query
ALTER TYPE {s}.pair ALTER ATTRIBUTE b TYPE bigint CASCADE
-- query
ALTER TYPE {s}.pair RENAME TO couple
-- query
ALTER TABLE {s}.free NOT OF
-- query
ALTER TYPE {s}.couple DROP ATTRIBUTE b CASCADE
-- query
INSERT INTO {s}.t VALUES (3, 'three'); INSERT INTO {s}.free VALUES (4, 'four', 5)

--- check of a parent that heirs had
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, a int) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
ALTER TABLE {s}.p1 ADD CONSTRAINT positive CHECK (a > 0)
-- before
CREATE TABLE {s}.mother (id int PRIMARY KEY, a int)
-- before
CREATE TABLE {s}.child (CONSTRAINT positive CHECK (a > 0), CONSTRAINT own CHECK (a < 99)) INHERITS ({s}.mother)
-- before
CREATE TABLE {s}.second (CONSTRAINT positive CHECK (a > 0)) INHERITS ({s}.mother)
-- query
ALTER TABLE {s}.p ADD CONSTRAINT positive CHECK (a > 0)
-- query
ALTER TABLE {s}.mother ADD CONSTRAINT positive CHECK (a > 0)
-- query
ALTER TABLE {s}.mother ADD CONSTRAINT own CHECK (a < 99)
-- query
ALTER TABLE {s}.mother DROP CONSTRAINT own
-- query
ALTER TABLE ONLY {s}.mother DROP CONSTRAINT positive
-- query
ALTER TABLE {s}.second NO INHERIT {s}.mother
-- query
CREATE TABLE {s}.late (CONSTRAINT small CHECK (a < 5)) INHERITS ({s}.mother); ALTER TABLE {s}.mother ADD CONSTRAINT small CHECK (a < 5)
-- query
CREATE TABLE {s}.both (CONSTRAINT small CHECK (a < 5)) INHERITS ({s}.mother)
-- query
ALTER TABLE {s}.mother RENAME CONSTRAINT small TO little
-- query
CREATE TABLE {s}.p2 PARTITION OF {s}.p (CONSTRAINT positive CHECK (a > 0)) FOR VALUES FROM (10) TO (20)
-- query
ALTER TABLE {s}.p DROP CONSTRAINT positive

--- not null of a parent alone
-- before
CREATE TABLE {s}.mother (id int PRIMARY KEY, a int, b int NOT NULL)
-- before
CREATE TABLE {s}.child (c int) INHERITS ({s}.mother)
-- query
DO $$ BEGIN IF current_setting('server_version_num')::int < 180000 THEN
EXECUTE 'ALTER TABLE ONLY {s}.mother ALTER a SET NOT NULL'; ELSE
EXECUTE 'ALTER TABLE ONLY {s}.mother ADD CONSTRAINT mine NOT NULL a NO INHERIT'; END IF; END $$
-- query
ALTER TABLE ONLY {s}.mother ALTER b DROP NOT NULL
-- query
INSERT INTO {s}.child VALUES (1, 2, 3, 4)

--- detached beside others
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, a int) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
INSERT INTO {s}.p VALUES (1, 1)
-- query
ALTER TABLE {s}.p DETACH PARTITION {s}.p1 CONCURRENTLY
-- query
INSERT INTO {s}.p1 VALUES (2, 2)
-- query
ALTER TABLE {s}.p1 ADD b int

--- another expression of a generated column
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a + 1) STORED CHECK (g > 0), z int)
-- before
CREATE INDEX i ON {s}.t (g); CREATE VIEW {s}.v AS SELECT g, a FROM {s}.t
-- before
COMMENT ON COLUMN {s}.t.g IS 'made'
-- before
INSERT INTO {s}.t (id, a) SELECT g, g FROM generate_series(1, 5) g
-- query
DO $$ BEGIN IF current_setting('server_version_num')::int >= 170000 THEN
EXECUTE 'ALTER TABLE {s}.t ALTER g SET EXPRESSION AS (a * 2)'; END IF; END $$
-- query
INSERT INTO {s}.t (id, a) VALUES (6, 6)
-- query
DO $$ BEGIN IF current_setting('server_version_num')::int >= 170000 THEN
EXECUTE 'ALTER TABLE {s}.t ALTER g SET EXPRESSION AS (a * 3), ALTER z SET DEFAULT 5'; END IF; END $$
-- query
ALTER TABLE {s}.t RENAME a TO aa
-- query
ALTER TABLE {s}.t ADD h int GENERATED ALWAYS AS (aa + 5) STORED; CREATE INDEX j ON {s}.t (h); ALTER TABLE {s}.t ALTER g DROP EXPRESSION

--- comments on parts
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int CONSTRAINT up CHECK (a > 0))
-- before
CREATE INDEX i ON {s}.t (a); CREATE POLICY p ON {s}.t; CREATE STATISTICS {s}.st ON id, a FROM {s}.t
-- before
CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$
-- before
CREATE TRIGGER one BEFORE INSERT ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.f()
-- before
CREATE TYPE {s}.pair AS (x int, y int); CREATE DOMAIN {s}.d AS int CONSTRAINT small CHECK (VALUE < 9)
-- before
CREATE VIEW {s}.v AS SELECT id, a FROM {s}.t; CREATE MATERIALIZED VIEW {s}.m AS SELECT id, a FROM {s}.t
-- before
CREATE RULE r AS ON DELETE TO {s}.v DO INSTEAD NOTHING; CREATE TYPE {s}.e AS ENUM ('a'); CREATE SEQUENCE {s}.q
-- query
COMMENT ON COLUMN {s}.pair.x IS 'x of it'
-- query
COMMENT ON COLUMN {s}.m.a IS 'a of m'
-- query
COMMENT ON COLUMN {s}.v.a IS 'a of v'
-- query
COMMENT ON CONSTRAINT small ON DOMAIN {s}.d IS 'it''s small'
-- query
COMMENT ON CONSTRAINT up ON {s}.t IS 'up'
-- query
COMMENT ON INDEX {s}.i IS 'i'
-- query
COMMENT ON INDEX {s}.t_pkey IS 'of the key'
-- query
COMMENT ON TRIGGER one ON {s}.t IS 'one'
-- query
COMMENT ON POLICY p ON {s}.t IS 'p'
-- query
COMMENT ON RULE r ON {s}.v IS 'r'
-- query
COMMENT ON STATISTICS {s}.st IS 'st'
-- query
COMMENT ON SEQUENCE {s}.q IS 'q'
-- query
COMMENT ON TYPE {s}.e IS 'e'
-- query
COMMENT ON DOMAIN {s}.d IS 'd'
-- query
COMMENT ON VIEW {s}.v IS 'v'
-- query
COMMENT ON MATERIALIZED VIEW {s}.m IS 'm'
-- query
CREATE TYPE {s}.late AS (x int); COMMENT ON COLUMN {s}.late.x IS 'gone'; COMMENT ON COLUMN {s}.late.x IS NULL

--- comments at once
-- query
BEGIN; CREATE TYPE {s}.pair AS (x int, y int); COMMENT ON COLUMN {s}.pair.y IS 'y'; ALTER TYPE {s}.pair ADD ATTRIBUTE z int;
COMMENT ON COLUMN {s}.pair.z IS 'z'; ALTER TYPE {s}.pair RENAME ATTRIBUTE z TO zz; COMMIT
-- query
CREATE TABLE {s}.t (id int PRIMARY KEY); CREATE MATERIALIZED VIEW {s}.m AS SELECT id FROM {s}.t; COMMENT ON COLUMN {s}.m.id IS 'id'
-- query
ALTER MATERIALIZED VIEW {s}.m RENAME id TO di
-- query
CREATE DOMAIN {s}.d AS int CONSTRAINT small CHECK (VALUE < 9); COMMENT ON CONSTRAINT small ON DOMAIN {s}.d IS 'small';
ALTER DOMAIN {s}.d RENAME CONSTRAINT small TO little

--- other kinds moved to another schema
-- before
CREATE SCHEMA {s}_to
-- before
CREATE TYPE {s}.mood AS ENUM ('low', 'high'); CREATE DOMAIN {s}.amount AS int CHECK (VALUE > 0)
-- before
CREATE TYPE {s}.pair AS (x int, y text); CREATE TYPE {s}.span AS RANGE (SUBTYPE = int4)
-- before
CREATE SEQUENCE {s}.counter START 7; CREATE FUNCTION {s}.twice(int) RETURNS int LANGUAGE sql AS 'SELECT $1 * 2'
-- before
CREATE PROCEDURE {s}.nothing(a int) LANGUAGE sql AS 'SELECT 1'
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, m {s}.mood, a {s}.amount, p {s}.pair, r {s}.span, n bigint DEFAULT nextval('{s}.counter'))
-- before
CREATE STATISTICS {s}.st (ndistinct) ON id, n FROM {s}.t; INSERT INTO {s}.t VALUES (1, 'low', 3, '(1,a)', '[1,4)')
-- before
CREATE VIEW {s}.v AS SELECT id FROM {s}.t; CREATE MATERIALIZED VIEW {s}.mv AS SELECT count(*) FROM {s}.t
-- query
ALTER TYPE {s}.mood SET SCHEMA {s}_to; ALTER DOMAIN {s}.amount SET SCHEMA {s}_to
-- query
ALTER TYPE {s}.pair SET SCHEMA {s}_to; ALTER TYPE {s}.span SET SCHEMA {s}_to
-- query
ALTER SEQUENCE {s}.counter SET SCHEMA {s}_to; ALTER FUNCTION {s}.twice(int) SET SCHEMA {s}_to
-- query
ALTER PROCEDURE {s}.nothing(int) SET SCHEMA {s}_to; ALTER VIEW {s}.v SET SCHEMA {s}_to
-- query
ALTER MATERIALIZED VIEW {s}.mv SET SCHEMA {s}_to; ALTER STATISTICS {s}.st SET SCHEMA {s}_to
-- query
INSERT INTO {s}.t VALUES (2, 'high', 4, '(2,b)', '[5,9)')

--- heirs that come and go
-- before
CREATE TABLE {s}.parent (id int PRIMARY KEY, a text CHECK (a <> ''))
-- before
CREATE TABLE {s}.heir (id int PRIMARY KEY, a text CHECK (a <> ''), b int)
-- before
INSERT INTO {s}.heir VALUES (1, 'x', 2)
-- query
ALTER TABLE {s}.heir ADD CONSTRAINT parent_a_check CHECK (a <> '')
-- query
ALTER TABLE {s}.heir INHERIT {s}.parent
-- query
INSERT INTO {s}.heir VALUES (2, 'y', 3); INSERT INTO {s}.parent VALUES (3, 'z')
-- query
ALTER TABLE {s}.heir NO INHERIT {s}.parent
-- query
ALTER TABLE {s}.parent ADD c int

--- replica identities
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int NOT NULL, b text); CREATE UNIQUE INDEX by_a ON {s}.t (a)
-- before
INSERT INTO {s}.t SELECT g, g * 10, 'row' FROM generate_series(1, 10) g
-- query
ALTER TABLE {s}.t REPLICA IDENTITY USING INDEX by_a
-- query
UPDATE {s}.t SET id = id + 100 WHERE a = 20; DELETE FROM {s}.t WHERE a = 30
-- query
ALTER TABLE {s}.t REPLICA IDENTITY FULL
-- query
UPDATE {s}.t SET a = a + 1 WHERE id = 4; DELETE FROM {s}.t WHERE id = 5
-- query
ALTER TABLE {s}.t REPLICA IDENTITY NOTHING
-- query
INSERT INTO {s}.t VALUES (50, 500, 'only inserts')
-- query
ALTER TABLE {s}.t REPLICA IDENTITY DEFAULT
-- query
UPDATE {s}.t SET b = 'by key' WHERE id = 6

--- row security off again
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text); ALTER TABLE {s}.t ENABLE ROW LEVEL SECURITY
-- before
ALTER TABLE {s}.t FORCE ROW LEVEL SECURITY; CREATE POLICY p ON {s}.t USING (a = current_user)
-- query
ALTER TABLE {s}.t NO FORCE ROW LEVEL SECURITY
-- query
ALTER TABLE {s}.t DISABLE ROW LEVEL SECURITY
-- query
DROP POLICY p ON {s}.t
-- query
INSERT INTO {s}.t VALUES (1, 'x')

--- states of triggers
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text)
-- before
CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'
-- query
CREATE TRIGGER one BEFORE INSERT ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.f()
-- query
CREATE TRIGGER two BEFORE UPDATE ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.f()
-- query
CREATE TRIGGER three BEFORE DELETE ON {s}.t FOR EACH ROW EXECUTE FUNCTION {s}.f()
-- query
ALTER TABLE {s}.t ENABLE ALWAYS TRIGGER one
-- query
ALTER TABLE {s}.t ENABLE REPLICA TRIGGER two
-- query
ALTER TABLE {s}.t DISABLE TRIGGER three
-- query
ALTER TABLE {s}.t ENABLE TRIGGER one
-- query
ALTER TABLE {s}.t ENABLE TRIGGER two
-- query
INSERT INTO {s}.t VALUES (1, 'x')

--- procedures
-- query
CREATE PROCEDURE {s}.p(a int, INOUT b text) LANGUAGE plpgsql AS 'BEGIN b := a; END'
-- query
ALTER PROCEDURE {s}.p(int, text) SECURITY DEFINER SET search_path = pg_catalog
-- query
ALTER PROCEDURE {s}.p(int, text) RENAME TO q
-- query
CREATE OR REPLACE PROCEDURE {s}.q(a int, INOUT b text) LANGUAGE plpgsql AS 'BEGIN b := a + 1; END'
-- query
CREATE PROCEDURE {s}.gone() LANGUAGE sql AS 'SELECT 1'
-- query
DROP PROCEDURE {s}.gone()

--- renamed and dropped
-- before
CREATE DOMAIN {s}.small AS int CHECK (VALUE < 100); CREATE DOMAIN {s}.gone AS text
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a {s}.small); CREATE MATERIALIZED VIEW {s}.mv AS SELECT * FROM {s}.t
-- before
CREATE FUNCTION {s}.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW {s}.v AS SELECT id FROM {s}.t
-- before
CREATE RULE r AS ON INSERT TO {s}.t DO ALSO NOTHING; CREATE STATISTICS {s}.st ON id, a FROM {s}.t
-- query
ALTER DOMAIN {s}.small RENAME TO less; ALTER DOMAIN {s}.less RENAME CONSTRAINT small_check TO limited
-- query
ALTER RULE r ON {s}.t RENAME TO rr; ALTER STATISTICS {s}.st RENAME TO stt; ALTER VIEW {s}.v RENAME TO vv
-- query
DROP DOMAIN {s}.gone; DROP MATERIALIZED VIEW {s}.mv; DROP FUNCTION {s}.f()
-- query
DROP RULE rr ON {s}.t; DROP STATISTICS {s}.stt
-- query
INSERT INTO {s}.t VALUES (1, 5)

--- what 18 has
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int); CREATE TABLE {s}.o (id int PRIMARY KEY)
-- before
CREATE TABLE {s}.u (id int PRIMARY KEY, a int); INSERT INTO {s}.t VALUES (1, 2); INSERT INTO {s}.u VALUES (1, 2)
-- query
DO $$ BEGIN IF current_setting('server_version_num')::int >= 180000 THEN
    EXECUTE 'ALTER TABLE {s}.u ADD v int GENERATED ALWAYS AS (a * 2) VIRTUAL';
    EXECUTE 'ALTER TABLE {s}.t ADD CONSTRAINT small CHECK (a < 5) NOT ENFORCED';
    EXECUTE 'ALTER TABLE {s}.t ADD CONSTRAINT other FOREIGN KEY (a) REFERENCES {s}.o NOT ENFORCED';
    EXECUTE 'CREATE TABLE {s}.times (id int4range, at tsrange, PRIMARY KEY (id, at WITHOUT OVERLAPS))';
END IF; END $$
-- query
INSERT INTO {s}.t (id, a) VALUES (2, 9); INSERT INTO {s}.u (id, a) VALUES (2, 9)
-- query
DO $$ BEGIN IF current_setting('server_version_num')::int >= 180000 THEN
    EXECUTE $i$ INSERT INTO {s}.times VALUES ('[1,2)', '[2024-01-01,2024-02-01)'), ('[1,2)', '[2024-02-01,2024-03-01)') $i$;
END IF; END $$

--- settings of columns
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a text, b text, c int, d text)
-- before
CREATE TABLE {s}.p (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM (0) TO (10)
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT id, a FROM {s}.p
-- query
ALTER TABLE {s}.t ALTER a SET STORAGE EXTERNAL, ALTER b SET STATISTICS 500, ALTER d SET COMPRESSION pglz
-- query
ALTER TABLE {s}.t ALTER c SET (n_distinct = -0.5, n_distinct_inherited = 5)
-- query
ALTER TABLE {s}.t ALTER c RESET (n_distinct_inherited), ALTER b SET STATISTICS -1, ALTER b SET STORAGE MAIN
-- query
CREATE TABLE {s}.u (LIKE {s}.t INCLUDING ALL)
-- query
ALTER TABLE {s}.t ADD e text COMPRESSION pglz; ALTER TABLE {s}.t ALTER e SET STORAGE EXTERNAL
-- query
ALTER TABLE {s}.t ALTER d SET COMPRESSION default, ALTER a TYPE varchar(90)
-- query
ALTER TABLE {s}.p ALTER a SET STORAGE EXTERNAL, ALTER a SET STATISTICS 100
-- query
ALTER TABLE ONLY {s}.p ALTER a SET STATISTICS 200
-- query
CREATE TABLE {s}.p2 PARTITION OF {s}.p FOR VALUES FROM (10) TO (20)
-- query
ALTER TABLE {s}.p1 ALTER a SET STORAGE MAIN
-- query
ALTER MATERIALIZED VIEW {s}.m ALTER a SET STATISTICS 50, ALTER a SET STORAGE EXTERNAL
-- query
INSERT INTO {s}.t VALUES (1, 'a', 'b', 3, 'd', 'e')

--- settings of tables and indexes
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int, b text); CREATE INDEX i ON {s}.t (a); CREATE INDEX j ON {s}.t ((a + 1), b)
-- before
CREATE MATERIALIZED VIEW {s}.m AS SELECT id, a FROM {s}.t; CREATE INDEX k ON {s}.m (a)
-- before
CREATE VIEW {s}.v AS SELECT id FROM {s}.t; CREATE STATISTICS {s}.st ON a, b FROM {s}.t; CREATE SEQUENCE {s}.q
-- query
ALTER TABLE {s}.t SET (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.5, toast.autovacuum_enabled = off)
-- query
ALTER INDEX {s}.i SET (fillfactor = 70, deduplicate_items = off)
-- query
ALTER INDEX {s}.i RESET (deduplicate_items)
-- query
ALTER INDEX {s}.t_pkey SET (fillfactor = 50)
-- query
ALTER INDEX {s}.j ALTER COLUMN 1 SET STATISTICS 300
-- query
ALTER TABLE {s}.t CLUSTER ON t_pkey
-- query
ALTER MATERIALIZED VIEW {s}.m SET (fillfactor = 80)
-- query
ALTER MATERIALIZED VIEW {s}.m CLUSTER ON k
-- query
ALTER VIEW {s}.v SET (security_barrier = true)
-- query
ALTER STATISTICS {s}.st SET STATISTICS 77
-- query
CREATE TABLE {s}.u (id int PRIMARY KEY WITH (fillfactor = 40), a text) WITH (fillfactor = 30, toast.autovacuum_enabled = off)
-- query
CREATE UNLOGGED TABLE {s}.fast (id int PRIMARY KEY); CREATE TABLE {s}.slow (id int PRIMARY KEY)
-- query
ALTER TABLE {s}.fast SET LOGGED; ALTER TABLE {s}.slow SET UNLOGGED

--- sorted by indexes
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int); CREATE INDEX j ON {s}.t (a); CREATE INDEX i ON {s}.t (a)
-- before
CREATE TABLE {s}.u (id int PRIMARY KEY, a int); CREATE INDEX k ON {s}.u (a); ALTER TABLE {s}.u CLUSTER ON k
-- query
ALTER TABLE {s}.t CLUSTER ON i
-- query
ALTER TABLE {s}.t CLUSTER ON t_pkey
-- query
ALTER TABLE {s}.t CLUSTER ON i
-- query
ALTER TABLE {s}.t CLUSTER ON j
-- query
ALTER TABLE {s}.u SET WITHOUT CLUSTER

--- generated columns of heirs become plain ones
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY RANGE (id)
-- before
CREATE TABLE {s}.p PARTITION OF {s}.t FOR VALUES FROM (1) TO (10)
-- before
CREATE TABLE {s}.parent (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id * 2) STORED)
-- before
CREATE TABLE {s}.heir (b int, PRIMARY KEY (id)) INHERITS ({s}.parent)
-- before
INSERT INTO {s}.t VALUES (1); INSERT INTO {s}.parent VALUES (1); INSERT INTO {s}.heir (id) VALUES (2)
-- query
ALTER TABLE {s}.t ALTER a DROP EXPRESSION
-- query
ALTER TABLE {s}.parent ALTER a DROP EXPRESSION
-- query
INSERT INTO {s}.t VALUES (2, 7); INSERT INTO {s}.parent VALUES (3, 8); INSERT INTO {s}.heir (id, a) VALUES (4, 9)

--- exclusion constraints
-- before
CREATE TABLE {s}.t (id int PRIMARY KEY, during int4range, room int4range, CONSTRAINT once EXCLUDE USING gist (during WITH &&))
-- before
INSERT INTO {s}.t VALUES (1, '[1,5)', '[1,2)'), (2, '[5,9)', '[1,2)')
-- query
CREATE TABLE {s}.made (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&) WHERE (id > 5))
-- query
ALTER TABLE {s}.t ADD CONSTRAINT later EXCLUDE USING gist (room WITH &&, during WITH &&) DEFERRABLE INITIALLY DEFERRED
-- query
ALTER TABLE {s}.t RENAME CONSTRAINT once TO single
-- query
ALTER TABLE {s}.t RENAME during TO "When"
-- query
COMMENT ON CONSTRAINT later ON {s}.t IS 'two'
-- query
ALTER TABLE {s}.made DROP CONSTRAINT made_during_excl
-- query
ALTER TABLE {s}.made ADD EXCLUDE USING gist (during WITH -|-) WITH (fillfactor = 70)
-- query
INSERT INTO {s}.t VALUES (3, '[9,12)', '[1,2)'); INSERT INTO {s}.made VALUES (1, '[1,3)'), (2, '[2,4)')
-- query
ALTER TABLE {s}.t DROP CONSTRAINT single
-- query
INSERT INTO {s}.t VALUES (4, '[9,12)', '[5,6)')

--- aggregates
-- before
CREATE FUNCTION {s}.add(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2'
-- before
CREATE AGGREGATE {s}.total(int) (SFUNC = {s}.add, STYPE = int, INITCOND = '0')
-- query
CREATE AGGREGATE {s}."Most"(a int[]) (SFUNC = array_cat, STYPE = int[])
-- query
CREATE AGGREGATE {s}.gone(int) (SFUNC = int4larger, STYPE = int); DROP AGGREGATE {s}.gone(int)
-- query
CREATE AGGREGATE {s}.n(*) (SFUNC = int8inc, STYPE = int8, INITCOND = '0', PARALLEL = SAFE, COMBINEFUNC = int8pl)
-- query
CREATE AGGREGATE {s}.sum2(int) (SFUNC = {s}.add, STYPE = int, MSFUNC = int4pl, MINVFUNC = int4mi, MSTYPE = int, SSPACE = 8)
-- query
CREATE AGGREGATE {s}.greatest(int) (SFUNC = int4larger, STYPE = int, SORTOP = >)
-- query
ALTER FUNCTION {s}.add(int, int) RENAME TO plus
-- query
ALTER AGGREGATE {s}.total(int) RENAME TO "All"
-- query
COMMENT ON AGGREGATE {s}."All"(int) IS 'all of it'
-- query
CREATE OR REPLACE AGGREGATE {s}."All"(int) (SFUNC = {s}.plus, STYPE = int, INITCOND = '5')
-- query
ALTER AGGREGATE {s}.n(*) RENAME TO many
-- query
CREATE TABLE {s}.t (id int PRIMARY KEY); CREATE VIEW {s}.v AS SELECT {s}."All"(id), {s}.many(*) FROM {s}.t
