-- What is known of objects, kept so that nobody waits: a part of an object is the same as long as its print is, whatever
-- the objects are called that it names. So a rename concerns nothing but what is renamed. A row that another transaction
-- holds is left alone, and what has changed is added beside it.

SET LOCAL lock_timeout = '1s';  -- in an installation others change the schema meanwhile, and wait behind this one
ALTER TABLE pgsluice.schema_log ADD COLUMN IF NOT EXISTS xid bigint;  -- the transaction that made the change
ALTER TABLE pgsluice.schema_log ADD COLUMN IF NOT EXISTS seen text;   -- the snapshot by which the names in it are
ALTER TABLE pgsluice.known_object ADD COLUMN IF NOT EXISTS id bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE pgsluice.known_object ADD COLUMN IF NOT EXISTS was jsonb; -- of a change beside others' rows: what it changes
ALTER TABLE pgsluice.known_object ALTER COLUMN definition DROP NOT NULL;  -- NULL: it is gone
ALTER TABLE pgsluice.known_object DROP CONSTRAINT IF EXISTS known_object_pkey;
ALTER TABLE pgsluice.known_object ADD CONSTRAINT known_object_pkey PRIMARY KEY (class, object, id);

-- A text that the server writes only with locks on what is named in it. Nobody waits for that: NULL when another has
-- them, and they are given back at once by breaking off the subtransaction.
CREATE OR REPLACE FUNCTION pgsluice.describe_text(class oid, object oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    BEGIN
        found := CASE class
            WHEN 'pg_class'::regclass THEN coalesce(rtrim(pg_get_viewdef(object), ';'), pg_get_indexdef(object))
            WHEN 'pg_proc'::regclass THEN pg_get_functiondef(object)
            WHEN 'pg_trigger'::regclass THEN pg_get_triggerdef(object)
            WHEN 'pg_rewrite'::regclass THEN rtrim(pg_get_ruledef(object), ';')
            WHEN 'pg_statistic_ext'::regclass THEN pg_get_statisticsobjdef(object) END;
        RAISE SQLSTATE 'SLUIC';
    EXCEPTION
        WHEN SQLSTATE 'SLUIC' THEN NULL;
        WHEN lock_not_available OR deadlock_detected THEN found := NULL;
    END;
    RETURN found;
END
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
            'query', pgsluice.describe_text('pg_class'::regclass, c.oid),
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
                    'create', pgsluice.describe_text('pg_class'::regclass, c.oid),
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

-- A plain aggregate; NULL for those over ordered sets, which have a syntax of their own.
CREATE OR REPLACE FUNCTION pgsluice.describe_aggregate(wanted oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT format('CREATE OR REPLACE AGGREGATE %I.%I(%s) (%s)', n.nspname, p.proname,
           coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'), concat_ws(', ',
           'SFUNC = ' || a.aggtransfn, 'STYPE = ' || format_type(a.aggtranstype, NULL), 'SSPACE = ' || nullif(a.aggtransspace, 0),
           'FINALFUNC = ' || nullif(a.aggfinalfn::text, '-'), CASE WHEN a.aggfinalextra THEN 'FINALFUNC_EXTRA' END,
           'FINALFUNC_MODIFY = ' || CASE a.aggfinalmodify WHEN 's' THEN 'SHAREABLE' WHEN 'w' THEN 'READ_WRITE' END,
           'COMBINEFUNC = ' || nullif(a.aggcombinefn::text, '-'), 'SERIALFUNC = ' || nullif(a.aggserialfn::text, '-'),
           'DESERIALFUNC = ' || nullif(a.aggdeserialfn::text, '-'), 'INITCOND = ' || quote_literal(a.agginitval),
           'MSFUNC = ' || nullif(a.aggmtransfn::text, '-'), 'MINVFUNC = ' || nullif(a.aggminvtransfn::text, '-'),
           'MSTYPE = ' || format_type(nullif(a.aggmtranstype, 0), NULL), 'MSSPACE = ' || nullif(a.aggmtransspace, 0),
           'MFINALFUNC = ' || nullif(a.aggmfinalfn::text, '-'), CASE WHEN a.aggmfinalextra THEN 'MFINALFUNC_EXTRA' END,
           CASE WHEN a.aggmtransfn <> 0 THEN 'MFINALFUNC_MODIFY = ' || CASE a.aggmfinalmodify WHEN 's' THEN 'SHAREABLE'
               WHEN 'w' THEN 'READ_WRITE' ELSE 'READ_ONLY' END END,
           'MINITCOND = ' || quote_literal(a.aggminitval),
           (SELECT format('SORTOP = OPERATOR(%I.%s)', s.nspname, o.oprname)
              FROM pg_operator o JOIN pg_namespace s ON s.oid = o.oprnamespace WHERE o.oid = a.aggsortop),
           'PARALLEL = ' || CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' END))
  FROM pg_aggregate a
  JOIN pg_proc p ON p.oid = a.aggfnoid
  JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE a.aggfnoid = wanted AND a.aggkind = 'n'
$$;

CREATE OR REPLACE FUNCTION pgsluice.describe_routine(wanted oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(jsonb_build_object(
           'kind', CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END,
           'schema', n.nspname, 'name', p.proname,
           'arguments', CASE WHEN p.prokind = 'a' AND p.pronargs = 0 THEN '*'
               ELSE pg_get_function_identity_arguments(p.oid) END,
           'result', pg_get_function_result(p.oid),
           'create', CASE WHEN p.prokind = 'a' THEN pgsluice.describe_aggregate(p.oid)
               ELSE pgsluice.describe_text('pg_proc'::regclass, p.oid) END,
           'unsupported', CASE WHEN p.prokind = 'a' AND pgsluice.describe_aggregate(p.oid) IS NULL THEN true END,
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
              pgsluice.describe_text(class, t.oid) AS create, nullif(t.tgenabled, 'O') AS state
         FROM pg_trigger t
        WHERE class = 'pg_trigger'::regclass AND t.oid = object AND NOT t.tgisinternal AND t.tgparentid = 0
       UNION ALL
       SELECT w.oid, 'pg_rewrite', 'rule', w.rulename, w.ev_class, pgsluice.describe_text(class, w.oid),
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
                       'create', pgsluice.describe_text(class, s.oid),
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

-- A row of a catalog without what may differ while it means the same.
CREATE OR REPLACE FUNCTION pgsluice.print_of(catalog_row jsonb, VARIADIC but text[] DEFAULT '{}') RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT md5((catalog_row - but)::text) $$;

CREATE OR REPLACE FUNCTION pgsluice.prints_of_columns(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_object_agg(a.attnum, jsonb_strip_nulls(jsonb_build_object(
           'type', format('%s %s', a.atttypid, a.atttypmod),
           'collation', a.attcollation::int8,
           'default', CASE WHEN a.attgenerated = '' THEN md5(d.adbin::text) END,
           'generated', CASE WHEN a.attgenerated <> '' THEN a.attgenerated::text || md5(d.adbin::text) END,
           -- An identity's, which moves with its table.
           'sequence', (SELECT md5((pgsluice.describe_sequence(s.seqrelid) - 'schema')::text) FROM pg_depend i
               JOIN pg_sequence s ON s.seqrelid = i.objid
              WHERE i.classid = 'pg_class'::regclass AND i.refclassid = 'pg_class'::regclass
                AND i.refobjid = a.attrelid AND i.refobjsubid = a.attnum AND i.deptype = 'i'))))
  FROM pg_attribute a
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
$$;

CREATE OR REPLACE FUNCTION pgsluice.prints_of_relation(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
           -- Indexes and owned sequences are where their table is.
           'schema', CASE WHEN coalesce(i.indrelid, s.refobjid) IS NULL THEN to_jsonb(c.relnamespace::int8)
               ELSE to_jsonb('of ' || coalesce(i.indrelid, s.refobjid)) END,
           'table', i.indrelid::int8,
           'create', CASE WHEN i.indexrelid IS NOT NULL THEN pgsluice.print_of(
               to_jsonb(i) || jsonb_build_object('am', c.relam, 'options', c.reloptions), 'indexrelid', 'indisprimary',
               'indisclustered', 'indisvalid', 'indcheckxmin', 'indisready', 'indislive', 'indisreplident') END,
           'query', md5(w.ev_action::text), 'needs', md5(w.ev_action::text),
           'owned_by', format('%s %s', s.refobjid, s.refobjsubid),
           'partitioned_by', c.relkind = 'p',
           'bound', md5(c.relpartbound::text),
           'parents', (SELECT jsonb_agg(h.inhparent::int8 ORDER BY h.inhseqno) FROM pg_inherits h WHERE h.inhrelid = c.oid),
           'of_type', c.reloftype::int8,
           'identity', c.relreplident::text || coalesce((SELECT x.indexrelid::text FROM pg_index x
               WHERE x.indrelid = c.oid AND x.indisreplident), ''),
           'columns', CASE WHEN c.relkind IN ('r', 'p', 'v', 'm') THEN pgsluice.prints_of_columns(c.oid) END,
           'constraints', (SELECT jsonb_object_agg(r.oid::int8, jsonb_build_object('definition', p.print, 'needs', p.print))
               FROM pg_constraint r CROSS JOIN LATERAL (SELECT pgsluice.print_of(to_jsonb(r), 'conname', 'connamespace',
                        'conislocal', 'coninhcount', 'conindid', 'conparentid') AS print) p
              WHERE r.conrelid = c.oid AND r.contype IN ('p', 'u', 'x', 'c', 'f')))
  FROM pg_class c
  LEFT JOIN pg_index i ON i.indexrelid = c.oid
  LEFT JOIN pg_rewrite w ON w.ev_class = c.oid AND w.rulename = '_RETURN'
  LEFT JOIN pg_depend s ON c.relkind = 'S' AND s.classid = 'pg_class'::regclass AND s.objid = c.oid
       AND s.refclassid = 'pg_class'::regclass AND s.deptype = 'a'
 WHERE c.oid = relation
$$;

-- By what the parts of an object are the same, under their names in its description: numbers of others instead of their
-- names, and expressions as the server keeps them.
CREATE OR REPLACE FUNCTION pgsluice.prints(class oid, object oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(CASE class
       WHEN 'pg_class'::regclass THEN pgsluice.prints_of_relation(object)
       WHEN 'pg_type'::regclass THEN (
            SELECT jsonb_build_object('schema', t.typnamespace::int8, 'create', 0,
                       'type', format('%s %s', t.typbasetype, t.typtypmod), 'collation', t.typcollation::int8,
                       'default', md5(t.typdefaultbin::text),
                       'columns', CASE WHEN t.typtype = 'c' THEN pgsluice.prints_of_columns(t.typrelid) END,
                       'constraints', (SELECT jsonb_object_agg(r.oid::int8, jsonb_build_object('definition',
                               pgsluice.print_of(to_jsonb(r), 'conname', 'connamespace')))
                           FROM pg_constraint r WHERE r.contypid = t.oid))
              FROM pg_type t WHERE t.oid = object)
       WHEN 'pg_proc'::regclass THEN (
            SELECT jsonb_build_object('schema', p.pronamespace::int8, 'create', f.print, 'needs', f.print,
                       'arguments', p.proargtypes::text, 'result', f.print)
              FROM pg_proc p CROSS JOIN LATERAL (SELECT pgsluice.print_of(to_jsonb(p), 'proname', 'pronamespace',
                   'proowner', 'proacl', 'prosupport') || coalesce((
                   SELECT pgsluice.print_of(to_jsonb(a) || jsonb_build_object(  -- functions have their names there
                              'aggfnoid', 0, 'aggtransfn', a.aggtransfn::oid, 'aggfinalfn', a.aggfinalfn::oid,
                              'aggcombinefn', a.aggcombinefn::oid, 'aggserialfn', a.aggserialfn::oid,
                              'aggdeserialfn', a.aggdeserialfn::oid, 'aggmtransfn', a.aggmtransfn::oid,
                              'aggminvtransfn', a.aggminvtransfn::oid, 'aggmfinalfn', a.aggmfinalfn::oid))
                     FROM pg_aggregate a WHERE a.aggfnoid = p.oid), '') AS print) f
             WHERE p.oid = object)
       WHEN 'pg_trigger'::regclass THEN (
            SELECT jsonb_build_object('schema', 'of ' || t.tgrelid, 'table', t.tgrelid::int8,
                       'create', pgsluice.print_of(to_jsonb(t), 'tgname', 'tgenabled'))
              FROM pg_trigger t WHERE t.oid = object)
       WHEN 'pg_rewrite'::regclass THEN (
            SELECT jsonb_build_object('schema', 'of ' || w.ev_class, 'table', w.ev_class::int8,
                       'create', f.print, 'needs', f.print)
              FROM pg_rewrite w CROSS JOIN LATERAL (
                   SELECT pgsluice.print_of(to_jsonb(w), 'rulename', 'ev_enabled') AS print) f
             WHERE w.oid = object)
       WHEN 'pg_policy'::regclass THEN (
            SELECT jsonb_build_object('schema', 'of ' || p.polrelid, 'table', p.polrelid::int8,
                       'create', f.print, 'needs', f.print)
              FROM pg_policy p CROSS JOIN LATERAL (SELECT pgsluice.print_of(to_jsonb(p), 'polname') AS print) f
             WHERE p.oid = object)
       WHEN 'pg_statistic_ext'::regclass THEN (
            SELECT jsonb_build_object('schema', s.stxnamespace::int8, 'of', s.stxrelid::int8, 'create', f.print, 'needs', f.print)
              FROM pg_statistic_ext s CROSS JOIN LATERAL (SELECT pgsluice.print_of(to_jsonb(s), 'stxname',
                   'stxnamespace', 'stxowner', 'stxstattarget') AS print) f
             WHERE s.oid = object)
       WHEN 'pg_publication'::regclass THEN jsonb_build_object('parts', (
            SELECT jsonb_agg(pgsluice.print_of(to_jsonb(r)) ORDER BY r.oid) FROM pg_publication_rel r WHERE r.prpubid = object))
       WHEN 'pg_extension'::regclass THEN (
            SELECT jsonb_build_object('schema', e.extnamespace::int8) FROM pg_extension e WHERE e.oid = object)
       END)
$$;

-- The parts of an array by what they are told from each other by: numbers of columns and constraints, else their places.
CREATE OR REPLACE FUNCTION pgsluice.parts_of(list jsonb) RETURNS TABLE (number bigint, part jsonb)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce((e.part ->> 'number')::bigint, (e.part ->> 'id')::bigint, e.place), e.part
  FROM jsonb_array_elements(CASE WHEN jsonb_typeof(list) = 'array' THEN list END) WITH ORDINALITY e(part, place)
$$;

-- What is the same by its prints has the text of now.
CREATE OR REPLACE FUNCTION pgsluice.with_texts_of(was jsonb, was_prints jsonb, now_is jsonb, prints jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT was - coalesce(array_agg(p.key) FILTER (WHERE NOT now_is ? p.key), '{}')
       || coalesce(jsonb_object_agg(p.key, now_is -> p.key) FILTER (WHERE now_is ? p.key), '{}')
  FROM jsonb_each(prints) p
 WHERE jsonb_typeof(p.value) <> 'object' AND was_prints -> p.key = p.value
$$;

-- A description of before, in which others are called as they are now. Where an object itself has other names, its rules
-- keep the ones that they had.
CREATE OR REPLACE FUNCTION pgsluice.as_called_now(was jsonb, now_is jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb := pgsluice.with_texts_of(was, was -> 'prints', now_is, now_is -> 'prints');
    is_renamed boolean := jsonb_build_array(found -> 'schema', found -> 'name', jsonb_path_query_array(found, '$.columns[*].name'))
        <> jsonb_build_array(now_is -> 'schema', now_is -> 'name', jsonb_path_query_array(now_is, '$.columns[*].name'));
    list text;
BEGIN
    IF was IS NULL OR now_is IS NULL THEN
        RETURN was;
    END IF;
    IF is_renamed THEN
        found := found || jsonb_strip_nulls(jsonb_build_object('query', was -> 'query',
            'create', CASE WHEN was ->> 'kind' = 'index' THEN was -> 'create' END));
    END IF;
    FOREACH list IN ARRAY CASE WHEN is_renamed THEN ARRAY['columns'] ELSE ARRAY['columns', 'constraints'] END LOOP
        IF found ? list THEN
            found := jsonb_set(found, ARRAY[list], (
                SELECT jsonb_agg(CASE WHEN n.part IS NULL THEN o.part ELSE pgsluice.with_texts_of(o.part,
                           was #> ARRAY['prints', list, o.number::text], n.part, (now_is #> ARRAY['prints', list,
                           o.number::text]) - CASE WHEN is_renamed THEN 'generated' ELSE '' END) END ORDER BY o.place)
                  FROM pgsluice.parts_of(found -> list) WITH ORDINALITY o(number, part, place)
                  LEFT JOIN pgsluice.parts_of(now_is -> list) n ON n.number = o.number));
        END IF;
    END LOOP;
    RETURN found;
END
$$;

-- The same for what an object has left: its schema, and its parents.
CREATE OR REPLACE FUNCTION pgsluice.with_places_of_now(was jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT was || jsonb_strip_nulls(jsonb_build_object(
           'schema', (SELECT n.nspname FROM pg_namespace n WHERE to_jsonb(n.oid::int8) = was #> '{prints,schema}'),
           'parents', (SELECT jsonb_agg(coalesce(to_jsonb(format('%I.%I', n.nspname, c.relname)), was -> 'parents' -> (i.place - 1)::int)
                       ORDER BY i.place)
               FROM jsonb_array_elements_text(was #> '{prints,parents}') WITH ORDINALITY i(parent, place)
               LEFT JOIN pg_class c ON c.oid = i.parent::oid
               LEFT JOIN pg_namespace n ON n.oid = c.relnamespace)))
$$;

-- A description in which generated columns say whether they are made as before, whatever is called otherwise.
CREATE OR REPLACE FUNCTION pgsluice.with_same_generated(now_is jsonb, was jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN now_is @? '$.columns[*].generated' THEN jsonb_set(now_is, '{columns}', (
           SELECT jsonb_agg(CASE WHEN was #> p.path = now_is #> p.path THEN jsonb_set(c.part, '{generated,same}', 'true')
                      ELSE c.part END ORDER BY c.place)
             FROM pgsluice.parts_of(now_is -> 'columns') WITH ORDINALITY c(number, part, place)
            CROSS JOIN LATERAL (SELECT ARRAY['prints', 'columns', c.number::text, 'generated'] AS path) p))
       ELSE now_is END
$$;

-- One change made to something that others have changed as well, in other parts of it.
CREATE OR REPLACE FUNCTION pgsluice.merged(base jsonb, was jsonb, now_is jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF was IS NOT DISTINCT FROM now_is THEN
        RETURN base;
    ELSIF base IS NULL OR was IS NULL OR now_is IS NULL OR base = was
            OR jsonb_typeof(base) <> jsonb_typeof(now_is) OR jsonb_typeof(was) <> jsonb_typeof(now_is) THEN
        RETURN now_is;
    ELSIF jsonb_typeof(now_is) = 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(m.key, m.value) FILTER (WHERE m.value IS NOT NULL), '{}')
                  FROM (SELECT k.key, pgsluice.merged(base -> k.key, was -> k.key, now_is -> k.key) AS value
                          FROM (SELECT jsonb_object_keys(base) UNION SELECT jsonb_object_keys(now_is)) k(key)) m);
    ELSIF jsonb_typeof(now_is) = 'array' AND jsonb_typeof(coalesce(now_is -> 0, base -> 0)) = 'object' THEN
        RETURN (SELECT coalesce(jsonb_agg(m.value ORDER BY (m.value ->> 'type' = 'f') IS TRUE, m.number), '[]')
                  FROM (SELECT number, pgsluice.merged(b.part, w.part, n.part) AS value
                          FROM pgsluice.parts_of(base) b
                          FULL JOIN pgsluice.parts_of(was) w USING (number)
                          FULL JOIN pgsluice.parts_of(now_is) n USING (number)) m
                 WHERE m.value IS NOT NULL);
    END IF;
    RETURN now_is;
END
$$;

-- An object as it was seen last, with its prints; NULL for one that is not known.
CREATE OR REPLACE FUNCTION pgsluice.known(of_class oid, of_object oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb;
    each record;
BEGIN
    FOR each IN
        SELECT k.was, k.definition FROM pgsluice.known_object k
         WHERE k.class = of_class AND k.object = of_object ORDER BY k.id
    LOOP
        found := pgsluice.merged(found, each.was, each.definition);
    END LOOP;
    RETURN found;
END
$$;

-- Keep what an object has become. A row that another transaction holds, or has written since this one's snapshot, is
-- not waited for: the change is added beside it, and who comes next makes one row of them.
CREATE OR REPLACE FUNCTION pgsluice.keep(of_class oid, of_object oid, was jsonb, now_is jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rows_seen bigint := (SELECT count(*) FROM pgsluice.known_object k WHERE k.class = of_class AND k.object = of_object);
    held bigint[];
BEGIN
    BEGIN
        held := ARRAY(SELECT k.id FROM pgsluice.known_object k
                       WHERE k.class = of_class AND k.object = of_object ORDER BY k.id FOR UPDATE SKIP LOCKED);
    EXCEPTION WHEN serialization_failure THEN NULL;
    END;
    IF coalesce(cardinality(held), 0) < rows_seen THEN
        INSERT INTO pgsluice.known_object (class, object, was, definition) VALUES (of_class, of_object, was, now_is);
        RETURN;
    END IF;
    DELETE FROM pgsluice.known_object k WHERE k.class = of_class AND k.object = of_object
       AND k.id = ANY (CASE WHEN now_is IS NULL THEN held ELSE held[2:] END);
    IF now_is IS NULL THEN
        RETURN;
    ELSIF rows_seen = 0 THEN
        INSERT INTO pgsluice.known_object (class, object, definition) VALUES (of_class, of_object, now_is);
    ELSE
        UPDATE pgsluice.known_object k SET definition = now_is, was = NULL
         WHERE k.class = of_class AND k.object = of_object AND k.id = held[1];
    END IF;
END
$$;

-- A publication, with what it is for as SQL; NULL for one that a pipeline here reads.
CREATE OR REPLACE FUNCTION pgsluice.publication(wanted oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb;
    parts jsonb;
BEGIN
    SELECT jsonb_strip_nulls(jsonb_build_object('kind', 'publication', 'schema', '', 'name', p.pubname,
               'all_tables', nullif(p.puballtables, false), 'comment', obj_description(p.oid, 'pg_publication'),
               'options', format('publish = %L, publish_via_partition_root = %s', concat_ws(', ',
                   CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,
                   CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END), p.pubviaroot::text)
                   || CASE to_jsonb(p) ->> 'pubgencols' WHEN 's' THEN ', publish_generated_columns = stored' ELSE '' END))
      INTO found FROM pg_publication p
     WHERE p.oid = wanted AND p.pubname <> 'pgsluice_schema'
       AND NOT EXISTS (SELECT FROM pgsluice.pipeline o WHERE o.publication = p.pubname);
    IF current_setting('server_version_num')::int < 150000 THEN
        SELECT jsonb_agg('TABLE ' || format('%I.%I', n.nspname, c.relname) ORDER BY c.oid) INTO parts
          FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE r.prpubid = wanted;
    ELSE  -- what older servers don't have
        EXECUTE $sql$ SELECT jsonb_agg(part ORDER BY kind, number) FROM (
            SELECT 1 AS kind, c.oid AS number, format('TABLE %I.%I', n.nspname, c.relname)
                   || coalesce(' (' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                       WHERE a.attrelid = c.oid AND a.attnum = ANY (r.prattrs)) || ')', '')
                   || coalesce(' WHERE (' || pg_get_expr(r.prqual, r.prrelid) || ')', '') AS part
              FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE r.prpubid = $1
            UNION ALL
            SELECT 2, n.oid, format('TABLES IN SCHEMA %I', n.nspname)
              FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid WHERE s.pnpubid = $1) p $sql$
           INTO parts USING wanted;
    END IF;
    RETURN found || CASE WHEN parts IS NULL THEN '{}' ELSE jsonb_build_object('parts', parts) END;
END
$$;

-- An object as it is now, with its prints. It is described aside: what locks that takes are given back at once, and none
-- is waited for. An object that another transaction has locked is as it is known, if the command was not about it.
CREATE OR REPLACE FUNCTION pgsluice.look_at(of_class oid, of_object oid, known jsonb, is_named boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET lock_timeout = '20ms' AS $$
DECLARE
    found jsonb;
    texts text;
BEGIN
    BEGIN
        found := CASE of_class WHEN 'pg_publication'::regclass THEN pgsluice.publication(of_object)
            ELSE pgsluice.describe(of_class, of_object) END;
        RAISE SQLSTATE 'SLUIC';
    EXCEPTION
        WHEN SQLSTATE 'SLUIC' THEN NULL;
        WHEN lock_not_available OR deadlock_detected THEN
            IF is_named OR known IS NULL THEN
                RAISE;
            END IF;
            RETURN known;
    END;
    found := found || jsonb_build_object('prints', coalesce(pgsluice.prints(of_class, of_object), '{}'));
    FOREACH texts IN ARRAY ARRAY['create', 'query'] LOOP
        IF NOT found ? texts AND (known IS NULL OR known ? texts) AND found ->> 'kind' = ANY (CASE texts
                WHEN 'query' THEN ARRAY['view', 'materialized view']
                ELSE ARRAY['index', 'function', 'procedure', 'trigger', 'rule', 'statistics'] END) THEN
            IF known #> ARRAY['prints', texts] IS DISTINCT FROM found #> ARRAY['prints', texts] THEN
                RAISE lock_not_available USING MESSAGE = format('%s %I.%I could not be read: another session has locked what it '
                    'names', found ->> 'kind', found ->> 'schema', found ->> 'name');
            END IF;
            found := found || jsonb_build_object(texts, known -> texts);
        END IF;
    END LOOP;
    RETURN found;
END
$$;

-- What is known of an object, with the rights on it of now: GRANT changes nothing else, and waits for no lock on it.
CREATE OR REPLACE FUNCTION pgsluice.with_rights(of_class oid, of_object oid, known jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_strip_nulls(known || jsonb_build_object('acl', pgsluice.describe_rights(g.items))
           || CASE WHEN of_class = 'pg_class'::regclass AND known ? 'columns' THEN jsonb_build_object('columns', (
               SELECT jsonb_agg(c.part || jsonb_build_object('acl', pgsluice.describe_rights(a.attacl)) ORDER BY c.place)
                 FROM pgsluice.parts_of(known -> 'columns') WITH ORDINALITY c(number, part, place)
                 LEFT JOIN pg_attribute a ON a.attrelid = of_object AND a.attnum = c.number)) ELSE '{}' END)
  FROM (SELECT relacl FROM pg_class WHERE of_class = 'pg_class'::regclass AND oid = of_object
        UNION ALL SELECT proacl FROM pg_proc WHERE of_class = 'pg_proc'::regclass AND oid = of_object
        UNION ALL SELECT typacl FROM pg_type WHERE of_class = 'pg_type'::regclass AND oid = of_object
        UNION ALL SELECT nspacl FROM pg_namespace WHERE of_class = 'pg_namespace'::regclass AND oid = of_object) g(items)
$$;

DROP FUNCTION IF EXISTS pgsluice.take_change(oid, oid);

-- What an object has become: NULL when nothing of it is different. Keeps it for the next time.
CREATE OR REPLACE FUNCTION pgsluice.take_change(of_class oid, of_object oid, is_named boolean, rights boolean) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was jsonb;
    now_is jsonb;
    before jsonb;
BEGIN
    FOR attempt IN 1..2 LOOP  -- another may have changed it since, and be done now: by then both are seen
        SELECT k, CASE WHEN rights THEN pgsluice.with_rights(of_class, of_object, k)
                      ELSE pgsluice.look_at(of_class, of_object, k, is_named) END
          INTO was, now_is FROM pgsluice.known(of_class, of_object) k;
        IF was IS NOT DISTINCT FROM now_is THEN
            RETURN NULL;
        END IF;
        EXIT WHEN pgsluice.known(of_class, of_object) IS NOT DISTINCT FROM was;
    END LOOP;
    IF was ? 'lost' THEN
        RAISE 'what it was before is not known: an earlier change of it could not be read';
    END IF;
    PERFORM pgsluice.keep(of_class, of_object, was, now_is);
    before := pgsluice.as_called_now(pgsluice.with_places_of_now(was), now_is) - 'prints';
    RETURN CASE WHEN before IS DISTINCT FROM now_is - 'prints' THEN jsonb_build_object('id', of_object::int8,
        'class', pgsluice.catalog_name(of_class), 'before', before,
        'after', pgsluice.with_same_generated(now_is, was) - 'prints') END;
END
$$;

-- The parts of a table that changed with it without a word: indexes and statistics that are made anew under other
-- numbers with another type of a column, and what moves to another schema with it.
CREATE OR REPLACE FUNCTION pgsluice.learn_parts(relation oid, is_moved boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each record;
    former oid;
    was jsonb;
    now_is jsonb;
BEGIN
    FOR each IN
        SELECT 'pg_class'::regclass::oid AS class, i.indexrelid AS object FROM pg_index i WHERE i.indrelid = relation
        UNION ALL
        SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s WHERE s.stxrelid = relation
        UNION ALL
        SELECT d.classid, d.objid FROM pg_depend d JOIN pg_sequence q ON q.seqrelid = d.objid
         WHERE is_moved AND d.classid = 'pg_class'::regclass AND d.refclassid = d.classid AND d.refobjid = relation
           AND d.deptype = 'a'
    LOOP
        was := pgsluice.known(each.class, each.object);
        CONTINUE WHEN was IS NOT NULL AND NOT is_moved;
        now_is := pgsluice.look_at(each.class, each.object, was, false);
        IF was IS NOT NULL THEN
            PERFORM pgsluice.keep(each.class, each.object, was, now_is);
        ELSIF now_is IS NOT NULL THEN
            SELECT k.object INTO former FROM pgsluice.known_object k
             WHERE k.class = each.class AND k.definition @> jsonb_build_object('name', now_is -> 'name')
               AND coalesce(k.definition #> '{prints,table}', k.definition #> '{prints,of}') = to_jsonb(relation::int8)
               AND pgsluice.describe(k.class, k.object) IS NULL;
            IF FOUND THEN
                PERFORM pgsluice.keep(each.class, former, pgsluice.known(each.class, former), NULL);
                PERFORM pgsluice.keep(each.class, each.object, NULL, now_is);
            END IF;
        END IF;
    END LOOP;
END
$$;

-- The indexes of a table that are no longer their own, or are it from now on: a partition's are a part of its
-- parent's, and one can be made a constraint's.
CREATE OR REPLACE FUNCTION pgsluice.learn_indexes(relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT k AS was, pgsluice.look_at('pg_class'::regclass, i.indexrelid, k, false) AS now_is, i.indexrelid
          FROM pg_index i CROSS JOIN LATERAL pgsluice.known('pg_class'::regclass, i.indexrelid) k
         WHERE i.indrelid = relation
    LOOP
        IF (each.was IS NULL) <> (each.now_is IS NULL) THEN
            PERFORM pgsluice.keep('pg_class'::regclass, each.indexrelid, each.was, each.now_is);
        END IF;
    END LOOP;
END
$$;
DROP FUNCTION IF EXISTS pgsluice.learn_dependents(oid, oid, boolean);
DROP FUNCTION IF EXISTS pgsluice.describe_dependent(oid, oid);

DROP FUNCTION IF EXISTS pgsluice.touched_objects(text);

-- The objects that a command was about, with those that it changed without a word: heirs, and a table's own.
CREATE OR REPLACE FUNCTION pgsluice.objects_touched(of_tag text)
RETURNS TABLE (class oid, object oid, is_named boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
WITH RECURSIVE named AS (
    -- Told of as what they are a part of: the row of pg_class of a composite type, constraints of tables and domains,
    -- the index of a constraint, the sequence of an identity column, what a publication is for.
    SELECT CASE WHEN c.object_type LIKE 'publication %' THEN 'pg_publication'::regclass
               WHEN coalesce(t.oid, nullif(k.contypid, 0)) IS NOT NULL THEN 'pg_type'::regclass
               WHEN k.conrelid <> 0 THEN 'pg_class'::regclass ELSE c.classid END AS class,
           coalesce(t.oid, nullif(k.contypid, 0), nullif(k.conrelid, 0), i.refobjid, u.oid, c.objid) AS object,
           min(c.ordinality) AS place
      FROM pg_event_trigger_ddl_commands() WITH ORDINALITY c
      LEFT JOIN pg_class r ON c.classid = 'pg_class'::regclass AND r.oid = c.objid AND r.relkind = 'c'
      LEFT JOIN pg_type t ON t.typrelid = r.oid
      LEFT JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
          OR c.classid = 'pg_class'::regclass AND k.conindid = c.objid AND k.contype IN ('p', 'u', 'x')
      LEFT JOIN pg_depend i ON c.classid = 'pg_class'::regclass AND i.classid = c.classid AND i.objid = c.objid
          AND i.refclassid = c.classid AND i.deptype = 'i' AND i.refobjsubid > 0
      LEFT JOIN pg_publication u ON c.object_type LIKE 'publication %'
          AND u.pubname = (pg_identify_object_as_address(c.classid, c.objid, 0)).object_args[1]
     WHERE c.objid IS NOT NULL AND NOT c.in_extension
     GROUP BY 1, 2
), heirs AS (
    SELECT class, object, place, 0 AS depth FROM named
    UNION ALL
    SELECT h.class, i.inhrelid, h.place, h.depth + 1
      FROM heirs h JOIN pg_inherits i ON h.class = 'pg_class'::regclass AND i.inhparent = h.object
), required AS (  -- extensions that came with another, which needs them: before it
    SELECT object, place, 0 AS depth FROM named WHERE class = 'pg_extension'::regclass
    UNION ALL
    SELECT d.refobjid, r.place, r.depth - 1
      FROM required r JOIN pg_depend d ON d.classid = 'pg_extension'::regclass AND d.objid = r.object
       AND d.refclassid = d.classid
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
    UNION ALL
    SELECT 'pg_extension'::regclass, object, place, depth FROM required
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
SELECT class, object, min(depth) <= 0 FROM all_of_them GROUP BY class, object ORDER BY min(place), min(depth), object
$$;

-- What was dropped, and what has lost a part by that: a column of a type, a key to a table.
CREATE OR REPLACE FUNCTION pgsluice.take_drops() RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted jsonb := '[]';
    was jsonb;
    each record;
BEGIN
    FOR each IN
        SELECT d.classid, d.objid, d.object_type, d.object_identity, CASE  -- as it was called last
                   WHEN d.schema_name IS NOT NULL AND d.object_name IS NOT NULL
                   THEN jsonb_build_object('schema', d.schema_name, 'name', d.object_name)
                   WHEN d.object_type IN ('trigger', 'rule', 'policy') THEN jsonb_build_object('schema', d.address_names[1],
                       'table', format('%I.%I', d.address_names[1], d.address_names[2]))
                   ELSE '{}' END AS names
          FROM pg_event_trigger_dropped_objects() WITH ORDINALITY d
         WHERE d.objsubid = 0 AND NOT d.is_temporary ORDER BY d.ordinality
    LOOP
        was := pgsluice.known(each.classid, each.objid);
        CONTINUE WHEN was IS NULL;
        PERFORM pgsluice.keep(each.classid, each.objid, was, NULL);
        noted := noted || jsonb_build_object('class', pgsluice.catalog_name(each.classid), 'id', each.objid::int8,
            'before', was - 'prints' || each.names, 'dropped', each.object_type, 'identity', each.object_identity);
    END LOOP;
    FOR each IN
        SELECT DISTINCT coalesce(t.tableoid, r.tableoid, u.tableoid) AS class, coalesce(t.oid, r.oid, u.oid) AS object
          FROM pg_event_trigger_dropped_objects() d
          LEFT JOIN pg_publication u ON d.object_type LIKE 'publication %' AND u.pubname = d.address_args[1]
          LEFT JOIN pg_type t ON t.oid = CASE  -- other objects have names there that are not written as SQL
               WHEN d.object_type = 'domain constraint' THEN to_regtype(d.address_names[1]) END
          LEFT JOIN pg_class r ON r.oid = CASE
               WHEN d.objsubid <> 0 THEN d.objid
               WHEN d.object_type IN ('table constraint', 'default value')
               THEN to_regclass(format('%I.%I', d.address_names[1], d.address_names[2])) END
         WHERE coalesce(t.oid, r.oid, u.oid) IS NOT NULL
    LOOP
        noted := coalesce(pgsluice.take_change(each.class, each.object, true, false), '[]') || noted;
    END LOOP;
    RETURN noted;
END
$$;

-- Constraints with what can be told of them only now: the name of an index that was its own and was made the
-- constraint's, and whether a partition was given it when it was detached, which its parent's are not.
CREATE OR REPLACE FUNCTION pgsluice.with_origins(constraints jsonb, before jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_agg(jsonb_strip_nulls(c.rule || jsonb_build_object(
           'using', CASE WHEN r.contype IN ('p', 'u') THEN pgsluice.known('pg_class'::regclass, r.conindid) -> 'name' END,
           'detached', CASE WHEN before ? 'bound' AND r.contype = 'c' AND NOT EXISTS (
               SELECT FROM pg_constraint p
                WHERE before -> 'parent_ids' @> to_jsonb(p.conrelid::int8) AND p.conname = r.conname) THEN true END))
           ORDER BY c.place)
  FROM jsonb_array_elements(constraints) WITH ORDINALITY c(rule, place)
  LEFT JOIN pg_constraint r ON r.oid = (c.rule ->> 'id')::oid
$$;

CREATE OR REPLACE FUNCTION pgsluice.take_changes(of_tag text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted jsonb := '[]';
    change jsonb;
    merged jsonb;
    each record;
BEGIN
    FOR each IN SELECT class, object, is_named FROM pgsluice.objects_touched(of_tag) LOOP
        change := pgsluice.take_change(each.class, each.object, each.is_named, of_tag IN ('GRANT', 'REVOKE'));
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
        CONTINUE WHEN change ->> 'class' <> 'pg_class';
        PERFORM pgsluice.learn_parts((change ->> 'id')::oid, change #> '{before,schema}' <> change #> '{after,schema}');
        IF (change -> 'before' ? 'bound') <> (change -> 'after' ? 'bound')
                OR change @? '$.after.constraints[*].using' THEN
            PERFORM pgsluice.learn_indexes((change ->> 'id')::oid);
        END IF;
    END LOOP;
    RETURN noted;
END
$$;

-- What a command was about, whose changes could not be read, is known as it is now: the next change of it is one from
-- there. What can't be described at all is marked, and the next change of it can't be read either.
CREATE OR REPLACE FUNCTION pgsluice.learn_unread(of_event text, of_tag text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each record;
BEGIN
    IF of_event = 'sql_drop' THEN
        DELETE FROM pgsluice.known_object k USING pg_event_trigger_dropped_objects() d
         WHERE k.class = d.classid AND k.object = d.objid AND d.objsubid = 0;
        RETURN;
    END IF;
    FOR each IN SELECT class, object FROM pgsluice.objects_touched(of_tag) LOOP
        BEGIN
            PERFORM pgsluice.keep(each.class, each.object, k, pgsluice.look_at(each.class, each.object, k, false))
               FROM pgsluice.known(each.class, each.object) k;
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO pgsluice.known_object (class, object, definition) VALUES (each.class, each.object, '{"lost": true}');
        END;
    END LOOP;
END
$$;

-- What a command was about, for people.
CREATE OR REPLACE FUNCTION pgsluice.words_for_touched(of_event text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN CASE of_event
        WHEN 'table_rewrite' THEN 'table ' || pg_event_trigger_table_rewrite_oid()::regclass
        WHEN 'sql_drop' THEN (SELECT string_agg(d.object_type || ' ' || d.object_identity, ', ')
            FROM pg_event_trigger_dropped_objects() d WHERE d.original)
        ELSE (SELECT string_agg(DISTINCT c.object_type || ' ' || c.object_identity, ', ')
            FROM pg_event_trigger_ddl_commands() c) END;
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
    saw   text := pg_current_snapshot();  -- before anything is described
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
            INSERT INTO pgsluice.schema_log (tag, statement, search_path, changes, xid, seen)
            VALUES (of_tag, said, of_path, noted, pg_current_xact_id()::text::bigint, saw);
        END IF;
    EXCEPTION WHEN OTHERS THEN
        INSERT INTO pgsluice.schema_log (tag, statement, search_path, changes, problem)
        VALUES (of_tag, said, of_path, '[]',
            concat_ws(': ', pgsluice.words_for_touched(of_event), format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE)));
        BEGIN
            PERFORM pgsluice.learn_unread(of_event, of_tag) WHERE of_event <> 'table_rewrite';
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'pgsluice could not learn what was changed: %', SQLERRM;
        END;
    END;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'pgsluice could not note a schema change: %', SQLERRM;
END
$$;

-- All objects that are known, with the names that others have now.
CREATE OR REPLACE FUNCTION pgsluice.known_now() RETURNS TABLE (class oid, object oid, definition jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = on AS $$
SELECT o.class, o.object, pgsluice.as_called_now(k, pgsluice.look_at(o.class, o.object, k, false)) - 'prints'
  FROM (SELECT DISTINCT class, object FROM pgsluice.known_object) o
 CROSS JOIN LATERAL pgsluice.known(o.class, o.object) k
 WHERE k IS NOT NULL AND NOT k ? 'lost' AND k ->> 'kind' <> 'publication'  -- known only once it is changed
$$;

-- Learn all objects anew, as they are.
CREATE OR REPLACE FUNCTION pgsluice.know_all() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = on AS $$
DELETE FROM pgsluice.known_object;
INSERT INTO pgsluice.known_object (class, object, definition)
SELECT o.class, o.object, d.definition || jsonb_build_object('prints', coalesce(pgsluice.prints(o.class, o.object), '{}'))
  FROM pgsluice.all_objects() o, pgsluice.describe(o.class, o.object) d(definition)
 WHERE d.definition IS NOT NULL
$$;
SELECT pgsluice.know_all() WHERE EXISTS (SELECT FROM pgsluice.known_object);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgsluice FROM PUBLIC;
