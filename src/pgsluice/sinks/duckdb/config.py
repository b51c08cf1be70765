"""The options of the DuckDB sink, and its entry in the registry; cheap to import."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from pgsluice.sinks.base import SinkKind
from pgsluice.units import PositiveSize  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from pgsluice.sinks.duckdb.sink import DuckDBSink

FOLD_BYTES: Final = 64 * 1024 * 1024
"""Enough for some hundred thousand rows: each fold looks through the keys of the whole table once."""


class DuckDBConfig(BaseModel):
    """Options of the DuckDB sink."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    path: Path = Field(
        validation_alias=AliasChoices("path", "url"), description="The DuckDB file; made if it is not there"
    )
    arrays: Literal["text", "list"] = Field(
        "text",
        description="Array columns: PostgreSQL's text, which holds any array, or a DuckDB list, which holds "
        "one-dimensional arrays only",
    )
    schema_changes: Literal["apply", "ignore"] = Field(
        "apply",
        description="Changes of the source's tables and columns: make them here too, or leave them to others",
    )
    misfits: Literal["stop", "nullify"] = Field(
        "stop",
        description="A value that its DuckDB type can't hold (NaN in a decimal, a timestamp after the year "
        "294246): stop with an error, or write NULL",
    )
    threads: int | None = Field(None, ge=1, description="Threads that DuckDB may use; unset: all cores")
    memory_limit: str | None = Field(
        None, pattern=r"^\d+(\.\d+)? ?([KMGT]i?B)$", description="Memory that DuckDB may use, such as 2GB"
    )
    fold_bytes: PositiveSize = Field(
        FOLD_BYTES, description="How many rows are gathered on the driver before they are written"
    )


def _build(config: DuckDBConfig) -> DuckDBSink:
    from pgsluice.sinks.duckdb.sink import DuckDBSink

    return DuckDBSink(config)


KIND: Final = SinkKind(
    name="duckdb",
    summary="tables in a DuckDB file",
    form="tables",
    guarantee="exactly once",
    config=DuckDBConfig,
    build=_build,
    example="duckdb:\n  path: shop.duckdb\n",
    extra="duckdb",
    tries_rows=True,
)
