"""The source of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.source.postgres import PostgresSource

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config


def build_source(config: Config, *, init: bool = False, upgrade: bool = False) -> PostgresSource:
    """The source of a configuration."""
    asked = config.postgres.replication
    return PostgresSource(
        config.source_url,
        tables=asked.tables,
        exclude_tables=asked.exclude_tables,
        schema_only_tables=asked.schema_only_tables,
        schemas=asked.schemas,
        all_tables=asked.all_tables,
        keyless=asked.keyless,
        init=init,
        upgrade=upgrade,
        slot=asked.slot,
        publication=asked.publication,
        failover=asked.failover,
        event_triggers=asked.event_triggers,
        heartbeat=asked.heartbeat_interval,
        origin=asked.origin,
    )
