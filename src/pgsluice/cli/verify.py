"""``pgsluice verify``: compare targets with the source, row by row, while the pipeline goes on."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, Tables, flags, split_list
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config, settings
from pgsluice.units import readable_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.pipeline.verify.report import TableReport, TargetReport
    from pgsluice.pipeline.verify.verify import Tell


def verify(
    context: typer.Context,
    target: Annotated[
        str | None, typer.Option(help="Name of one target; without it all that hold tables.")
    ] = None,
    tables: Tables = None,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often rows that differ are looked at again while a run is active.")
    ] = 5,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds that a target may take to catch up with the source.")
    ] = 60.0,
    limit: Annotated[int, typer.Option(min=0, help="How many rows are shown of each table.")] = 20,
    json_output: JsonOutput = False,
) -> None:
    """
    Compare targets that hold tables with the source, row by row, as filters and rules let rows through. The
    pipeline may be running. Exit code 1 when something differs.
    """
    from pgsluice.pipeline.verify.verify import VerifyOptions
    from pgsluice.pipeline.verify.verify import verify as compare

    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    _ = config.postgres  # an error when there is no source
    options = VerifyOptions(tuple(split_list(tables or [])) or ("*.*",), target, rounds, wait, limit)
    with _progress(quiet=settings(context).quiet) as tell:
        found = compare(config, options, tell)
    if json_output:
        print_json(
            {
                "equal": not any(each.differs for each in found),
                "targets": [each.as_dict() for each in found],
            }
        )
    else:
        for each in found:
            _print(each, quiet=settings(context).quiet)
    if any(each.differs for each in found):
        raise typer.Exit(1)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Tell]:
    """A line that says which table is read, where somebody looks at it."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console

    with Console(stderr=True).status("comparing") as line:
        yield lambda target, table, place, count: line.update(f"{target}: {table} ({place} of {count})")


def _print(found: TargetReport, *, quiet: bool) -> None:
    running = "while the pipeline runs" if found.running else "no run is active"
    at = f", at {found.position}, {readable_size(found.behind_bytes or 0)} behind" if found.position else ""
    if not quiet:
        print_text(f"{found.target}: {running}{at}")
        print_table(
            ("table", "rows", "in target", "missing", "extra", "different", ""), map(_row, found.tables)
        )
    for table in found.tables:
        _print_table(table)
    for name, reason in found.left_out.items():
        print_text(f"{name}: left out: {reason}")
    for note in found.notes:
        print_text(f"note: {note}")


def _row(table: TableReport) -> tuple[Any, ...]:
    more = "and more" if table.more else ""
    state = more or ("differs" if table.differs else "equal")
    counts = (table.source_rows, table.target_rows, table.missing, table.extra, table.different)
    return (table.table, *(f"{count:,}" for count in counts), state)


def _print_table(table: TableReport) -> None:
    for problem in table.problems:
        print_text(f"{table.table}: {problem}")
    for row in table.rows:
        key = ", ".join(f"{name} = {value}" for name, value in row.key.items())
        times = "" if max(row.rows) <= 1 else f" ({row.rows[0]} in the source, {row.rows[1]} in the target)"
        print_text(f"{table.table}: {row.kind}: {key}{times}")
    rest = table.missing + table.extra + table.different + table.unsettled - len(table.rows)
    if table.rows and rest > 0:
        print_text(f"{table.table}: {rest} more")
    if table.unsettled:
        print_text(f"{table.table}: {table.unsettled} rows changed all the time and could not be compared")
    for note in table.notes:
        print_text(f"{table.table}: {note}")
