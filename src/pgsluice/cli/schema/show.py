"""``pgsluice schema show``: a table as it is, or as it was at a position of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config, settings
from pgsluice.schema.described_names import for_people

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.pipeline.schema_at import TableAt
    from pgsluice.schema.entry import Definition

_KEY = "p"  # of pg_constraint


def show(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table, by its name at that position: schema.table.")],
    at: Annotated[
        str | None, typer.Option("--at", help="A position of the stream: an LSN. Without it, now.")
    ] = None,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """Show a table's definition: columns, key, constraints, indexes; now, or at a position of the stream."""
    from pgsluice.changelog.position import Lsn
    from pgsluice.pipeline.schema_at import table_at

    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    position = Lsn.parse(at) if at is not None else None
    found = table_at(config.source_url, config.name, config.log_dir, table, position)
    if json_output:
        print_json({**found.identified, "indexes": found.indexes})
        return
    _print(found, position, no_color=settings(context).no_color)


def _print(found: TableAt, position: object, *, no_color: bool) -> None:
    definition = found.identified
    when = f" at {position}" if position is not None else ""
    print_text(f"table {definition['schema']}.{definition['name']}{when}, id {definition['id']}")
    print_text()
    columns = [
        (
            column["id"],
            column["name"],
            for_people(column["type"] + (f" COLLATE {column['collation']}" if "collation" in column else "")),
            "not null" if column.get("not_null") else "",
            for_people(_value_of(column)),
            column.get("comment", ""),
        )
        for column in definition["columns"]
    ]
    print_table(("id", "column", "type", "null", "value", "comment"), columns, no_color=no_color)
    print_text()
    for what, text in _rest(found):
        print_text(f"{what:17} {text if what == 'comment' else for_people(text)}")


def _value_of(column: Definition) -> str:
    """Where a row that does not say it has the value from."""
    if "generated" in column:
        how = "STORED" if column["generated"]["stored"] else "VIRTUAL"
        return f"GENERATED ALWAYS AS ({column['generated']['as']}) {how}"
    if "identity" in column:
        return f"GENERATED {column['identity']} AS IDENTITY"
    return f"DEFAULT {column['default']}" if "default" in column else ""


def _rest(found: TableAt) -> Iterator[tuple[str, Any]]:
    definition = found.definition
    constraints = definition.get("constraints", [])
    keys = [each for each in constraints if each["type"] == _KEY]
    yield "key", ", ".join(f"{each['name']}: {each['definition']}" for each in keys) or "none"
    for each in constraints:
        if each["type"] != _KEY:
            yield "constraint", f"{each['name']}: {each['definition']}"
    for index in found.indexes:
        yield "index", index["create"]
    if "partitioned_by" in definition:
        yield "partitioned by", definition["partitioned_by"]
    if "parents" in definition:
        bound = definition.get("bound", "")
        parents = ", ".join(definition["parents"])
        yield ("partition of", f"{parents} {bound}") if bound else ("inherits", parents)
    yield "replica identity", definition.get("identity", "the key" if keys else "none")
    if "comment" in definition:
        yield "comment", definition["comment"]
