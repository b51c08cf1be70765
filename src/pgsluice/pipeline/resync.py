"""Asking a pipeline to copy a table anew: what ``pgsluice resync`` does. The work is done by ``anew.py``."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigError
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.identity import read_tables
from pgsluice.source.records import require_pipeline
from pgsluice.source.snapshot.tables import published_tables
from pgsluice.state.requests import CopyRequest, Requests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pgsluice.schema.renames import TableName


def ask_for_copy(
    url: str,
    pipeline: str,
    state_dir: Path,
    sinks: Sequence[str],
    table: TableName,
    *,
    replace: bool = False,
) -> list[CopyRequest]:
    """Leave a request for each sink; an error when the table is not in the stream."""
    with source_errors(url, "list the tables"), connect(url) as conn:
        record = require_pipeline(conn, pipeline)
        names = {
            (each.relation.schema, each.relation.name): each.qualified
            for each in published_tables(conn, record.publication)
        }
        kinds = {(each.schema, each.name): each.kind for each in read_tables(conn)}
    if kinds.get(table) == "p" and table not in names:
        raise ConfigError(
            f"{'.'.join(table)} is partitioned: its rows are in its partitions", remedy="Name one of those"
        )
    if table not in names:
        nearest = difflib.get_close_matches(".".join(table), sorted(names.values()), n=1, cutoff=0.0)
        hint = f"; the nearest is {nearest[0]}" if nearest else ""
        raise ConfigError(
            f"{'.'.join(table)} is not a table of the publication {record.publication}{hint}",
            remedy="Name one that is replicated; `pgsluice check` lists those that are left out, and why",
        )
    requests = Requests(state_dir)
    return [requests.ask(CopyRequest(sink, *table, replace=replace)) for sink in sinks]
