"""What is said about objects: who owns them, who may use them, comments."""

# ruff: noqa: S608 - what is put into the statements are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.source.snapshot.catalog_schema.found import OWN, Found, ObjectId, read_objects, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


def owners(conn: Connection) -> dict[ObjectId, str]:
    """By object: the statement that gives it to its owner."""
    return {ObjectId(row.catalog, row.oid): row.sql for row in rows(conn, _OWNERS)}


def grants(conn: Connection) -> Iterator[Found]:
    """What was granted or revoked since an object was made, and what will be for new ones."""
    for query in (_GRANTS, _COLUMN_GRANTS, _DEFAULT_GRANTS):
        yield from read_objects(conn, query)


def comments(conn: Connection) -> list[Found]:
    """What people have written about objects."""
    return read_objects(conn, _COMMENTS)


# Every object that has an owner, how ALTER and GRANT name it, and which rights it has.
_OWNED: Final = f"""
SELECT c.tableoid AS catalog, c.oid, c.relowner AS owner, c.oid AS belongs, c.relacl AS acl,
       format('%I.%I', n.nspname, c.relname) AS quoted,
       CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
           ELSE 'TABLE' END AS kind,
       CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS granted,
       CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END AS usual
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND {OWN}
UNION ALL
SELECT n.tableoid, n.oid, n.nspowner, 0, n.nspacl, quote_ident(n.nspname), 'SCHEMA', 'SCHEMA', 'n'
  FROM pg_namespace n WHERE {OWN} AND n.nspname <> 'public'
UNION ALL
SELECT t.tableoid, t.oid, t.typowner, 0, t.typacl, format('%I.%I', n.nspname, t.typname),
       CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, 'TYPE', 'T'
  FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_class c ON c.oid = t.typrelid
 WHERE {OWN} AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c')
UNION ALL
SELECT p.tableoid, p.oid, p.proowner, 0, p.proacl,
       format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)),
       k.name, k.name, 'f'
  FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace
 CROSS JOIN LATERAL (SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END) k(name)
 WHERE p.prokind <> 'a' AND {OWN}
UNION ALL
SELECT s.tableoid, s.oid, s.stxowner, s.stxrelid, NULL, format('%I.%I', n.nspname, s.stxname),
       'STATISTICS', 'STATISTICS', NULL
  FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE {OWN}"""

_OWNERS: Final = f"""
SELECT o.catalog, o.oid,
       format('ALTER %s %s OWNER TO %I', o.kind, o.quoted, pg_get_userbyid(o.owner)) AS sql
  FROM ({_OWNED}) o"""

# As what differs from the rights of a new object: the owner of the target's one may be another role.
_DIFFERENCE: Final = """
(SELECT string_agg({before} || CASE WHEN here THEN 'GRANT ' ELSE 'REVOKE ' END || privilege_type
            || {columns} || ' ON ' || {on} || CASE WHEN here THEN ' TO ' ELSE ' FROM ' END
            || CASE grantee WHEN 0 THEN 'PUBLIC'
               ELSE quote_ident(pg_get_userbyid(grantee)) END
            || CASE WHEN here AND may_grant THEN ' WITH GRANT OPTION' ELSE '' END,
            E';\\n' ORDER BY here NULLS FIRST, grantee, privilege_type)
   FROM (SELECT grantee, privilege_type, is_grantable AS may_grant, true AS here
           FROM aclexplode({acl})) now
   FULL JOIN (SELECT grantee, privilege_type, is_grantable AS usually
                FROM aclexplode({usual})) usual
  USING (grantee, privilege_type)
  WHERE may_grant IS DISTINCT FROM usually)"""

_OBJECT_RIGHTS: Final = _DIFFERENCE.format(
    before="''",
    columns="''",
    on="o.granted || ' ' || o.quoted",
    acl="o.acl",
    usual='acldefault(o.usual::"char", o.owner)',
)
_GRANTS: Final = f"""
SELECT o.catalog, o.oid, 'ACL' AS kind, o.belongs, o.quoted AS name, {_OBJECT_RIGHTS} AS sql
  FROM ({_OWNED}) o WHERE o.acl IS NOT NULL"""

_COLUMN_RIGHTS: Final = _DIFFERENCE.format(
    before="''",
    columns="format(' (%I)', a.attname)",
    on="format('TABLE %I.%I', n.nspname, c.relname)",
    acl="a.attacl",
    usual="NULL::aclitem[]",
)
_COLUMN_GRANTS: Final = f"""
SELECT c.tableoid AS catalog, c.oid, 'ACL' AS kind, c.oid AS belongs, a.attnum AS column,
       format('%s.%s.%s', n.nspname, c.relname, a.attname) AS name, {_COLUMN_RIGHTS} AS sql
  FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND {OWN}"""

# Those of one schema are added to those of all schemas, which begin with what is usual.
_FUTURE_RIGHTS: Final = _DIFFERENCE.format(
    before="format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s ', pg_get_userbyid(d.defaclrole), "
    "coalesce(' IN SCHEMA ' || quote_ident(n.nspname), ''))",
    columns="''",
    on="what.name",
    acl="d.defaclacl",
    usual="CASE WHEN d.defaclnamespace = 0 THEN acldefault("
    "CASE d.defaclobjtype WHEN 'S' THEN 's'::\"char\" ELSE d.defaclobjtype END, d.defaclrole) END",
)
_DEFAULT_GRANTS: Final = f"""
SELECT d.tableoid AS catalog, d.oid, 'DEFAULT ACL' AS kind, 0 AS belongs,
       format('%s of %s', what.name, pg_get_userbyid(d.defaclrole)) AS name,
       {_FUTURE_RIGHTS} AS sql
  FROM pg_default_acl d
  LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
 CROSS JOIN LATERAL (SELECT CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES'
       WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' END) what(name)
 WHERE what.name IS NOT NULL AND (n.oid IS NULL OR {OWN})"""

# The server's own words for an object are those of COMMENT, but for parts of others.
_COMMENTS: Final = f"""
SELECT d.classoid AS catalog, d.objoid AS oid, 'COMMENT' AS kind, i.identity AS name, d.objsubid AS column,
       CASE WHEN d.classoid = 'pg_class'::regclass THEN d.objoid
            ELSE coalesce(r.conrelid, t.tgrelid, p.polrelid, w.ev_class, 0) END AS belongs,
       format('COMMENT ON %s IS %L', CASE
           WHEN i.type LIKE '% column' THEN 'COLUMN ' || i.identity
           WHEN i.type = 'table constraint' THEN 'CONSTRAINT ' || i.identity
           WHEN i.type = 'domain constraint' THEN
               format('CONSTRAINT %I ON DOMAIN %s', r.conname, format_type(r.contypid, NULL))
           WHEN i.type = 'statistics object' THEN 'STATISTICS ' || i.identity
           ELSE upper(i.type) || ' ' || i.identity END, d.description) AS sql
  FROM pg_description d
  LEFT JOIN pg_constraint r ON r.tableoid = d.classoid AND r.oid = d.objoid
  LEFT JOIN pg_trigger t ON t.tableoid = d.classoid AND t.oid = d.objoid
  LEFT JOIN pg_policy p ON p.tableoid = d.classoid AND p.oid = d.objoid
  LEFT JOIN pg_rewrite w ON w.tableoid = d.classoid AND w.oid = d.objoid
 CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
  LEFT JOIN pg_namespace n ON n.nspname = coalesce(i.schema, i.name)
 WHERE d.objoid >= 16384 AND i.identity IS NOT NULL AND (n.oid IS NULL OR {OWN})
   AND i.type NOT IN ('publication', 'subscription', 'event trigger')"""
