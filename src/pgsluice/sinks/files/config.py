"""The options of the files sink, and its entry in the registry; cheap to import."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pgsluice.formats.registry import PGSTREAM, EventFormat
from pgsluice.sinks.base import SinkKind
from pgsluice.units import PositiveSize  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.sinks.files.sink import FilesSink

FILE_BYTES: Final = 64 * 1024 * 1024
"""Large enough for a reader to be fast, and what each task may hold in memory."""

MAX_WAIT: Final = 10.0
"""Seconds. Each batch makes at least a file for every table in it, and nobody likes many small files."""

Compression = Literal["zstd", "snappy", "gzip", "none"]
"""How files are compressed."""

_USUAL: Final[dict[str, Compression]] = {"parquet": "zstd", "jsonl": "none"}


def _written_null(value: Any) -> Any:
    """YAML reads the word null as nothing."""
    return "null" if value is None else value


# As in schema/typed/choices.py, whose package is too slow to import for a list of kinds.
_TIMES = Annotated[Literal["null", "clamp", "string", "stop"], BeforeValidator(_written_null)]
_OTHERS = Annotated[Literal["null", "string", "stop"], BeforeValidator(_written_null)]


class FilesConfig(BaseModel):
    """Options of the files sink."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    path: Path = Field(
        validation_alias=AliasChoices("path", "url"),
        description="The directory of the feed; made if it is not there",
    )
    format: Literal["parquet", "jsonl"] = Field(
        "parquet", description="Parquet with typed columns, or lines of JSON, as stdout has"
    )
    events: EventFormat = Field(PGSTREAM, description="jsonl: the shape of the lines")
    schema_changes: Literal["pass", "ignore"] = Field(
        "pass",
        description="Changes of the source's schema: files of the table pgsluice.schema_log, or nothing",
    )
    compression: Compression | None = Field(
        None,
        description="How files are compressed; unset: zstd for parquet, none for jsonl, which takes gzip and "
        "none",
    )
    file_bytes: PositiveSize = Field(
        FILE_BYTES, description="How many rows a task gathers before it writes them as files"
    )
    dates: _TIMES = Field(
        "null",
        description="Parquet, dates that are infinite, BC or after 9999: NULL with the text in _untyped, the "
        "nearest day, a column of text, or an error",
    )
    timestamps: _TIMES = Field("null", description="Parquet, timestamps of that kind: the same choices")
    decimals: _OTHERS = Field(
        "null", description="Parquet, NaN in a decimal: the same, but that there is no nearest value"
    )
    arrays: _OTHERS = Field(
        "null",
        description="Parquet, arrays of several dimensions or with another lower bound than 1: the same",
    )

    @model_validator(mode="after")
    def _lines_are_read_by_everybody(self) -> FilesConfig:
        if self.format == "jsonl" and self.compression not in (None, "gzip", "none"):
            raise ValueError(f"jsonl files can't be {self.compression}; use gzip or none")
        return self

    @property
    def used_compression(self) -> Compression:
        """What is written: the choice, or what is usual for the format."""
        return self.compression or _USUAL[self.format]

    @property
    def special_values(self) -> SpecialValues:
        """What becomes of values that a typed column can't hold."""
        from pgsluice.schema.typed.choices import SpecialValues

        return SpecialValues(self.dates, self.timestamps, self.decimals, self.arrays)


def _build(config: FilesConfig) -> FilesSink:
    from pgsluice.sinks.files.sink import FilesSink

    return FilesSink(config)


KIND: Final = SinkKind(
    name="files",
    summary="every change, in Parquet files or lines of JSON",
    form="change feed",
    guarantee="exactly once",
    config=FilesConfig,
    build=_build,
    example="files:\n  path: feed\n  format: parquet\n",
    max_wait=MAX_WAIT,
)
