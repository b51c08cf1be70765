"""
Keys that are changed otherwise than before: rows that targets hold would never be found again.

A table that is asked to be copied anew when the run begins (``pgsluice resync``) may have other rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import ConfigError
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.modifiers.transformer.book import FILE, PLAIN, RuleBook, fingerprint
from pgsluice.pipeline.salt import changes_values, salt_of
from pgsluice.state.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pgsluice.modifiers.chain import Chain
    from pgsluice.modifiers.transformer.rules import ColumnRule
    from pgsluice.pipeline.config import Config
    from pgsluice.schema.table_facts import TableFacts


def require_same_keys(
    config: Config, chain: Chain, tables: Sequence[TableFacts], carried: Collection[int]
) -> None:
    """
    Raise when the keys of a table are changed otherwise than those that targets hold.

    ``carried`` are the tables that the pipeline has met, by their numbers.
    """
    books = [each.reach.book for each in chain.of_kind(ArrowTransformer)]
    book = books[0] if books else RuleBook(config.state_dir / FILE, writes=False)
    if book.is_new and changes_values(config.state_dir):
        return  # it is older than the book
    salt = salt_of(config.modifiers.transformations, config.state_dir, keeps=False)
    for table in tables:
        known = book.columns_of(table.relid)
        if known is None and not (book.is_new and table.relid in carried):
            continue
        rules = _rules(chain, table)
        keys = table.key if table.identity != "f" else {column.name for column in table.columns}
        for column in table.columns:
            was = PLAIN if known is None else known.get(column.number)
            if column.name in keys and was is not None:
                if was == fingerprint(rules.get(column.number), salt):
                    continue
                if not _is_copied_anew(config, table):
                    raise _otherwise(table, column.name)
                book.forget(table.relid)
                break


def _rules(chain: Chain, table: TableFacts) -> dict[int, ColumnRule]:
    numbers = {column.name: column.number for column in table.columns}
    return {
        number: rule
        for each in chain.of_kind(ArrowTransformer)
        for number, rule in each.reach.by_number(table.relid, (table.schema, table.name), numbers).items()
    }


def _is_copied_anew(config: Config, table: TableFacts) -> bool:
    """Whether all targets that hold tables will begin with this one again."""
    asked = {
        request.sink
        for request in Requests(config.state_dir).open()
        if not request.begun and request.qualified == table.qualified
    }
    return asked.issuperset(_holding(config))


def _holding(config: Config) -> Iterator[str]:
    return (target.name for target in config.sinks() if target.kind.form == "tables")


def _otherwise(table: TableFacts, column: str) -> ConfigError:
    return ConfigError(
        f"targets hold rows of {table.qualified} whose key was changed otherwise: {column} has another rule "
        "now, or the salt is another",
        remedy=f"Put the rule and the salt back; or stop the run, ask for a new copy (pgsluice resync "
        f"{table.qualified}) and start again; or begin anew, with empty targets and another state_dir",
    )
