-- Everything that the migrations made, in reverse order; the schema itself is dropped by the caller.

DROP TABLE IF EXISTS pgsluice.identity_change;
DROP TABLE IF EXISTS pgsluice.pipeline;
DROP TABLE IF EXISTS pgsluice.migration;
