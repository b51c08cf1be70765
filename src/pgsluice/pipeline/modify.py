"""From the configuration to the chain of modifiers, and the checks that it needs before a run."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigError
from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.columns.apply import ColumnFilter
from pgsluice.modifiers.columns.check import require_columns
from pgsluice.modifiers.columns.choice import FILE, ColumnChoices
from pgsluice.modifiers.injector import ConfiguredIdentity, ConfiguredVersion, Injector
from pgsluice.modifiers.injector.check import injector_problems
from pgsluice.modifiers.lineage import FILE as PARTITIONS
from pgsluice.modifiers.lineage import Lineage
from pgsluice.modifiers.row_filter import RowFilter, filter_problems
from pgsluice.modifiers.sanitizer import sanitize
from pgsluice.modifiers.transformer.analyse import analyse
from pgsluice.modifiers.transformer.apply import Transformer
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.modifiers.transformer.book import FILE as RULES
from pgsluice.modifiers.transformer.book import RuleBook
from pgsluice.modifiers.transformer.check import rule_problems
from pgsluice.modifiers.transformer.reach import Reach
from pgsluice.pipeline.labels import with_labels
from pgsluice.pipeline.lookups import ReadLookups, lookup_problems
from pgsluice.pipeline.salt import changes_values, salt_of
from pgsluice.pipeline.same_keys import require_same_keys
from pgsluice.schema.renames import table_name
from pgsluice.schema.store import SchemaStore
from pgsluice.schema.table_facts import read_facts_of_families
from pgsluice.source.snapshot.tables import roots_without_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Modifier
    from pgsluice.modifiers.row_filter import TableFilter
    from pgsluice.modifiers.transformer.check import RuleProblem
    from pgsluice.modifiers.transformer.rules import Transformations
    from pgsluice.modifiers.transforms.lookup import Lookups
    from pgsluice.pipeline.config import Config
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table_facts import TableFacts
    from pgsluice.source.postgres import PostgresSource


def build_chain(config: Config, *, keeps: bool = True) -> Chain:
    """The modifiers of a configuration. A command that only looks leaves nothing in the state directory."""
    rules, filters = config.modifiers.transformations, _filters(config)
    modifiers: list[Modifier] = []
    lineage = Lineage(config.state_dir / PARTITIONS, writes=keeps)
    of_rows = {name: filter_ for name, filter_ in filters.items() if filter_.chooses_rows}
    if of_rows:
        modifiers.append(RowFilter(of_rows, lineage))
    if rules:
        salt = salt_of(rules, config.state_dir, keeps=keeps)
        book = RuleBook(config.state_dir / RULES, writes=keeps)
        lookups = ReadLookups(config.source_url if config.source is not None else "")
        modifiers += transformers(rules, salt, lookups, Reach(rules, salt, lineage, book))
    if config.modifiers.sanitize:
        modifiers.append(sanitize)
    if choices := _column_choices(config, keeps=keeps):
        modifiers.append(ColumnFilter(choices))
    return Chain([*modifiers, *_injector(config)])


def _injector(config: Config) -> list[Injector]:
    asked = config.modifiers.injector
    if not asked.enabled:
        return []
    identity = {table_name(name): columns for name, columns in asked.identity.items()}
    version = {table_name(name): column for name, column in asked.version.items()}
    return [Injector(ConfiguredIdentity(identity), ConfiguredVersion(version), asked.without_identity)]


def _filters(config: Config) -> dict[TableName, TableFilter]:
    return {table_name(name): filter_ for name, filter_ in config.modifiers.filter.tables.items()}


def _column_choices(config: Config, *, keeps: bool) -> ColumnChoices:
    lists = {name: each.columns for name, each in _filters(config).items() if each.columns is not None}
    return ColumnChoices(lists, config.state_dir / FILE, writes=keeps)


def transformers(
    rules: Transformations,
    salt: Callable[[], bytes],
    lookups: Lookups | None = None,
    reach: Reach | None = None,
) -> list[Modifier]:
    """The modifiers of rules: what the JVM does, and then what it can't."""
    reach = reach or Reach(rules, salt)
    first = Transformer(rules, salt, reach, lookups or ReadLookups(""))
    return [first, ArrowTransformer(reach, salt, rules.on_error)]


def chain_of_others(config: Config, source: PostgresSource | None = None) -> Chain:
    """The same for a command beside the run, whose rules it must have; without a run, the source is asked."""
    config = with_labels(config)
    if not config.modifiers.transformations and changes_values(config.state_dir):
        raise ConfigError(
            f"the pipeline of {config.state_dir} changes values, and this configuration has no rules",
            remedy="Give the pipeline's own -c file; plain rows are for `pgsluice tail --raw` alone",
        )
    if choices := _column_choices(config, keeps=False):
        for table in choices.tables.values():
            if not any((schema, name) in choices.lists for schema, name in table.names):
                raise ConfigError(
                    f"the pipeline of {config.state_dir} leaves out columns of "
                    f"{'.'.join(table.names[-1])}, and this configuration does not",
                    remedy="Give the pipeline's own -c file; plain rows are for `pgsluice tail --raw` alone",
                )
    chain = build_chain(config, keeps=False)
    if source is not None and chain:
        know_source(chain, read_tables_of(config, source))
    return chain


def find_problems(
    config: Config, source: PostgresSource, spark: Callable[[], SparkSession]
) -> list[RuleProblem]:
    """What is wrong with the rules of a configuration by the catalog of its source."""
    rules, facts = config.modifiers.transformations, read_tables_of(config, source)
    analysed = [problem for each in analyse(spark, rules, facts) for problem in each.problems]
    looked_up = lookup_problems(ReadLookups(config.source_url), rules, facts)
    return [*rule_problems(rules, facts), *analysed, *looked_up]


def read_tables_of(config: Config, source: PostgresSource) -> list[TableFacts]:
    """The tables of a pipeline as the catalog has them, partitioned ones before their partitions."""
    wanted = config.modifiers.filter.matcher().matches
    with source.catalog() as conn:
        relids = [table.relid for table in source.tables_of(conn, config.name)]
        relids += [relid for relid, *_ in roots_without_partitions(conn) if relid not in relids]
        return [table for table in read_facts_of_families(conn, relids) if wanted(table.schema, table.name)]


def know_source(chain: Chain, facts: Sequence[TableFacts]) -> None:
    """Let modifiers learn what names mean at the source: numbers, partitions, foreign keys."""
    for rows in chain.of_kind(RowFilter):
        rows.lineage.know(facts)
    for transformer in chain.of_kind(ArrowTransformer):
        transformer.reach.know(facts)


def know_tables(chain: Chain, conn: Connection, relids: Sequence[int]) -> None:
    """The same of some tables; for those that have come since the start."""
    if bool(chain.of_kind(RowFilter)) or bool(chain.of_kind(ArrowTransformer)):
        know_source(chain, read_facts_of_families(conn, relids))


def require_sound(
    config: Config, chain: Chain, source: PostgresSource, spark: Callable[[], SparkSession]
) -> None:
    """Raise when the modifiers don't fit the source: before anything is made, and before any value leaves."""
    was_ruled = RuleBook(config.state_dir / RULES, writes=False).has_changed_any
    if not (chain or config.modifiers.filter.tables or was_ruled):
        return
    rules, facts = config.modifiers.transformations, read_tables_of(config, source)
    for problem in filter_problems(spark, _filters(config), facts):
        raise ConfigError(problem, remedy="Mend modifiers.filter.tables")
    for columns in chain.of_kind(ColumnFilter):
        require_columns(columns.choices, facts, _carried(config))
    for injector in chain.of_kind(Injector):
        _require_injector(injector, chain, facts)
    know_source(chain, facts)
    analysed = list(analyse(spark, rules, facts)) if rules else []
    problems = [*rule_problems(rules, facts), *(problem for each in analysed for problem in each.problems)]
    for transformer in chain.of_kind(Transformer):
        for each in analysed:
            transformer.reach.note_random(each.table, each.random)
        problems += lookup_problems(transformer.lookups, rules, facts)
    if problems:
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(
            f"the rules don't fit the source: {problems[0]}{more}",
            remedy=f"{problems[0].remedy}; `pgsluice validate rules` lists every problem",
        )
    require_same_keys(config, chain, facts, _carried(config))


def _require_injector(injector: Injector, chain: Chain, facts: Sequence[TableFacts]) -> None:
    choices = [columns.choices for columns in chain.of_kind(ColumnFilter)]
    left_out = {table.relid: each.left_out(table.relid) for each in choices for table in facts}
    for problem in injector_problems(injector, facts, left_out):
        raise ConfigError(problem, remedy="Mend modifiers.injector")
    for finder in (injector.identity, injector.version):
        if isinstance(finder, ConfiguredIdentity | ConfiguredVersion):
            finder.columns.know(facts)


def _carried(config: Config) -> set[int]:
    """The tables that an earlier run has met."""
    path = config.log_dir / "schema.db"
    if not path.exists():
        return set()
    with closing(SchemaStore(path)) as store:
        return {version.relid for version in store.versions()}
