"""The ``source`` section: where changes come from. Neighbour of ``targets.py``."""

from __future__ import annotations

# ruff: noqa: TC001 - pydantic reads annotations when the classes are made
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from pgsluice.pipeline.config.section import Pattern, PostgresUrl, Reserved, Section
from pgsluice.units import Duration

EVERY_TABLE: Final = ("*.*",)  # people expect all of their tables until they say otherwise
MODE: Final = "snapshot_and_replication"  # a target without the rows of before is of no use to most
HEARTBEAT_INTERVAL: Final = 0.0  # off: it writes to the source, which must be asked for

Identifier = Annotated[str, Field(min_length=1, max_length=63)]
SlotName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,63}$")]


class ReplicationConfig(Section):
    """What is captured, and the objects on the server that capture it."""

    slot: SlotName | None = None
    """Slot; by default init makes pgsluice_[<name>_]<database>. One that exists is used as it is."""

    publication: Identifier | None = None
    """Publication; by default init makes pgsluice_[<name>_]<database>. One that exists is used as it is."""

    tables: tuple[Pattern, ...] = EVERY_TABLE
    """Tables to publish: table (in public), schema.table, schema.*, *.table or *.*."""

    exclude_tables: tuple[Pattern, ...] = ()
    """Tables to leave out, in the same forms; they win over tables."""

    schema_only_tables: tuple[Pattern, ...] = ()
    """Tables of which a target gets the definition and no rows; tables that names one of them wins."""

    schemas: tuple[Identifier, ...] = ()
    """Publish FOR TABLES IN SCHEMA instead of a list: new tables of these schemas are in by themselves."""

    all_tables: bool = False
    """Publish FOR ALL TABLES instead of a list; refused while a table would then refuse writes."""

    keyless: Literal["leave_out", "full"] = "leave_out"
    """Tables without a usable replica identity: leave_out of the publication, or set it to full."""

    failover: bool = False
    """Make the slot a failover slot (PostgreSQL 17 and later), so that a standby can take over."""

    event_triggers: bool = True
    """Let init make event triggers, which tell of every change of the schema; only a superuser may."""

    origin: Literal["any", "none"] = "any"
    """any, or none: leave out changes that the source itself replicated from elsewhere."""

    heartbeat_interval: Duration = HEARTBEAT_INTERVAL
    """How often to write a heartbeat to an idle source, so that its slot advances; 0s is never."""

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> ReplicationConfig:
        listed = self.tables != EVERY_TABLE or bool(self.exclude_tables or self.schema_only_tables)
        if sum((listed, bool(self.schemas), self.all_tables)) > 1:
            raise ValueError(
                "choose by tables and exclude_tables, or by schemas, or by all_tables: only one of them"
            )
        return self


class PostgresSourceConfig(Section):
    """A PostgreSQL database, read through logical replication."""

    url: PostgresUrl | None = None
    """Connection URL or libpq string. PG* variables, .pgpass and the service file fill in what it lacks."""

    mode: Literal["snapshot_and_replication", "replication", "snapshot"] = MODE
    """snapshot_and_replication: tables, then changes; replication: changes alone; snapshot: tables alone."""

    replication: ReplicationConfig = ReplicationConfig()
    """What is captured, and the objects on the server that capture it."""

    snapshot: Reserved = Reserved()
    """Settings of the first copy; none in this version."""


class SourceConfig(Section):
    """Where changes come from: exactly one kind of source."""

    postgres: PostgresSourceConfig | None = None
    """A PostgreSQL database, read through logical replication."""

    @model_validator(mode="after")
    def _one_kind(self) -> SourceConfig:
        if self.postgres is None:
            raise ValueError("name a kind of source: postgres")
        return self
