"""What the transformer lookup_choice chooses from: read from a table when it is first needed, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import sql

from pgsluice.errors import ConfigError
from pgsluice.modifiers.transformer.check import RuleProblem
from pgsluice.modifiers.transforms.base import longest
from pgsluice.modifiers.transforms.lookup import LookupChoice
from pgsluice.modifiers.transforms.readable import canonical
from pgsluice.postgres.session import answering_within
from pgsluice.schema.renames import table_name
from pgsluice.schema.type_names import display_name
from pgsluice.source.connect import connect, source_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgsluice.modifiers.transformer.rules import Transformations
    from pgsluice.modifiers.transforms.lookup import Lookups
    from pgsluice.schema.table import PgType
    from pgsluice.schema.table_facts import TableFacts

logger = structlog.get_logger(__name__)

_SECONDS: Final = 60.0
_VALUES: Final = sql.SQL(
    'SELECT DISTINCT {column}::text COLLATE "C" AS value FROM {table} WHERE {column} IS NOT NULL'
    " AND {column}::text <> ALL (%s::text[]) ORDER BY 1 LIMIT %s"
)
_UNMET: Final = sql.SQL(
    "SELECT given FROM unnest(%s::text[]) given"
    " WHERE NOT EXISTS (SELECT FROM {table} WHERE {column}::text = given) LIMIT 1"
)


class ReadLookups:
    """The values of one set of rules."""

    def __init__(self, source_url: str) -> None:
        self._source_url = source_url
        self._read: dict[LookupChoice, tuple[str, ...]] = {}

    def values(self, choice: LookupChoice) -> tuple[str, ...]:
        """What one chooses from; a ConfigError says why there is nothing."""
        if choice not in self._read:
            self._read[choice] = self._values(choice)
        return self._read[choice]

    def _values(self, choice: LookupChoice) -> tuple[str, ...]:
        where = f"{choice.lookup_table}.{choice.lookup_column}"
        schema, table = table_name(choice.lookup_table)
        names = {
            "table": sql.Identifier(schema, table),
            "column": sql.Identifier(choice.lookup_column),
        }
        url = choice.postgres_url.get_secret_value() if choice.postgres_url else self._source_url
        ignored = list(choice.ignore_values)
        with source_errors(url, f"read {where}"), connect(url) as conn, answering_within(conn, _SECONDS):
            try:
                unmet = conn.execute(_UNMET.format(**names), (ignored,)).fetchone()
                rows = conn.execute(_VALUES.format(**names), (ignored, choice.max_values)).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
                raise ConfigError(f"there is no {where}, which lookup_choice chooses from") from None
            except psycopg.errors.InsufficientPrivilege:
                raise ConfigError(f"the role may not read {where}, for lookup_choice") from None
        if unmet is not None:
            raise ConfigError(f"ignore_values has what is no value of {where}")
        if not rows:
            raise ConfigError(f"{where} has no value that lookup_choice could choose")
        logger.info("read the values of a lookup", column=where, values=len(rows))
        return tuple(row[0] for row in rows)


def lookup_problems(
    lookups: Lookups, rules: Transformations, tables: Iterable[TableFacts]
) -> Iterator[RuleProblem]:
    """What is wrong with what rules choose from, by the types of their columns."""
    facts = {(table.schema, table.name): table for table in tables}
    for own in rules.table_transformers:
        table = facts.get((own.schema_, own.table))
        columns = {column.name: column for column in table.columns} if table is not None else {}
        for name, rule in own.column_transformers.items():
            if name in columns and isinstance(rule.transform, LookupChoice):
                problem = _problem(lookups, rule.transform, columns[name].type)
                if problem is not None:
                    remedy = "Mend lookup_table, lookup_column or ignore_values"
                    yield RuleProblem(f"{own.schema_}.{own.table}", name, problem, remedy)


def _problem(lookups: Lookups, choice: LookupChoice, type_: PgType) -> str | None:
    try:
        values = lookups.values(choice)
    except ConfigError as exc:
        return exc.message
    most = longest(type_)
    if any(canonical(value, type_) is None or (most is not None and len(value) > most) for value in values):
        where = f"{choice.lookup_table}.{choice.lookup_column}"
        return f"{where} has values that {display_name(type_)} does not hold"
    return None
