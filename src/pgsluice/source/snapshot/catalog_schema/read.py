"""All objects of the source's own schemas, as statements in the order in which they can be made."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.schema.literals import TELLING
from pgsluice.schema.statements import SchemaDump, SchemaStatement
from pgsluice.source.snapshot.catalog_schema import constraints, kinds, rights, tables, views
from pgsluice.source.snapshot.catalog_schema.found import OWN, ObjectId, rows
from pgsluice.source.snapshot.catalog_schema.order import Needs, before_rows, in_order, without_needing
from pgsluice.source.snapshot.catalog_schema.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pgsluice.postgres.session import Connection
    from pgsluice.source.snapshot.catalog_schema.found import Found

logger = structlog.get_logger(__name__)

_WITHOUT: Final = "it is made with a column that the filter leaves out"


def read_catalog_schema(
    conn: Connection,
    *,
    without: Collection[str],
    owners: bool,
    privileges: bool,
    quoted: bool = False,
    columns: Mapping[int, Collection[int]] | None = None,
    secret: Mapping[int, Collection[int]] | None = None,
) -> SchemaDump:
    """
    The schema at the connection's snapshot; what can't be read from the catalogs is named in a warning.

    Args:
        without: tables to leave out, as ``"schema"."name"``.
        owners: whether objects keep their owners, who must be roles of the target.
        privileges: whether grants are kept.
        quoted: whether every identifier stands in quotes.
        columns: to leave out, with all that is made with them; by the numbers of tables and columns.
        secret: columns of which no value may stand in a statement; by the same numbers.
    """
    with _quoting(conn, quoted or bool(secret)):
        secrets = Secrets(conn, secret or {})
        return _read(
            conn, _left_out(conn, without), columns or {}, secrets, owners=owners, privileges=privileges
        )


def tells_values(conn: Connection, without: Collection[str], secret: Mapping[int, Collection[int]]) -> bool:
    """Whether the schema has values of such columns in its words."""
    with _quoting(conn, True):
        secrets = Secrets(conn, secret)
        _read(conn, _left_out(conn, without), {}, secrets, owners=False, privileges=False, quiet=True)
        return secrets.are_told


def _read(
    conn: Connection,
    left_out: set[int],
    columns: Mapping[int, Collection[int]],
    secrets: Secrets,
    *,
    owners: bool,
    privileges: bool,
    quiet: bool = False,
) -> SchemaDump:
    needs = Needs(conn, columns)
    late = needs.late_defaults()

    def wanted(objects: Iterable[Found]) -> list[Found]:
        return [
            each
            for each in objects
            if each.belongs not in left_out
            and each.id not in needs.members
            and each.column not in columns.get(each.belongs, ())
        ]

    objects = wanted(
        (
            *kinds.schemas(conn),
            *kinds.extensions(conn),
            *kinds.types(conn),
            *kinds.sequences(conn),
            *kinds.routines(conn),
            *tables.tables(conn, late, columns, secrets),
            *constraints.constraints(conn),
            *views.views(conn),
            *views.actions(conn),
        )
    )
    if not quiet:
        _name_the_rest(conn, needs)
    graph = needs.graph(objects)
    telling = secrets.telling(objects)
    objects, gone = without_needing(objects, needs.made_with_them() | telling, graph)
    if not quiet:
        _name_the_gone(gone, telling, secrets.defaults)
    ordered = in_order(objects, graph)
    before = before_rows(ordered, graph)
    owned = rights.owners(conn) if owners else {}
    about = [*(wanted(rights.grants(conn)) if privileges else ()), *wanted(rights.comments(conn))]
    never = {each.id for each in gone}
    about = [each for each in about if each.id not in never and not secrets.is_comment(each)]
    return SchemaDump(
        tuple(_statement(each, owned) for each in ordered if each.id in before),
        (
            *(_statement(each, owned) for each in ordered if each.id not in before),
            *(_statement(each, {}) for each in about),
        ),
    )


def _name_the_gone(gone: Iterable[Found], telling: Collection[ObjectId], defaults: Iterable[str]) -> None:
    for each in gone:
        reason = TELLING if each.id in telling else _WITHOUT
        logger.warning("left out", kind=each.kind, name=each.name, reason=reason)
    for name in defaults:
        logger.warning("left out", kind="DEFAULT", name=name, reason=TELLING)


def _statement(found: Found, owned: dict[ObjectId, str]) -> SchemaStatement:
    parts = [found.sql, *([owned[found.id]] if found.id in owned else [])]
    return SchemaStatement(found.kind, found.name, ";\n".join(parts))


@contextmanager
def _quoting(conn: Connection, everything: bool) -> Iterator[None]:
    """Let the server put every identifier in quotes, so that it can be found."""
    set_quotes = "SELECT set_config('quote_all_identifiers', %s, false)"
    conn.execute(set_quotes, ("on" if everything else "off",))
    yield
    conn.execute(set_quotes, ("off",))


def _left_out(conn: Connection, names: Collection[str]) -> set[int]:
    return {
        row[0]
        for row in conn.execute(
            "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            """WHERE '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"' """
            "= ANY (%s)",
            (list(names),),
        )
    }


def _name_the_rest(conn: Connection, needs: Needs) -> None:
    """Say which objects only pg_dump can write."""
    for row in rows(conn, _REST):
        if not needs.is_part(ObjectId(row.catalog, row.oid)):
            logger.warning("left out", kind=row.kind, name=row.name, reason="only pg_dump can write it")


_REST: Final = f"""
SELECT r.catalog, r.oid, i.type AS kind, i.identity AS name FROM (
    SELECT p.tableoid AS catalog, p.oid, p.pronamespace AS schema FROM pg_proc p WHERE p.prokind = 'a'
    UNION ALL SELECT t.tableoid, t.oid, t.typnamespace FROM pg_type t
               WHERE t.typtype IN ('b', 'p') AND t.typelem = 0
    UNION ALL SELECT t.tableoid, t.oid, t.typnamespace FROM pg_type t
                JOIN pg_range g ON g.rngtypid = t.oid AND g.rngcanonical <> 0
    UNION ALL SELECT c.tableoid, c.oid, c.relnamespace FROM pg_class c WHERE c.relkind = 'f'
    UNION ALL SELECT tableoid, oid, oprnamespace FROM pg_operator
    UNION ALL SELECT tableoid, oid, opcnamespace FROM pg_opclass
    UNION ALL SELECT tableoid, oid, opfnamespace FROM pg_opfamily
    UNION ALL SELECT tableoid, oid, collnamespace FROM pg_collation
    UNION ALL SELECT tableoid, oid, connamespace FROM pg_conversion
    UNION ALL SELECT tableoid, oid, cfgnamespace FROM pg_ts_config
    UNION ALL SELECT tableoid, oid, dictnamespace FROM pg_ts_dict
    UNION ALL SELECT tableoid, oid, prsnamespace FROM pg_ts_parser
    UNION ALL SELECT tableoid, oid, tmplnamespace FROM pg_ts_template
    UNION ALL SELECT tableoid, oid, 0 FROM pg_cast
    UNION ALL SELECT tableoid, oid, 0 FROM pg_foreign_data_wrapper
    UNION ALL SELECT tableoid, oid, 0 FROM pg_foreign_server
    UNION ALL SELECT tableoid, oid, 0 FROM pg_language
    UNION ALL SELECT tableoid, oid, 0 FROM pg_transform
    UNION ALL SELECT tableoid, oid, 0 FROM pg_am
) r LEFT JOIN pg_namespace n ON n.oid = r.schema
CROSS JOIN LATERAL pg_identify_object(r.catalog, r.oid, 0) i
WHERE r.oid >= 16384 AND (r.schema = 0 OR {OWN})"""  # noqa: S608 - a constant
