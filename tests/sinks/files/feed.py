"""
A plain reader of a feed: what its files say, row by row, and the tables that come of it.

It sees what any reader sees, the files that are visible, and holds them against the manifests: each file is
listed once, and each listed file is there.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyarrow import parquet

from pgsluice.schema.table import Column, PgType, TableVersion
from pgsluice.sinks.memory import TableState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Row = tuple[str | None, ...]


@dataclass(slots=True)
class Feed:
    """One feed, as it is when it is read."""

    root: Path
    manifests: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        found = sorted(self.root.glob("_manifest/*/*.json"))
        self.manifests = [json.loads(path.read_text()) for path in found]
        assert sorted(self.visible()) == sorted(self.listed()), "visible files and manifests differ"

    def visible(self) -> list[str]:
        """Files that a reader finds by their names."""
        found = [path for kind in ("parquet", "jsonl", "jsonl.gz") for path in self.root.glob(f"**/*.{kind}")]
        return [path.relative_to(self.root).as_posix() for path in found]

    def listed(self) -> list[str]:
        """Files that the manifests name, in the order of their rows for each table."""
        return [file["path"] for manifest in self.manifests for file in manifest["files"]]

    def token(self, pipeline: str) -> str | None:
        """The progress that the feed holds."""
        last = max(
            (each for each in self.manifests if each["pipeline"] == pipeline), key=lambda each: each["number"]
        )
        beside = self.root / "_manifest" / pipeline / f"{last['number']:010d}.progress"
        return json.loads(beside.read_text())["token"] if beside.exists() else last["token"]

    def lines(self) -> list[dict[str, Any]]:
        """The events of JSON lines, in the order of their positions."""
        found = []
        for path in self.listed():
            events = [json.loads(line) for line in _text(self.root / path).splitlines()]
            assert events == sorted(events, key=_position), f"{path} is not in order"
            found += events
        return sorted(found, key=_position)

    def tables(self) -> dict[str, list[Row]]:
        """The rows that the changes leave, by table, as PostgreSQL's text; no empty tables."""
        states: dict[str, TableState] = {}
        for table, change in self.changes():
            states.setdefault(table.qualified, TableState()).apply(change, table)
        return {name: state.rows for name, state in states.items() if state.rows}

    def changes(self) -> Iterator[tuple[TableVersion, dict[str, Any]]]:
        """Every change of a table, in the order of each table, in the words of the envelope."""
        for manifest in self.manifests:
            for file in manifest["files"]:
                if file["table"] is None:
                    continue
                table = _table(file["table"], manifest["tables"][str(file["table"])])
                read = _parquet_rows if file["path"].endswith(".parquet") else _json_rows
                rows = list(read(self.root / file["path"], table))
                assert len(rows) == file["rows"]
                yield from ((table, row) for row in rows)


def _table(version: int, fields: dict[str, Any]) -> TableVersion:
    columns = tuple(Column(c["name"], PgType(0, c["type"]), c["in_identity"]) for c in fields["columns"])
    return TableVersion(version, 0, fields["schema"], fields["table"], fields["identity"], columns)


def _parquet_rows(path: Path, table: TableVersion) -> Iterator[dict[str, Any]]:
    names = [column.name for column in table.columns]
    for row in parquet.ParquetFile(path).read().to_pylist():
        odd, old = dict(row["_untyped"] or ()), dict(row["_old"] or ())
        yield {
            "op": row["_op"],
            "values": [odd[name] if name in odd else as_text(row[name]) for name in names],
            "old": [old.get(name) for name in names] if row["_old"] is not None else None,
            "unchanged": [names.index(name) for name in row["_unchanged"]],
        }


def _json_rows(path: Path, table: TableVersion) -> Iterator[dict[str, Any]]:
    names = [column.name for column in table.columns]
    for line in _text(path).splitlines():
        event = json.loads(line, parse_int=str, parse_float=str)
        identity = _cells(event["identity"], names)
        yield {
            "op": "S" if event["lsn"] == "0/0" else event["action"],
            "values": _cells(event["columns"], names),
            "old": identity,
            "unchanged": [names.index(name) for name in event.get("unchanged", ())],
        }


def _cells(columns: list[dict[str, Any]] | None, names: list[str]) -> list[str | None] | None:
    if columns is None:
        return None
    values = {column["name"]: as_text(column["value"]) for column in columns}
    return [values.get(name) for name in names]


def _text(path: Path) -> str:
    """Lines may hold other ends of lines than ours, so nothing is translated."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def _position(event: dict[str, Any]) -> tuple[int, int, int]:
    high, low = (int(part, 16) for part in event["lsn"].split("/"))
    return high, low, event["seq"]


def as_text(value: Any) -> str | None:
    """A value of a file as PostgreSQL's text, for the types that these tests use."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dt.datetime):
        whole, _, part = value.isoformat(sep=" ").removesuffix("+00:00").partition(".")
        return whole + (f".{part.rstrip('0')}" if part else "") + "+00"
    if isinstance(value, list):
        return "{" + ",".join("NULL" if v is None else _element(v) for v in value) + "}"
    return None if value is None else str(value)


def _element(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
