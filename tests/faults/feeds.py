"""``pgsluice run`` into files, to be killed; afterwards a plain reader folds the feed, and it is compared."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg

from pgsluice.embedded.shop import TABLES
from tests.faults.running import Runner
from tests.sinks.files.feed import Feed

if TYPE_CHECKING:
    from pathlib import Path


class FeedRunner(Runner):
    """A pipeline of the shop whose target is a feed; rows are compared as PostgreSQL's text."""

    def __init__(self, url: str, place: Path, *, format_: str) -> None:
        self.feed = place / "feed"
        self._format = format_
        super().__init__(url, place)

    def target_section(self) -> str:
        """Files, with less waiting than usual; lines cost a moment of Spark for each batch."""
        wait = "50ms" if self._format == "parquet" else "1s"
        return f"files: {{path: {self.feed}, format: {self._format}, batch: {{max_wait: {wait}}}}}"

    def held(self) -> dict[str, Counter[Any]]:
        """What the changes of the feed leave."""
        tables = Feed(self.feed).tables()
        return {table: Counter(tables.get(f"public.{table}", [])) for table in TABLES}

    def source_rows(self, table: str) -> Counter[Any]:
        """The source's rows as text."""
        with psycopg.connect(self.admin_url) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            names = [c.name for c in connection.execute(f"SELECT * FROM {table} LIMIT 0").description or ()]
            texts = ", ".join(f'"{name}"::text' for name in names)
            return Counter(connection.execute(f"SELECT {texts} FROM {table}").fetchall())
