"""
Rules from security labels of the provider ``anon``, which the extension PostgreSQL Anonymizer reads.

The labels are in a catalog of PostgreSQL itself, so they are read without the extension; its functions are
not called, but replaced by the transformers that come nearest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import yaml

from pgsluice.errors import ConfigError
from pgsluice.modifiers.transformer.check import RuleProblem
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.modifiers.transforms.registry import make
from pgsluice.pipeline.anon import rule_of_label
from pgsluice.pipeline.build_source import build_source
from pgsluice.schema.table_facts import read_facts
from pgsluice.source.process import prepare_directory

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from pgsluice.source.postgres import PostgresSource

_DUMP: Final = "inferred_rules.yaml"
_REMEDY: Final = "Give the column a rule in table_transformers, which goes before its label"
_LABELS: Final = """
SELECT l.objoid::int8, a.attname, l.label
FROM pg_catalog.pg_seclabel l
JOIN pg_catalog.pg_attribute a ON a.attrelid = l.objoid AND a.attnum = l.objsubid
WHERE l.provider = 'anon' AND l.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND l.objsubid > 0
  AND l.objoid = ANY (%s::pg_catalog.oid[]) AND NOT a.attisdropped
ORDER BY l.objoid, l.objsubid
"""

Tree = dict[str, Any]


def with_labels(config: Config, *, keeps: bool = False) -> Config:
    """The configuration with the rules of labels, if it asks for them; raises when one is not understood."""
    if not config.modifiers.transformations.infer_from_security_labels:
        return config
    made, problems = labelled(config, build_source(config), keeps=keeps)
    if problems:
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(
            f"a security label can't be followed: {problems[0]}{more}", remedy=problems[0].remedy
        )
    return made


def labelled(
    config: Config, source: PostgresSource, *, keeps: bool = False
) -> tuple[Config, list[RuleProblem]]:
    """The same, as far as labels can be understood, and what is wrong with the others."""
    rules = config.modifiers.transformations
    if not rules.infer_from_security_labels:
        return config, []
    inferred, problems = _inferred(config, source)
    if keeps and rules.dump_inferred_rules:
        _dump(inferred, config.state_dir)
    merged = rules.model_copy(
        update={
            "table_transformers": _merged(rules, inferred),
            "infer_from_security_labels": False,  # it is done
        }
    )
    modifiers = config.modifiers.model_copy(update={"transformations": merged})
    return config.model_copy(update={"modifiers": modifiers}), problems


def _inferred(config: Config, source: PostgresSource) -> tuple[list[Tree], list[RuleProblem]]:
    """Rules by table, in the form of a file; columns that have a rule of their own are left out."""
    own = {
        (each.schema_, each.table): each.column_transformers
        for each in config.modifiers.transformations.table_transformers
    }
    wanted = config.modifiers.filter.matcher().matches
    with source.catalog() as conn:
        relids = [table.relid for table in source.tables_of(conn, config.name)]
        tables = {each.relid: each for each in read_facts(conn, relids) if wanted(each.schema, each.name)}
        labels = conn.execute(_LABELS, (list(tables),)).fetchall()
    rules: dict[int, Tree] = {}
    problems = []
    for relid, column, label in labels:
        table = tables[relid]
        if column in own.get((table.schema, table.name), {}):
            continue
        type_ = next(each.type for each in table.columns if each.name == column)
        try:
            rule = rule_of_label(label, column, type_)
            make(rule["name"], rule.get("parameters", {}))
            rules.setdefault(relid, {})[column] = rule
        except ValueError as exc:
            problems.append(RuleProblem(table.qualified, column, str(exc), _REMEDY))
    listed = [
        {"schema": tables[relid].schema, "table": tables[relid].name, "column_transformers": columns}
        for relid, columns in rules.items()
    ]
    return listed, problems


def _merged(rules: Transformations, inferred: list[Tree]) -> tuple[Any, ...]:
    made = Transformations.model_validate({"table_transformers": inferred}).table_transformers
    by_name = {(each.schema_, each.table): each for each in made}
    merged = []
    for own in rules.table_transformers:
        more = by_name.pop((own.schema_, own.table), None)
        columns = {**(more.column_transformers if more else {}), **own.column_transformers}
        merged.append(own.model_copy(update={"column_transformers": columns}))
    return (*merged, *by_name.values())


def _dump(inferred: list[Tree], state_dir: Path) -> None:
    """Write them as a file of rules, which people can go on with."""
    prepare_directory(state_dir)
    with open(state_dir / _DUMP, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        yaml.safe_dump({"transformations": {"table_transformers": inferred}}, file, sort_keys=False)
