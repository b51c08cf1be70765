-- What init has made for each pipeline, so that destroy removes exactly that.

CREATE TABLE IF NOT EXISTS pgsluice.pipeline (
    name                   text PRIMARY KEY,
    slot                   text NOT NULL UNIQUE,  -- a slot has one reader
    slot_made              boolean NOT NULL,  -- false: it was there before us and stays
    slot_lsn               pg_lsn,            -- where it stood when we made it: a log that begins later lacks something
    publication            text NOT NULL,
    publication_oid        oid NOT NULL,
    publication_made       boolean NOT NULL,  -- false: it was there before us and stays
    publication_definition jsonb NOT NULL,    -- compared at every start
    selection              jsonb NOT NULL,    -- which tables were asked for, to keep the list up to date
    created_at             timestamptz NOT NULL DEFAULT pg_catalog.now(),
    updated_at             timestamptz NOT NULL DEFAULT pg_catalog.now()
);

-- Tables that got REPLICA IDENTITY FULL from us, and what they had before.
CREATE TABLE IF NOT EXISTS pgsluice.identity_change (
    pipeline text NOT NULL REFERENCES pgsluice.pipeline (name) ON DELETE CASCADE,
    relid    oid NOT NULL,
    previous "char" NOT NULL,                 -- pg_class.relreplident
    PRIMARY KEY (pipeline, relid)
);
