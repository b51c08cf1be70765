-- Schema changes as rows: what was changed, as it was before and as it is after. The row's INSERT is the entry in
-- the stream. Nothing here takes a lock that others wait for, and no error of ours fails the user's statement.

CREATE TABLE IF NOT EXISTS pgsluice.schema_log (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    by_user     text NOT NULL DEFAULT session_user,
    tag         text NOT NULL,    -- CREATE TABLE, ALTER TABLE, …
    statement   text,             -- as it was sent; may hold more than this command
    search_path text,             -- that the names in it were looked up by
    changes     jsonb NOT NULL,   -- objects, each before and after
    problem     text              -- why the changes could not be read; pipelines stop there
);

-- Which version of a schema a pipeline has brought to all of its targets.
CREATE TABLE IF NOT EXISTS pgsluice.schema_ack (
    pipeline text NOT NULL REFERENCES pgsluice.pipeline (name) ON DELETE CASCADE,
    schema   text NOT NULL,
    version  bigint NOT NULL,     -- counted by the pipeline, in the order of the stream
    log_id   bigint NOT NULL,     -- the row of schema_log that made it
    at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (pipeline, schema)
);

-- Every object as it was seen last: what the next change of it is a change from.
CREATE TABLE IF NOT EXISTS pgsluice.known_object (
    class      oid NOT NULL,      -- the catalog
    object     oid NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (class, object)
);

-- The rights that were given on something, as a list in one order.
CREATE OR REPLACE FUNCTION pgsluice.describe_rights(items aclitem[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_agg(item::text ORDER BY item::text) FROM unnest(items) AS item
$$;

-- The tables and views that an object is made with; of views, of their rules. A target may lack some.
CREATE OR REPLACE FUNCTION pgsluice.describe_needs(class oid, object oid, but oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_agg(DISTINCT format('%I.%I', n.nspname, c.relname))
  FROM pg_depend d
  LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid  -- the type of its rows
  LEFT JOIN pg_type e ON e.oid = t.typelem
  JOIN pg_class c ON c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.oid = CASE d.refclassid
      WHEN 'pg_class'::regclass THEN d.refobjid ELSE coalesce(nullif(t.typrelid, 0), e.typrelid) END
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE d.classid = class AND d.objid = object AND c.oid <> but
   AND d.refclassid IN ('pg_class'::regclass, 'pg_type'::regclass)
$$;

-- Options of a relation or column by their names.
CREATE OR REPLACE FUNCTION pgsluice.describe_options(options text[], prefix text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_object_agg(prefix || o.option_name, o.option_value) FROM pg_options_to_table(options) o
$$;

-- How much is looked at for statistics, where it was said; NULL stands for the server's own choice from version 17 on.
CREATE OR REPLACE FUNCTION pgsluice.describe_target(said int) RETURNS int
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT nullif(said, -1) $$;

-- How a column is kept, where that is not the way of its type.
CREATE OR REPLACE FUNCTION pgsluice.describe_storage(said "char") RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE said WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' WHEN 'x' THEN 'EXTENDED' END
$$;

-- Whether heirs have another rule than their parent about NULL, as they have when it alone was changed. From version 18
-- on some may have it as their own, and keep it then: it was the parent alone if all have it still.
CREATE OR REPLACE FUNCTION pgsluice.describe_heirs_differ(relation oid, of_name name, is_not_null boolean) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT nullif(CASE WHEN current_setting('server_version_num')::int < 180000 THEN bool_or(a.attnotnull <> is_not_null)
           ELSE NOT is_not_null AND bool_and(a.attnotnull) END, false)
  FROM pg_inherits i JOIN pg_attribute a ON a.attrelid = i.inhrelid
 WHERE i.inhparent = relation AND a.attname = of_name
$$;

CREATE OR REPLACE FUNCTION pgsluice.describe_sequence(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(jsonb_build_object(
           'kind', 'sequence', 'schema', n.nspname, 'name', c.relname,
           'type', format_type(s.seqtypid, NULL),
           'options', format('START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s %s', s.seqstart,
               s.seqincrement, s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END),
           'unlogged', nullif(c.relpersistence = 'u', false),
           'acl', pgsluice.describe_rights(c.relacl),
           'owned_by', (SELECT format('%I.%I.%I', tn.nspname, t.relname, a.attname)
               FROM pg_depend d
               JOIN pg_class t ON t.oid = d.refobjid
               JOIN pg_namespace tn ON tn.oid = t.relnamespace
               JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a'),
           'comment', obj_description(c.oid, 'pg_class')))
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_sequence s ON s.seqrelid = c.oid
 WHERE c.oid = relation
$$;

-- The columns of a table, or the attributes of a composite type.
CREATE OR REPLACE FUNCTION pgsluice.describe_columns(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
           'number', a.attnum,
           'name', a.attname,
           'type', format_type(a.atttypid, a.atttypmod),
           'type_id', a.atttypid::int8,
           'modifier', a.atttypmod,
           'collation', CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN (
               SELECT format('%I.%I', n.nspname, c.collname)
                 FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
                WHERE c.oid = a.attcollation) END,
           -- From version 18 on it can be the parent's rule alone.
           'not_null', CASE WHEN EXISTS (SELECT FROM pg_constraint r WHERE r.conrelid = a.attrelid
               AND r.contype = 'n' AND NOT r.conislocal AND r.conkey = ARRAY[a.attnum]) THEN to_jsonb('inherited'::text)
               ELSE to_jsonb(nullif(a.attnotnull, false)) END,
           'not_null_name', (SELECT r.conname FROM pg_constraint r  -- from 18 on it has one
               JOIN pg_class c ON c.oid = r.conrelid
              WHERE r.conrelid = a.attrelid AND r.contype = 'n' AND r.conkey = ARRAY[a.attnum]
                AND r.conname <> format('%s_%s_not_null', c.relname, a.attname)),
           'not_null_not_valid', (SELECT r.conname FROM pg_constraint r
              WHERE r.conrelid = a.attrelid AND r.contype = 'n' AND r.conkey = ARRAY[a.attnum]
                AND NOT r.convalidated AND r.conislocal),
           'not_null_no_inherit', (SELECT r.conname FROM pg_constraint r
              WHERE r.conrelid = a.attrelid AND r.contype = 'n' AND r.conkey = ARRAY[a.attnum] AND r.connoinherit),
           'heirs_differ', CASE WHEN c.relkind = 'r' AND c.relhassubclass
               THEN pgsluice.describe_heirs_differ(c.oid, a.attname, a.attnotnull) END,
           'storage', CASE WHEN a.attstorage <> t.typstorage THEN pgsluice.describe_storage(a.attstorage) END,
           'type_storage', CASE WHEN a.attstorage <> t.typstorage THEN pgsluice.describe_storage(t.typstorage) END,
           'compression', CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END,
           'statistics', pgsluice.describe_target(a.attstattarget),
           'options', pgsluice.describe_options(a.attoptions, ''),
           'acl', pgsluice.describe_rights(a.attacl),
           'default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
           'generated', CASE WHEN a.attgenerated <> '' THEN jsonb_build_object(
               'as', pg_get_expr(d.adbin, d.adrelid), 'stored', a.attgenerated = 's') END,
           'identity', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END,
           'sequence', (SELECT pgsluice.describe_sequence(s.seqrelid) FROM pg_depend i
               JOIN pg_sequence s ON s.seqrelid = i.objid
              WHERE i.classid = 'pg_class'::regclass AND i.refclassid = 'pg_class'::regclass
                AND i.refobjid = a.attrelid AND i.refobjsubid = a.attnum AND i.deptype = 'i'),
           'missing', CASE WHEN a.atthasmissing THEN array_to_string(a.attmissingval, '') END,  -- it has one element
           'inherited', nullif(a.attinhcount > 0, false),
           'local', nullif(a.attislocal, true),
           -- That an inherited column may not be null is also its own rule, from version 18 on.
           'own_not_null', CASE WHEN a.attinhcount > 0 THEN (SELECT true FROM pg_constraint r
               WHERE r.conrelid = a.attrelid AND r.contype = 'n' AND r.conislocal AND r.conkey = ARRAY[a.attnum]) END,
           'comment', col_description(a.attrelid, a.attnum)
       )) ORDER BY a.attnum), '[]')
  FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
$$;

CREATE OR REPLACE FUNCTION pgsluice.describe_table(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(jsonb_build_object(
           'kind', 'table', 'schema', n.nspname, 'name', c.relname,
           'columns', pgsluice.describe_columns(c.oid),
           'constraints', (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'id', r.oid::int8, 'name', r.conname, 'type', r.contype,
                   'definition', pg_get_constraintdef(r.oid),
                   'needs', (SELECT format('%I.%I', fn.nspname, f.relname)  -- what a key of another table refers to
                       FROM pg_class f JOIN pg_namespace fn ON fn.oid = f.relnamespace
                      WHERE f.oid = nullif(r.confrelid, r.conrelid)),
                   'inherited', nullif(r.coninhcount > 0, false),
                   'alone', nullif(k.relkind = 'I' AND NOT x.indisvalid, false),  -- without partitions', so far
                   'clustered', nullif(x.indisclustered, false),
                   'options', CASE WHEN k.relkind = 'i' THEN pgsluice.describe_options(k.reloptions, '') END,
                   'index_comment', obj_description(k.oid, 'pg_class'),
                   'comment', obj_description(r.oid, 'pg_constraint'))) ORDER BY r.contype = 'f', r.oid)
               FROM pg_constraint r
               LEFT JOIN pg_index x ON x.indexrelid = r.conindid AND r.contype IN ('p', 'u', 'x')
               LEFT JOIN pg_class k ON k.oid = x.indexrelid
              WHERE r.conrelid = c.oid AND r.contype IN ('p', 'u', 'x', 'c', 'f') AND r.conparentid = 0
                AND r.conislocal),
           'unlogged', nullif(c.relpersistence = 'u', false),
           'partitioned_by', pg_get_partkeydef(c.oid),
           'bound', CASE WHEN c.relispartition THEN pg_get_expr(c.relpartbound, c.oid) END,
           'parents', (SELECT jsonb_agg(format('%I.%I', pn.nspname, p.relname) ORDER BY i.inhseqno)
               FROM pg_inherits i
               JOIN pg_class p ON p.oid = i.inhparent
               JOIN pg_namespace pn ON pn.oid = p.relnamespace
              WHERE i.inhrelid = c.oid),
           'parent_ids', (SELECT jsonb_agg(i.inhparent::int8 ORDER BY i.inhseqno)
               FROM pg_inherits i WHERE i.inhrelid = c.oid),
           'of_type', CASE WHEN c.reloftype <> 0 THEN format_type(c.reloftype, NULL) END,
           'of_type_id', nullif(c.reloftype, 0)::int8,
           'options', CASE WHEN w.reloptions IS NULL THEN pgsluice.describe_options(c.reloptions, '')
               ELSE coalesce(pgsluice.describe_options(c.reloptions, ''), '{}')
                   || pgsluice.describe_options(w.reloptions, 'toast.') END,
           'identity', CASE c.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' WHEN 'i' THEN (
               SELECT 'USING INDEX ' || quote_ident(x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
                WHERE i.indrelid = c.oid AND i.indisreplident) END,
           'acl', pgsluice.describe_rights(c.relacl),
           'row_security', nullif(c.relrowsecurity, false),
           'force_row_security', nullif(c.relforcerowsecurity, false),
           'comment', obj_description(c.oid, 'pg_class')))
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_class w ON w.oid = c.reltoastrelid
 WHERE c.oid = relation
$$;

-- Views, indexes and what else a row of pg_class stands for; NULL for what is temporary or nobody's own.
CREATE OR REPLACE FUNCTION pgsluice.describe_relation(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE
       WHEN c.relpersistence = 't' OR c.relkind = 't' THEN NULL
       WHEN c.relkind IN ('r', 'p') THEN pgsluice.describe_table(c.oid)
       WHEN c.relkind = 'S' THEN CASE WHEN NOT EXISTS (
            SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i')
            THEN pgsluice.describe_sequence(c.oid) END
       WHEN c.relkind IN ('v', 'm') THEN jsonb_strip_nulls(jsonb_build_object(
            'kind', CASE c.relkind WHEN 'v' THEN 'view' ELSE 'materialized view' END,
            'schema', n.nspname, 'name', c.relname,
            'query', rtrim(pg_get_viewdef(c.oid), ';'),
            'columns', (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                    'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                    'default', pg_get_expr(d.adbin, d.adrelid),
                    'storage', CASE WHEN a.attstorage <> t.typstorage AND c.relkind = 'm'
                        THEN pgsluice.describe_storage(a.attstorage) END,
                    'type_storage', CASE WHEN a.attstorage <> t.typstorage AND c.relkind = 'm'
                        THEN pgsluice.describe_storage(t.typstorage) END,
                    'compression', CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END,
                    'statistics', pgsluice.describe_target(a.attstattarget),
                    'options', pgsluice.describe_options(a.attoptions, ''),
                    'acl', pgsluice.describe_rights(a.attacl),
                    'comment', col_description(c.oid, a.attnum))) ORDER BY a.attnum)
                FROM pg_attribute a
                JOIN pg_type t ON t.oid = a.atttypid
                LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
               WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
            'needs', (SELECT pgsluice.describe_needs('pg_rewrite'::regclass, w.oid, c.oid)
                FROM pg_rewrite w WHERE w.ev_class = c.oid AND w.rulename = '_RETURN'),
            'options', pgsluice.describe_options(c.reloptions, ''),
            'acl', pgsluice.describe_rights(c.relacl),
            'filled', CASE WHEN c.relkind = 'm' THEN c.relispopulated END,
            'comment', obj_description(c.oid, 'pg_class')))
       -- An index that a constraint made, or the partition of another one, comes and goes with it.
       WHEN c.relkind IN ('i', 'I') THEN CASE WHEN NOT EXISTS (
            SELECT FROM pg_constraint r WHERE r.conindid = c.oid AND r.contype IN ('p', 'u', 'x'))
            AND NOT c.relispartition THEN (
            SELECT CASE WHEN t.relpersistence = 't' OR NOT x.indisvalid AND c.relkind = 'i' THEN NULL
                ELSE jsonb_strip_nulls(jsonb_build_object(
                    'kind', 'index', 'schema', n.nspname, 'name', c.relname,
                    'table', format('%I.%I', tn.nspname, t.relname),
                    'create', pg_get_indexdef(c.oid),
                    'alone', nullif(c.relkind = 'I' AND NOT x.indisvalid, false),  -- without partitions', so far
                    'clustered', nullif(x.indisclustered, false),
                    'statistics', (SELECT jsonb_object_agg(a.attnum, pgsluice.describe_target(a.attstattarget))
                        FROM pg_attribute a
                       WHERE a.attrelid = c.oid AND pgsluice.describe_target(a.attstattarget) IS NOT NULL),
                    'comment', obj_description(c.oid, 'pg_class'))) END
              FROM pg_index x
              JOIN pg_class t ON t.oid = x.indrelid
              JOIN pg_namespace tn ON tn.oid = t.relnamespace
             WHERE x.indexrelid = c.oid) END
       WHEN c.relkind = 'c' THEN NULL  -- it is told of as a type
       ELSE jsonb_build_object('kind', 'foreign table', 'schema', n.nspname, 'name', c.relname, 'unsupported', true)
       END
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = relation
$$;

CREATE OR REPLACE FUNCTION pgsluice.describe_type(wanted oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(CASE t.typtype
       WHEN 'e' THEN jsonb_build_object('kind', 'enum', 'labels', (
            SELECT jsonb_agg(jsonb_build_object('id', e.oid::int8, 'label', e.enumlabel) ORDER BY e.enumsortorder)
              FROM pg_enum e WHERE e.enumtypid = t.oid))
       WHEN 'd' THEN jsonb_build_object('kind', 'domain',
            'type', format_type(t.typbasetype, t.typtypmod),
            'collation', CASE WHEN t.typcollation <> 0 AND t.typcollation <> b.typcollation THEN (
                SELECT format('%I.%I', cn.nspname, c.collname)
                  FROM pg_collation c JOIN pg_namespace cn ON cn.oid = c.collnamespace
                 WHERE c.oid = t.typcollation) END,
            'not_null', nullif(t.typnotnull, false),
            'default', t.typdefault,
            'constraints', (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', r.oid::int8,
                    'name', r.conname, 'definition', pg_get_constraintdef(r.oid),
                    'comment', obj_description(r.oid, 'pg_constraint'))) ORDER BY r.oid)
                FROM pg_constraint r WHERE r.contypid = t.oid AND r.contype = 'c'))
       WHEN 'c' THEN CASE WHEN k.relkind = 'c' THEN
            jsonb_build_object('kind', 'composite', 'columns', pgsluice.describe_columns(k.oid)) END
       WHEN 'r' THEN jsonb_build_object('kind', 'range', 'create', (
            SELECT format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s, MULTIRANGE_TYPE_NAME = %I.%I', n.nspname,
                       t.typname, format_type(g.rngsubtype, NULL), n.nspname, m.typname)
                   || CASE WHEN o.opcdefault THEN '' ELSE format(', SUBTYPE_OPCLASS = %I.%I', (
                          SELECT s.nspname FROM pg_namespace s WHERE s.oid = o.opcnamespace), o.opcname) END
                   || CASE WHEN g.rngsubdiff = 0 THEN '' ELSE ', SUBTYPE_DIFF = ' || g.rngsubdiff::regproc END || ')'
              FROM pg_range g
              JOIN pg_type m ON m.oid = g.rngmultitypid
              JOIN pg_opclass o ON o.oid = g.rngsubopc
             WHERE g.rngtypid = t.oid))
       WHEN 'b' THEN CASE WHEN t.typcategory <> 'A' THEN
            jsonb_build_object('kind', 'base type', 'unsupported', true) END
       END || jsonb_build_object('schema', n.nspname, 'name', t.typname, 'acl', pgsluice.describe_rights(t.typacl),
           'comment', obj_description(t.oid, 'pg_type')))
  FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_class k ON k.oid = t.typrelid
  LEFT JOIN pg_type b ON b.oid = t.typbasetype
 WHERE t.oid = wanted
$$;

CREATE OR REPLACE FUNCTION pgsluice.describe_routine(wanted oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(jsonb_build_object(
           'kind', CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END,
           'schema', n.nspname, 'name', p.proname,
           'arguments', pg_get_function_identity_arguments(p.oid),
           'result', pg_get_function_result(p.oid),
           'create', CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END,
           'unsupported', nullif(p.prokind = 'a', false),
           'needs', pgsluice.describe_needs('pg_proc'::regclass, p.oid, 0),
           'acl', pgsluice.describe_rights(p.proacl),
           'comment', obj_description(p.oid, 'pg_proc')))
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid = wanted
$$;

-- Triggers, rules and policies: what belongs to a table and has a name there.
CREATE OR REPLACE FUNCTION pgsluice.describe_action(class oid, object oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(jsonb_build_object('kind', a.kind, 'schema', n.nspname, 'name', a.name,
           'table', format('%I.%I', n.nspname, c.relname), 'create', a.create, 'state', a.state,
           'needs', CASE WHEN a.kind <> 'trigger' THEN pgsluice.describe_needs(class, object, a.relation) END,
           'comment', obj_description(a.oid, a.catalog)))
  FROM (
       SELECT t.oid, 'pg_trigger' AS catalog, 'trigger' AS kind, t.tgname AS name, t.tgrelid AS relation,
              pg_get_triggerdef(t.oid) AS create, nullif(t.tgenabled, 'O') AS state
         FROM pg_trigger t
        WHERE class = 'pg_trigger'::regclass AND t.oid = object AND NOT t.tgisinternal AND t.tgparentid = 0
       UNION ALL
       SELECT w.oid, 'pg_rewrite', 'rule', w.rulename, w.ev_class, rtrim(pg_get_ruledef(w.oid), ';'),
              nullif(w.ev_enabled, 'O')
         FROM pg_rewrite w WHERE class = 'pg_rewrite'::regclass AND w.oid = object AND w.rulename <> '_RETURN'
       UNION ALL
       SELECT p.oid, 'pg_policy', 'policy', p.polname, p.polrelid,
              format('CREATE POLICY %I ON %I.%I AS %s FOR %s TO %s', p.polname, pn.nspname, pc.relname,
                  CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                  CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                      WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                  (SELECT string_agg(CASE g.oid WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.oid)) END, ', ')
                     FROM unnest(p.polroles) AS g(oid)))
              || coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
              || coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''), NULL
         FROM pg_policy p
         JOIN pg_class pc ON pc.oid = p.polrelid
         JOIN pg_namespace pn ON pn.oid = pc.relnamespace
        WHERE class = 'pg_policy'::regclass AND p.oid = object
       ) a
  JOIN pg_class c ON c.oid = a.relation
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relpersistence <> 't'
$$;

-- An object as it is now; NULL for one that is not replicated: temporary, a part of another, the server's or ours.
CREATE OR REPLACE FUNCTION pgsluice.describe(class oid, object oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    described jsonb;
BEGIN
    -- A part of an extension, or a function that a range type brings with it.
    IF class <> 'pg_extension'::regclass AND EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = class AND d.objid = object
           AND (d.deptype = 'e' OR d.deptype = 'i' AND class = 'pg_proc'::regclass)) THEN
        RETURN NULL;
    END IF;
    described := CASE class
        WHEN 'pg_class'::regclass THEN pgsluice.describe_relation(object)
        WHEN 'pg_type'::regclass THEN pgsluice.describe_type(object)
        WHEN 'pg_proc'::regclass THEN pgsluice.describe_routine(object)
        WHEN 'pg_trigger'::regclass THEN pgsluice.describe_action(class, object)
        WHEN 'pg_rewrite'::regclass THEN pgsluice.describe_action(class, object)
        WHEN 'pg_policy'::regclass THEN pgsluice.describe_action(class, object)
        WHEN 'pg_namespace'::regclass THEN (
            SELECT jsonb_strip_nulls(jsonb_build_object('kind', 'schema', 'schema', n.nspname, 'name', n.nspname,
                       'acl', pgsluice.describe_rights(n.nspacl),
                       'comment', obj_description(n.oid, 'pg_namespace')))
              FROM pg_namespace n WHERE n.oid = object)
        WHEN 'pg_extension'::regclass THEN (
            SELECT jsonb_strip_nulls(jsonb_build_object('kind', 'extension', 'schema', n.nspname, 'name', e.extname,
                       'version', e.extversion, 'comment', obj_description(e.oid, 'pg_extension')))
              FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.oid = object)
        WHEN 'pg_statistic_ext'::regclass THEN (
            SELECT jsonb_strip_nulls(jsonb_build_object('kind', 'statistics', 'schema', n.nspname, 'name', s.stxname,
                       'create', pg_get_statisticsobjdef(s.oid),
                       'needs', pgsluice.describe_needs(class, object, 0), 'target', pgsluice.describe_target(s.stxstattarget),
                       'comment', obj_description(s.oid, 'pg_statistic_ext')))
              FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE s.oid = object)
    END;
    IF described ->> 'schema' IN ('pgsluice', 'pg_catalog', 'information_schema', 'pg_toast')
       OR described ->> 'schema' LIKE 'pg\_temp%' OR described ->> 'schema' LIKE 'pg\_toast\_temp%' THEN
        RETURN NULL;
    END IF;
    RETURN described;
END
$$;

-- Without the quotes that a regclass has while all names are quoted.
CREATE OR REPLACE FUNCTION pgsluice.catalog_name(class oid) RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT relname FROM pg_class WHERE oid = class $$;

-- What an object has become: NULL when nothing of it is different. Keeps it for the next time.
CREATE OR REPLACE FUNCTION pgsluice.take_change(of_class oid, of_object oid) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_is jsonb := pgsluice.describe(of_class, of_object);
    was jsonb;
BEGIN
    SELECT k.definition INTO was FROM pgsluice.known_object k WHERE k.class = of_class AND k.object = of_object;
    IF was IS NOT DISTINCT FROM now_is THEN
        RETURN NULL;
    END IF;
    IF now_is IS NULL THEN
        DELETE FROM pgsluice.known_object k WHERE k.class = of_class AND k.object = of_object;
    ELSE
        INSERT INTO pgsluice.known_object AS k VALUES (of_class, of_object, now_is)
        ON CONFLICT (class, object) DO UPDATE SET definition = excluded.definition;
    END IF;
    RETURN jsonb_build_object('class', pgsluice.catalog_name(of_class), 'id', of_object::int8,
        'before', was, 'after', now_is);
END
$$;

-- Every object of the database that can be replicated.
CREATE OR REPLACE FUNCTION pgsluice.all_objects() RETURNS TABLE (class oid, object oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT tableoid, oid FROM pg_namespace WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_extension WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_class WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_type WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_proc WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT tableoid, oid FROM pg_rewrite WHERE oid >= 16384
UNION ALL SELECT tableoid, oid FROM pg_policy
UNION ALL SELECT tableoid, oid FROM pg_statistic_ext
$$;

-- An object that a command was not about. Nobody waits for what is done here, and it waits for nobody: reading a view
-- locks its tables till the end of the transaction, unless the subtransaction is broken off. NULL when it can't be read.
CREATE OR REPLACE FUNCTION pgsluice.describe_dependent(of_class oid, of_object oid) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    found jsonb;
BEGIN
    BEGIN
        found := pgsluice.describe(of_class, of_object);
        RAISE SQLSTATE 'SLUIC';
    EXCEPTION
        WHEN SQLSTATE 'SLUIC' THEN NULL;
        WHEN lock_not_available OR deadlock_detected THEN found := NULL;
    END;
    RETURN found;
END
$$;

-- Objects whose description has names of another one in it: learnt anew when those change, which is no change of
-- their own.
CREATE OR REPLACE FUNCTION pgsluice.learn_dependents(of_class oid, of_object oid, of_all boolean) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
-- With another type of a column, indexes and statistics are made anew under other numbers, without a word.
WITH parts AS MATERIALIZED (
    SELECT 'pg_class'::regclass AS class, indexrelid AS object
      FROM pg_index WHERE of_class = 'pg_class'::regclass AND indrelid = of_object
    UNION ALL
    SELECT 'pg_statistic_ext'::regclass, oid
      FROM pg_statistic_ext WHERE of_class = 'pg_class'::regclass AND stxrelid = of_object
), unknown AS MATERIALIZED (
    SELECT p.class, p.object FROM parts p
     WHERE NOT EXISTS (SELECT FROM pgsluice.known_object n WHERE n.class = p.class AND n.object = p.object)
), described AS MATERIALIZED (
    SELECT u.class, u.object, pgsluice.describe(u.class, u.object) AS definition FROM unknown u
)
UPDATE pgsluice.known_object k SET object = d.object, definition = d.definition
  FROM described d
 WHERE d.definition IS NOT NULL AND k.class = d.class
   AND k.definition @> jsonb_build_object('kind', d.definition -> 'kind',
           'schema', d.definition -> 'schema', 'name', d.definition -> 'name');

UPDATE pgsluice.known_object k SET definition = d.definition
  FROM (
       SELECT seen.class, seen.object, seen.definition AS seen,
              pgsluice.describe_dependent(seen.class, seen.object) AS definition
         FROM (
       SELECT DISTINCT
              CASE WHEN w.oid IS NOT NULL AND w.rulename = '_RETURN' OR r.oid IS NOT NULL OR a.oid IS NOT NULL
                  THEN 'pg_class'::regclass ELSE d.classid END AS class,
              coalesce(CASE WHEN w.rulename = '_RETURN' THEN w.ev_class END, r.conrelid, a.adrelid, d.objid) AS object
         FROM pg_depend d
         LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
         LEFT JOIN pg_constraint r ON d.classid = 'pg_constraint'::regclass AND r.oid = d.objid AND r.conrelid <> 0
         LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
        WHERE d.refclassid = of_class AND d.refobjid = of_object
       UNION
       SELECT class, object FROM pgsluice.known_object WHERE of_all
              ) o
         JOIN pgsluice.known_object seen ON seen.class = o.class AND seen.object = o.object
        WHERE NOT (o.class = of_class AND o.object = of_object)
       ) d
 -- What another transaction has learnt meanwhile is newer: it stays. Most are as they were, and are not waited for.
 WHERE k.class = d.class AND k.object = d.object AND k.definition = d.seen AND d.definition <> d.seen
$$;

-- The indexes of a table that are no longer their own, or are it from now on: a partition's are a part of its
-- parent's, and one can be made a constraint's.
CREATE OR REPLACE FUNCTION pgsluice.learn_indexes(relation oid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
DELETE FROM pgsluice.known_object k USING pg_index i
 WHERE i.indrelid = relation AND k.class = 'pg_class'::regclass AND k.object = i.indexrelid
   AND pgsluice.describe(k.class, k.object) IS NULL;
INSERT INTO pgsluice.known_object
SELECT 'pg_class'::regclass, i.indexrelid, d.definition
  FROM pg_index i CROSS JOIN LATERAL (
       SELECT pgsluice.describe('pg_class'::regclass, i.indexrelid) AS definition) d
 WHERE i.indrelid = relation AND d.definition IS NOT NULL
ON CONFLICT (class, object) DO NOTHING
$$;

-- The objects that a command was about, with those that it changed without a word: heirs, and a table's own.
CREATE OR REPLACE FUNCTION pgsluice.touched_objects(of_tag text) RETURNS TABLE (class oid, object oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
WITH RECURSIVE named AS (
    -- Told of as what they are a part of: the row of pg_class of a composite type, constraints of tables and domains,
    -- the index of a constraint, the sequence of an identity column.
    SELECT CASE WHEN coalesce(t.oid, nullif(k.contypid, 0)) IS NOT NULL THEN 'pg_type'::regclass
               WHEN k.conrelid <> 0 THEN 'pg_class'::regclass ELSE c.classid END AS class,
           coalesce(t.oid, nullif(k.contypid, 0), nullif(k.conrelid, 0), i.refobjid, c.objid) AS object,
           min(c.ordinality) AS place
      FROM pg_event_trigger_ddl_commands() WITH ORDINALITY c
      LEFT JOIN pg_class r ON c.classid = 'pg_class'::regclass AND r.oid = c.objid AND r.relkind = 'c'
      LEFT JOIN pg_type t ON t.typrelid = r.oid
      LEFT JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
          OR c.classid = 'pg_class'::regclass AND k.conindid = c.objid AND k.contype IN ('p', 'u', 'x')
      LEFT JOIN pg_depend i ON c.classid = 'pg_class'::regclass AND i.classid = c.classid AND i.objid = c.objid
          AND i.refclassid = c.classid AND i.deptype = 'i' AND i.refobjsubid > 0
     WHERE c.objid IS NOT NULL AND NOT c.in_extension
     GROUP BY 1, 2
), heirs AS (
    SELECT class, object, place, 0 AS depth FROM named
    UNION ALL
    SELECT h.class, i.inhrelid, h.place, h.depth + 1
      FROM heirs h JOIN pg_inherits i ON h.class = 'pg_class'::regclass AND i.inhparent = h.object
), granted_columns AS (
    SELECT attrelid AS object FROM pg_attribute WHERE of_tag IN ('GRANT', 'REVOKE') AND attacl IS NOT NULL
    UNION
    SELECT object FROM pgsluice.known_object
     WHERE of_tag IN ('GRANT', 'REVOKE') AND class = 'pg_class'::regclass AND definition @? '$.columns[*].acl'
), granted(class, object, items) AS (  -- GRANT does not say what it was about
    SELECT tableoid, oid, relacl FROM pg_class WHERE of_tag IN ('GRANT', 'REVOKE')
    UNION ALL SELECT tableoid, oid, proacl FROM pg_proc WHERE of_tag IN ('GRANT', 'REVOKE')
    UNION ALL SELECT tableoid, oid, typacl FROM pg_type WHERE of_tag IN ('GRANT', 'REVOKE')
    UNION ALL SELECT tableoid, oid, nspacl FROM pg_namespace WHERE of_tag IN ('GRANT', 'REVOKE')
), all_of_them AS (
    SELECT g.class, g.object, 0 AS place, 0 AS depth
      FROM granted g JOIN pgsluice.known_object k ON k.class = g.class AND k.object = g.object
     WHERE pgsluice.describe_rights(g.items) IS DISTINCT FROM k.definition -> 'acl'
    UNION ALL
    SELECT k.class, k.object, 0, 0
      FROM granted_columns g JOIN pgsluice.known_object k ON k.class = 'pg_class'::regclass AND k.object = g.object
    UNION ALL
    SELECT class, object, place, depth FROM heirs
    UNION ALL  -- partitions of before
    SELECT k.class, k.object, h.place, 1000
      FROM named h
      JOIN pg_class c ON h.class = 'pg_class'::regclass AND c.oid = h.object AND c.relkind IN ('r', 'p')
      JOIN pgsluice.known_object k ON k.class = h.class
       AND k.definition @> jsonb_build_object('parent_ids', jsonb_build_array(h.object::int8))
     WHERE of_tag = 'ALTER TABLE'
    UNION ALL  -- tables of a type have its attributes
    SELECT 'pg_class'::regclass, c.oid, h.place, 1
      FROM named h JOIN pg_class c ON h.class = 'pg_type'::regclass AND c.reloftype = h.object
    UNION ALL
    SELECT k.class, k.object, h.place, 2000
      FROM named h
      JOIN pg_index i ON h.class = 'pg_class'::regclass AND i.indrelid = h.object
      JOIN pgsluice.known_object k ON k.class = h.class AND k.object = i.indexrelid
     WHERE of_tag IN ('ALTER TABLE', 'ALTER MATERIALIZED VIEW') AND (k.definition ? 'clustered') <> i.indisclustered
    UNION ALL  -- whose states are a matter of their table
    SELECT 'pg_trigger'::regclass, t.oid, h.place, 2000
      FROM named h JOIN pg_trigger t ON h.class = 'pg_class'::regclass AND t.tgrelid = h.object
     WHERE of_tag = 'ALTER TABLE' AND NOT t.tgisinternal
    UNION ALL
    SELECT 'pg_rewrite'::regclass, w.oid, h.place, 2000
      FROM named h JOIN pg_rewrite w ON h.class = 'pg_class'::regclass AND w.ev_class = h.object
     WHERE of_tag = 'ALTER TABLE'
)
SELECT class, object FROM all_of_them GROUP BY class, object ORDER BY min(place), min(depth), object
$$;

-- What was dropped, and what has lost a part by that: a column of a type, a key to a table.
CREATE OR REPLACE FUNCTION pgsluice.take_drops() RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted jsonb := '[]';
    change jsonb;
    each record;
BEGIN
    FOR each IN
        SELECT d.classid, d.objid, d.object_type, d.object_identity
          FROM pg_event_trigger_dropped_objects() WITH ORDINALITY d
         WHERE d.objsubid = 0 AND NOT d.is_temporary ORDER BY d.ordinality
    LOOP
        DELETE FROM pgsluice.known_object k WHERE k.class = each.classid AND k.object = each.objid
        RETURNING jsonb_build_object('class', pgsluice.catalog_name(each.classid), 'id', each.objid::int8,
            'before', k.definition, 'dropped', each.object_type, 'identity', each.object_identity) INTO change;
        noted := noted || coalesce(change, '[]');
        change := NULL;
    END LOOP;
    FOR each IN
        SELECT DISTINCT coalesce(t.tableoid, r.tableoid) AS class, coalesce(t.oid, r.oid) AS object
          FROM pg_event_trigger_dropped_objects() d
          LEFT JOIN pg_type t ON t.oid = CASE  -- other objects have names there that are not written as SQL
               WHEN d.object_type = 'domain constraint' THEN to_regtype(d.address_names[1]) END
          LEFT JOIN pg_class r ON r.oid = CASE
               WHEN d.objsubid <> 0 THEN d.objid
               WHEN d.object_type IN ('table constraint', 'default value')
               THEN to_regclass(format('%I.%I', d.address_names[1], d.address_names[2])) END
         WHERE coalesce(t.oid, r.oid) IS NOT NULL
    LOOP
        noted := coalesce(pgsluice.take_change(each.class, each.object), '[]') || noted;
    END LOOP;
    RETURN noted;
END
$$;

-- Constraints with what can be told of them only now: the name of an index that was its own and was made the
-- constraint's, and whether a partition was given it when it was detached, which its parent's are not.
CREATE OR REPLACE FUNCTION pgsluice.with_origins(constraints jsonb, before jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_agg(jsonb_strip_nulls(c.rule || jsonb_build_object(
           'using', k.definition -> 'name',
           'detached', CASE WHEN before ? 'bound' AND r.contype = 'c' AND NOT EXISTS (
               SELECT FROM pg_constraint p
                WHERE before -> 'parent_ids' @> to_jsonb(p.conrelid::int8) AND p.conname = r.conname) THEN true END))
           ORDER BY c.place)
  FROM jsonb_array_elements(constraints) WITH ORDINALITY c(rule, place)
  LEFT JOIN pg_constraint r ON r.oid = (c.rule ->> 'id')::oid
  LEFT JOIN pgsluice.known_object k ON k.class = 'pg_class'::regclass AND k.object = r.conindid
   AND r.contype IN ('p', 'u')
$$;

-- The constraints of a table that are still there, but as a part of its parent's.
CREATE OR REPLACE FUNCTION pgsluice.merged_constraints(before jsonb, after jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_object_agg(r.oid::int8, CASE WHEN x.oid IS NULL THEN '' ELSE format('%I.%I', n.nspname, x.relname) END)
  FROM jsonb_array_elements(before -> 'constraints') c(rule)
  JOIN pg_constraint r ON r.oid = (c.rule ->> 'id')::oid
  LEFT JOIN pg_inherits i ON i.inhrelid = r.conindid AND r.contype IN ('p', 'u', 'x')
  LEFT JOIN pg_class x ON x.oid = i.inhparent
  LEFT JOIN pg_namespace n ON n.oid = x.relnamespace
 WHERE NOT coalesce(after -> 'constraints' @> jsonb_build_array(jsonb_build_object('id', r.oid::int8)), false)
$$;

-- The index that another one was made a part of.
CREATE OR REPLACE FUNCTION pgsluice.whole_index(part oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT format('%I.%I', n.nspname, c.relname)
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhparent AND c.relkind = 'I'
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE i.inhrelid = part
$$;

CREATE OR REPLACE FUNCTION pgsluice.take_changes(of_tag text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted jsonb := '[]';
    change jsonb;
    merged jsonb;
    each record;
BEGIN
    FOR each IN SELECT class, object FROM pgsluice.touched_objects(of_tag) LOOP
        change := pgsluice.take_change(each.class, each.object);
        IF of_tag = 'ALTER TABLE' AND change -> 'after' ? 'constraints' THEN
            change := jsonb_set(change, '{after,constraints}',
                pgsluice.with_origins(change -> 'after' -> 'constraints', change -> 'before'));
        END IF;
        IF change #>> '{before,kind}' = 'table' AND change -> 'before' ? 'constraints' THEN
            merged := pgsluice.merged_constraints(change -> 'before', change -> 'after');
            change := CASE WHEN merged IS NULL THEN change ELSE jsonb_set(change, '{after,merged}', merged) END;
        END IF;
        IF change #>> '{before,kind}' = 'index' AND change -> 'after' = 'null' THEN
            change := change || jsonb_build_object('part_of', pgsluice.whole_index(each.object));
        END IF;
        IF of_tag = 'REFRESH MATERIALIZED VIEW' THEN
            change := coalesce(change, jsonb_build_object('class', 'pg_class', 'id', each.object::int8,
                'before', pgsluice.describe(each.class, each.object),
                'after', pgsluice.describe(each.class, each.object))) || '{"refreshed": true}';
        END IF;
        noted := noted || coalesce(change, '[]');
    END LOOP;
    FOR change IN
        SELECT e FROM jsonb_array_elements(noted) e WHERE e -> 'before' <> 'null' AND e -> 'after' <> 'null'
    LOOP
        PERFORM pgsluice.learn_dependents(to_regclass(change ->> 'class'), (change ->> 'id')::oid,
            change ->> 'class' = 'pg_namespace');  -- a schema's name is in everything
        IF (change -> 'before' ? 'bound') <> (change -> 'after' ? 'bound')
                OR change @? '$.after.constraints[*].using' THEN
            PERFORM pgsluice.learn_indexes((change ->> 'id')::oid);
        END IF;
    END LOOP;
    RETURN noted;
END
$$;

CREATE OR REPLACE FUNCTION pgsluice.write_entry(of_event text, of_tag text, of_path text) RETURNS void
-- Every name in quotes, so that a target with other names finds them.
-- Values are written in one way, whatever the session has set.
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET quote_all_identifiers = on
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 1
SET bytea_output = 'hex' SET xmlbinary = 'base64' AS $$
DECLARE
    noted jsonb;
    said  text := current_query();
BEGIN
    IF said ~* 'password' THEN  -- of a role that is made in the same query
        said := NULL;
    END IF;
    BEGIN
        noted := CASE of_event
            WHEN 'table_rewrite' THEN jsonb_build_array(jsonb_build_object('class', 'pg_class',
                'id', pg_event_trigger_table_rewrite_oid()::int8, 'rewrite', pg_event_trigger_table_rewrite_reason()))
            WHEN 'sql_drop' THEN pgsluice.take_drops()
            ELSE pgsluice.take_changes(of_tag) END;
        IF noted <> '[]' THEN
            INSERT INTO pgsluice.schema_log (tag, statement, search_path, changes)
            VALUES (of_tag, said, of_path, noted);
        END IF;
    EXCEPTION WHEN OTHERS THEN
        INSERT INTO pgsluice.schema_log (tag, statement, search_path, changes, problem)
        VALUES (of_tag, said, of_path, '[]', format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE));
    END;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'pgsluice could not note a schema change: %', SQLERRM;
END
$$;

-- The search path is still the user's, which the entry says. So all names in here are whole ones, operators too: one of
-- the user's own would be run with the rights of the function's owner.
CREATE OR REPLACE FUNCTION pgsluice.note_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pgsluice.skip_ddl', true))
            OPERATOR(pg_catalog.=) ANY (ARRAY['on', 'true', 'yes', '1']::pg_catalog.text[]) THEN
        RETURN;
    END IF;
    PERFORM pgsluice.write_entry(tg_event, tg_tag, pg_catalog.current_setting('search_path'));
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgsluice FROM PUBLIC;
