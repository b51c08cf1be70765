"""
Proving what the server leaves unproved: unique and exclusion constraints that are deferrable.

They are checked by triggers, which are switched off with all others for our session: two rows of one key
would be taken. So the rows that a batch wrote are compared with the others of their table before it is
committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from pgsluice.errors import RowRefusedError
from pgsluice.sinks.postgres.merge import same_key
from pgsluice.sinks.postgres.names import listed, type_name

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.fold import Folded
    from pgsluice.sinks.postgres.staging import Staging
    from pgsluice.sinks.postgres.target import TargetTable

_MOST_KEYS: Final = 1_000_000  # of one table, on the driver


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint that no two rows may break together."""

    name: str
    expressions: tuple[str, ...]  # of the row
    operators: tuple[str, ...]  # between two rows: the rule is broken where all of them hold
    predicate: str | None  # which rows it is about


def deferrable_rules(conn: Connection, oid: int) -> tuple[Rule, ...]:
    """Those of one table."""
    return tuple(
        Rule(name, tuple(expressions), tuple(operators), predicate)
        for name, expressions, operators, predicate in conn.execute(_RULES, (oid,))
    )


@dataclass(slots=True)
class _Written:
    """What a batch wrote to a table."""

    table: TargetTable
    keys: list[list[pa.Array]] = field(default_factory=list)  # of each fold, by column of the key
    whole: bool = False  # whether all rows have to be looked at

    def add(self, keys: list[pa.Array]) -> None:
        """Rows of these keys; when they are too many to be kept, all rows are looked at."""
        self.keys.append(keys)
        if sum(len(columns[0]) for columns in self.keys) > _MOST_KEYS:
            self.whole, self.keys = True, []


class Proof:
    """Collects what a batch writes to tables with such rules, and looks at it in the end."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def note(self, table: TargetTable, folded: Folded | None) -> None:
        """Rows are written; None: by another way than a fold."""
        if not table.rules:
            return
        written = self._written.setdefault(table.version.qualified, _Written(table))
        if folded is None or not table.key:
            written.whole = True
            return
        for rows in (folded.insert, folded.patch.rows if folded.patch else None):
            if rows is not None:
                written.add([_flat(pc.list_element(rows, column.index)) for column in table.key])

    def require(self, conn: Connection, staging: Staging) -> None:
        """Raise if a rule is broken."""
        for written in self._written.values():
            for rule in written.table.rules:
                if _is_broken(conn, staging, written, rule):
                    raise _broken(written.table, rule)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_broken(conn: Connection, staging: Staging, written: _Written, rule: Rule) -> bool:
    table = written.table
    if written.whole:
        return conn.execute(_pairs(table, rule, sql.SQL("true")), ()).rowcount > 0
    if not written.keys:
        return False
    keys = [pa.concat_arrays(column) for column in zip(*written.keys, strict=True)]
    with staging.source("proof", keys) as source:
        ours = sql.SQL("EXISTS (SELECT FROM {} keys WHERE {})").format(source.sql, same_key(table, "keys", 0))
        return conn.execute(_pairs(table, rule, ours), source.parameters).rowcount > 0


def _pairs(table: TargetTable, rule: Rule, ours: sql.Composable) -> sql.Composed:
    """Two rows that break the rule, of which one is ours."""
    names = [sql.Identifier(f"v{place}") for place in range(len(rule.expressions))]
    values = listed(
        [
            sql.SQL("{} AS {}").format(type_name(text), name)
            for text, name in zip(rule.expressions, names, strict=True)
        ]
    )
    rows = sql.SQL("SELECT t.tableoid AS heap, t.ctid AS place, {} FROM {} t WHERE {}").format(
        values, table.rows, type_name(rule.predicate or "true")
    )
    same = sql.SQL(" AND ").join(
        sql.SQL("a.{} {} b.{}").format(name, type_name(operator), name)
        for name, operator in zip(names, rule.operators, strict=True)
    )
    return sql.SQL(
        "SELECT FROM ({} AND {}) a JOIN ({}) b ON {} WHERE (a.heap, a.place) <> (b.heap, b.place) LIMIT 1"
    ).format(rows, ours, rows, same)


def _broken(table: TargetTable, rule: Rule) -> RowRefusedError:
    name = table.version.qualified
    return RowRefusedError(
        f"{name} has a row already that the source has just made, by {rule.name}",
        remedy="Somebody else writes to the target: remove those rows",
        table=name,
        constraint=rule.name,
    )


# A btree finds equal values by its third strategy.
_RULES: Final = """
SELECT r.conname, shown.expressions, shown.operators, pg_catalog.pg_get_expr(x.indpred, x.indrelid)
  FROM pg_catalog.pg_constraint r
  JOIN pg_catalog.pg_index x ON x.indexrelid = r.conindid
 CROSS JOIN LATERAL (
       SELECT pg_catalog.array_agg(pg_catalog.pg_get_indexdef(x.indexrelid, k.place::int, false)
                  ORDER BY k.place) AS expressions,
              pg_catalog.array_agg(pg_catalog.format('OPERATOR(%%I.%%s)', n.nspname, o.oprname)
                  ORDER BY k.place) AS operators
         FROM unnest(x.indclass::oid[]) WITH ORDINALITY AS k(opclass, place)
         JOIN pg_catalog.pg_opclass c ON c.oid = k.opclass
         LEFT JOIN pg_catalog.pg_amop m ON m.amopfamily = c.opcfamily AND m.amopstrategy = 3
              AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
         JOIN pg_catalog.pg_operator o ON o.oid = coalesce(r.conexclop[k.place::int], m.amopopr)
         JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
        WHERE k.place <= x.indnkeyatts) shown
 WHERE r.conrelid = %s AND r.contype IN ('p', 'u', 'x') AND r.condeferrable
 ORDER BY 1"""
