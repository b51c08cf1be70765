"""``pgsluice validate``: says what is wrong with a configuration, or with rules by the source's catalog."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load, load_config, settings

if TYPE_CHECKING:
    from pgsluice.modifiers.transformer.check import RuleProblem
    from pgsluice.pipeline.config import Config, Loaded
    from pgsluice.pipeline.preview import Preview

app = typer.Typer(add_completion=False, help="Check a configuration, or rules by the source's catalog.")


@app.callback()
def validate() -> None:
    """Check a configuration, or rules by the source's catalog."""


@app.command()
def config(context: typer.Context) -> None:
    """Check the configuration; every problem is listed, and the exit code is then 2."""
    loaded = load_config(context)
    source, targets = loaded.postgres, loaded.sinks()
    if not settings(context).quiet:
        names = ", ".join(f"{target.name} ({target.kind.guarantee})" for target in targets)
        print_text(f"{loaded.name}: postgres, {source.mode} -> {names}: the configuration is valid")


@app.command()
def rules(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Rules to check, instead of those of the configuration."),
    ] = None,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    preview: Annotated[
        int | None,
        typer.Option("--preview", min=1, help="Show so many rows of each table before and after."),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Check the rules of transformers against the source; every problem is listed, and the exit code is 1."""
    from pgsluice.pipeline.build_source import build_source
    from pgsluice.pipeline.config.load import RULES
    from pgsluice.pipeline.labels import labelled
    from pgsluice.pipeline.modify import find_problems
    from pgsluice.pipeline.preview import previews
    from pgsluice.pipeline.session import LazySpark, SparkOptions

    given = flags(source_url=source_url, name=name, state_dir=state_dir)
    loaded, problems = _with_rules(load(context, given, without=RULES), file)
    source = build_source(loaded)
    loaded, of_labels = labelled(loaded, source)
    problems += of_labels
    spark = LazySpark(SparkOptions(loaded.spark.master, loaded.spark.conf))
    try:
        problems += find_problems(loaded, source, spark.child)
        shown = list(previews(loaded, source, preview, spark.child)) if preview and not problems else []
    finally:
        spark.stop()
    if json_output:
        print_json(
            {
                "ok": not problems,
                "problems": [each.as_dict() for each in problems],
                **({"preview": [each.as_dict() for each in shown]} if preview else {}),
            }
        )
    else:
        _print(loaded, problems, shown, quiet=settings(context).quiet)
    if problems:
        raise typer.Exit(1)


def _with_rules(loaded: Loaded, file: Path | None) -> tuple[Config, list[RuleProblem]]:
    """The configuration with the rules of a file, or its own, as far as they can be read."""
    from pgsluice.pipeline.rules_file import read_rules, rules_of

    found, problems = rules_of(loaded.left_out or {}) if file is None else read_rules(file, os.environ)
    modifiers = loaded.config.modifiers.model_copy(update={"transformations": found})
    return loaded.config.model_copy(update={"modifiers": modifiers}), problems


def _print(loaded: Config, problems: list[RuleProblem], shown: list[Preview], *, quiet: bool) -> None:
    for problem in problems:
        print_text(f"error  {problem.where}: {problem.problem}")
        print_text(f"       {problem.remedy}")
    for preview in shown:
        print_text(f"\n{preview.table}")
        print_table(["row", "column", "before", "after"], preview.lines())
    if not problems and not quiet:
        tables = loaded.modifiers.transformations.table_transformers
        columns = sum(len(each.column_transformers) for each in tables)
        print_text(f"tables with rules: {len(tables)}, columns: {columns}; nothing is wrong with them")
