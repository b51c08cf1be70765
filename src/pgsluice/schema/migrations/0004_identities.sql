-- A published table without a usable replica identity refuses UPDATE and DELETE. One that comes into a publication of
-- ours by itself (a new table where all tables or those of a schema are published, a partition), or that loses its key,
-- is given REPLICA IDENTITY FULL in the same transaction, so that no application's writes fail because of us.

-- The publications of ours that a table is in, by its own name, its schema's, an ancestor's, or with all others.
CREATE OR REPLACE FUNCTION pgsluice.pipelines_of(relation oid) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
WITH RECURSIVE family(oid) AS (
    SELECT relation UNION ALL SELECT i.inhparent FROM pg_inherits i JOIN family f ON i.inhrelid = f.oid
      JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
)
SELECT o.name FROM pgsluice.pipeline o JOIN pg_publication p ON p.oid = o.publication_oid
 WHERE o.publication_made AND (p.pubupdate OR p.pubdelete) AND (p.puballtables
    OR EXISTS (SELECT FROM pg_publication_rel r JOIN family f ON f.oid = r.prrelid WHERE r.prpubid = p.oid)
    OR EXISTS (SELECT FROM pg_publication_namespace s JOIN pg_class c ON c.relnamespace = s.pnnspid
                 JOIN family f ON f.oid = c.oid WHERE s.pnpubid = p.oid))
$$;

-- Whether UPDATE and DELETE of a published table find their rows. NOTHING is somebody's own choice.
CREATE OR REPLACE FUNCTION pgsluice.has_identity(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT c.relreplident IN ('f', 'n') OR EXISTS (
       SELECT FROM pg_index x WHERE x.indrelid = c.oid AND x.indisunique AND x.indimmediate AND x.indisvalid
          AND CASE c.relreplident WHEN 'd' THEN x.indisprimary ELSE x.indisreplident END)
  FROM pg_class c WHERE c.oid = relation
$$;

CREATE OR REPLACE FUNCTION pgsluice.keep_writable() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms' AS $$
DECLARE
    found record;
BEGIN
    -- By pg_inherits: what else lists partitions takes locks on them.
    FOR found IN
        WITH RECURSIVE touched(oid) AS (
            SELECT t.objid FROM pg_event_trigger_ddl_commands() t WHERE t.classid = 'pg_class'::regclass
            UNION SELECT i.inhrelid FROM pg_inherits i JOIN touched p ON p.oid = i.inhparent
        )
        SELECT c.oid, c.relname, n.nspname, c.relreplident, o.pipeline
          FROM touched t
          JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r' AND c.relpersistence = 'p'
          JOIN pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL pgsluice.pipelines_of(c.oid) AS o(pipeline)
         WHERE NOT pgsluice.has_identity(c.oid)
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE ONLY %I.%I REPLICA IDENTITY FULL', found.nspname, found.relname);
            INSERT INTO pgsluice.identity_change (pipeline, relid, previous)
            VALUES (found.pipeline, found.oid, found.relreplident) ON CONFLICT DO NOTHING;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'pgsluice: %.% is published and has no replica identity: UPDATE and DELETE will fail',
                found.nspname, found.relname
                USING HINT = 'Give it a primary key, or: ALTER TABLE … REPLICA IDENTITY FULL';
        END;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'pgsluice could not look at replica identities: %', SQLERRM;
END
$$;

REVOKE ALL ON FUNCTION pgsluice.pipelines_of(oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgsluice.has_identity(oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgsluice.keep_writable() FROM PUBLIC;
