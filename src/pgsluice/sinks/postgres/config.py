"""The options of the PostgreSQL sink, and its entry in the registry; cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from pgsluice.sinks.base import SinkKind
from pgsluice.units import Duration, PositiveSize  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from pgsluice.sinks.postgres.sink import PostgresSink

FOLD_BYTES: Final = 64 * 1024 * 1024
"""Some hundred thousand rows: enough for one merge to be worth its statements, and the driver's bound."""

OnConflict = Literal["error", "update", "nothing"]


ObjectKind = Literal[
    "schema",
    "extension",
    "table",
    "sequence",
    "view",
    "materialized view",
    "index",
    "enum",
    "domain",
    "composite",
    "range",
    "function",
    "procedure",
    "aggregate",
    "trigger",
    "rule",
    "policy",
    "statistics",
    "publication",
    "foreign table",
    "base type",
]
"""Columns and constraints are a part of their table. The last two can't be replicated, only excluded."""


class PostgresConfig(BaseModel):
    """Options of the PostgreSQL sink."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr = Field(description="How to connect to the target: anything that libpq takes")
    schema_copy: Literal["create", "leave"] = Field(
        "create",
        description="Before the first copy: create what the source has and the target lacks (types, tables, "
        "then indexes, constraints, views, triggers), or leave the schema to others",
    )
    owners: bool = Field(False, description="Objects keep their owners, which must be roles of the target")
    privileges: bool = Field(False, description="Objects keep their grants")
    publications: bool = Field(
        False,
        description="Publications that are made, changed or dropped on the source after the first copy are "
        "so here too, but for those that pipelines read",
    )
    roles: bool = Field(
        False,
        description="Make the roles that owners and grants need, without passwords; implies owners and "
        "privileges",
    )
    clean: bool = Field(
        False,
        description="Before the first copy, and never again, drop what the target has of the source's "
        "objects; refused when something else there needs one of them",
    )
    schema_changes: Literal["apply", "ignore"] | None = Field(
        None,
        description="Changes of the source's schema after the first copy: make them here too, in order with "
        "the rows, or leave them to others; unset: apply, and ignore with schema_copy: leave",
    )
    schema_include: tuple[ObjectKind, ...] = Field(
        (), description="Only changes of these kinds of objects are made here; empty: of all kinds"
    )
    schema_exclude: tuple[ObjectKind, ...] = Field(
        (), description="Changes of these kinds of objects are not made here"
    )
    on_conflict: OnConflict = Field(
        "error",
        description="An INSERT whose key is in the target already, which happens only when others write "
        "there: stop with an error, replace the row, or leave it as it is",
    )
    lock_timeout: Duration = Field(
        30.0, description="How long to wait for a lock of the target before the batch is tried again"
    )
    fold_bytes: PositiveSize = Field(
        FOLD_BYTES, description="How many rows are gathered on the driver before they are written"
    )

    def makes(self, kind: str) -> bool:
        """Whether changes of a kind of objects are made here."""
        if kind == "publication" and not self.publications:
            return False
        return kind not in self.schema_exclude and (not self.schema_include or kind in self.schema_include)

    @property
    def used_schema_changes(self) -> Literal["apply", "ignore"]:
        """What is done with changes of the source's schema."""
        return self.schema_changes or ("apply" if self.schema_copy == "create" else "ignore")


def _build(config: PostgresConfig) -> PostgresSink:
    from pgsluice.sinks.postgres.sink import PostgresSink

    return PostgresSink(config)


KIND: Final = SinkKind(
    name="postgres",
    summary="tables in another PostgreSQL database",
    form="tables",
    guarantee="exactly once",
    config=PostgresConfig,
    build=_build,
    example="postgres:\n  url: postgresql://replica@db2/shop\n",
    tries_rows=True,
)
