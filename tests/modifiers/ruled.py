"""A pipeline with rules into several targets at once, and what its tests look at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb

from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from pgsluice.pipeline.run import Pipeline
    from tests.fix_pg import Database

CANARY = "canary"
SALT = "a salt of tests"
WAYS = {"driver": 1 << 40, "tasks": 0}
"""By name of the way that rows of the stream go: up to how many bytes of log the driver takes them alone."""

_DESCRIBED = (
    "SELECT description FROM pg_description"
    " UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef"
    " UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint"
    " UNION ALL SELECT pg_get_viewdef(oid) FROM pg_class WHERE relkind IN ('v', 'm')"
    " UNION ALL SELECT indexdef FROM pg_indexes UNION ALL SELECT polname || coalesce(pg_get_expr(polqual,"
    " polrelid), '') FROM pg_policy UNION ALL SELECT array_to_string(attmissingval, '') FROM pg_attribute"
)


def forced(pipeline: Pipeline, way: str) -> Pipeline:
    """The same with all batches of the stream on one way."""
    options = pipeline._batch
    assert isinstance(options, dict)
    bound = {"small_bytes": WAYS[way], "without_spark_bytes": WAYS[way]}
    pipeline._batch = {name: replace(each, **bound) for name, each in options.items()}
    return pipeline


class Ruled:
    """A pipeline into a PostgreSQL database, a DuckDB file and lines of files."""

    def __init__(self, source: Database, target: Database, place: Path) -> None:
        self.source, self.target, self.place = source, target, place
        self.modifiers: dict[str, Any] = {}
        self.targets = ["postgres", "duckdb", "files"]
        self.more: dict[str, Any] = {}

    def rule(self, table: str, **columns: Any) -> Ruled:
        """Give columns of a table rules: by name of the transformer, or whole ones."""
        rules = {
            column: {"name": rule} if isinstance(rule, str) else rule for column, rule in columns.items()
        }
        section = self.modifiers.setdefault("transformations", {"salt": SALT, "table_transformers": []})
        others = [each for each in section["table_transformers"] if each["table"] != table]
        section["table_transformers"] = [*others, {"table": table, "column_transformers": rules}]
        return self

    def config(self) -> Config:
        """The configuration of now."""
        every = {
            "postgres": {"postgres": {"url": self.target.url}},
            "duckdb": {"duckdb": {"path": str(self.place / "target.duckdb")}},
            "files": {"files": {"path": str(self.place / "feed"), "format": "jsonl"}},
        }
        given = {
            "source.postgres.url": self.source.url,
            "targets": [{"name": name, **every[name]} for name in self.targets],
            "state_dir": str(self.place / "state"),
            "modifiers": self.modifiers,
            **self.more,
        }
        return load_config(None, {}, given)

    def pipeline(self) -> Pipeline:
        """A pipeline that has not run."""
        return build_pipeline(self.config(), init=True)

    def once(self, *statements: str, way: str | None = None) -> None:
        """Run statements at the source, and catch up."""
        self.source.run(*statements)
        pipeline = self.pipeline()
        assert (forced(pipeline, way) if way else pipeline).run(once=True)

    def in_duckdb(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the DuckDB file."""
        with duckdb.connect(str(self.place / "target.duckdb"), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows that both databases have."""
        found = self.target.rows(query)
        if "duckdb" in self.targets:
            assert self.in_duckdb(query) == found
        return found

    def lines(self, table: str) -> list[dict[str, Any]]:
        """What the files have of a table: the values of each line by column."""
        files = sorted((self.place / "feed").rglob("*.jsonl"))
        found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        return [
            {column["name"]: column["value"] for column in line["columns"]}
            for line in found
            if line["table"] == table and line["columns"]
        ]

    def require_no_canary(self) -> None:
        """Not a word of it in any target."""
        query = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
        for (table,) in self.target.rows(f"{query} WHERE schemaname NOT IN ('pg_catalog')"):
            told = [row for (row,) in self.target.rows(f"SELECT t::text FROM {table} t") if CANARY in row]
            assert not told, (table, told)
        assert not [text for (text,) in self.target.rows(_DESCRIBED) if CANARY in (text or "")]
        for path in (self.place / "feed").rglob("*"):
            assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path
        held = self.place / "target.duckdb"
        assert not held.exists() or CANARY.encode() not in held.read_bytes()
