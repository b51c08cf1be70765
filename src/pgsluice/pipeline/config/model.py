"""
The whole configuration of a pipeline as one model. Neighbours: ``load.py`` fills it.

Every default is a named constant with its reason.
"""

from __future__ import annotations

# ruff: noqa: TC001 - pydantic reads annotations when the classes are made
from functools import lru_cache
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, create_model, model_validator

from pgsluice.errors import ConfigError
from pgsluice.modifiers.row_filter import TableFilter
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.pipeline.config.injector import InjectorConfig
from pgsluice.pipeline.config.section import Pattern, Reserved, Section, TableName
from pgsluice.pipeline.config.source import PostgresSourceConfig, SourceConfig
from pgsluice.pipeline.config.targets import (
    BatchConfig,
    Name,
    NamedTargetSection,
    OnError,
    Target,
    TargetBatchConfig,
    TargetSection,
    target_sections,
)
from pgsluice.schema.match import TableMatcher
from pgsluice.schema.renames import Renames
from pgsluice.sinks import registry
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.units import Duration, GiB, LocalPath, PositiveSize

if TYPE_CHECKING:
    from pgsluice.sinks.base import SinkKind

# The same place from wherever the command is started: a log beside the working directory would be
# "missing" for a run started elsewhere. Services set state_dir.
STATE_HOME: Final = "~/.pgsluice"
LOG_MAX_BYTES: Final = 10 * GiB  # hours of heavy traffic, and still a size that a laptop's disk has
LOG_RETENTION: Final = 0.0  # what every target holds is not needed again unless replay is wanted
# Every core, and a task that failed is tried up to 4 times: plain local[*] gives up at the first
# worker that dies.
SPARK_MASTER: Final = "local[*,4]"


class LogConfig(Section):
    """The change log: the durable, ordered copy of the replication stream."""

    path: LocalPath | None = None
    """Directory of the log; by default log below state_dir. Executors elsewhere need a shared mount."""

    max_bytes: PositiveSize = LOG_MAX_BYTES
    """Size at which capture pauses until targets have caught up."""

    retention: Duration = LOG_RETENTION
    """How long changes are kept after every target has passed them, for replay."""

    confirm: Literal["log", "sinks"] = "log"
    """What lets the source forget: log, once the log is durable; sinks, once every target has the change."""


def _as_text(value: Any) -> Any:
    """Spark settings are text; YAML gives booleans and numbers."""
    if not isinstance(value, dict):
        return value
    return {
        str(key): str(item).lower()
        if isinstance(item, bool)
        else str(item)
        if isinstance(item, int | float)
        else item
        for key, item in value.items()
    }


class SparkConfig(Section):
    """The Spark session that does the work."""

    master: str = SPARK_MASTER
    """Spark master: local[*,4] (all cores, a task tried 4 times), local[2,4], spark://host:7077, yarn, k8s://…"""

    conf: Annotated[dict[str, str], BeforeValidator(_as_text)] = Field(default={}, repr=False)
    """More Spark settings, such as spark.driver.memory: 4g."""

    jars: tuple[str, ...] = ()
    """Jar files for the session."""

    packages: tuple[str, ...] = ()
    """Maven coordinates for the session."""


class FilterConfig(Section):
    """Which tables go on to the targets, of those that are captured."""

    include_tables: tuple[Pattern, ...] = ()
    """Only these go on; empty is all of them."""

    exclude_tables: tuple[Pattern, ...] = ()
    """These don't go on, whatever include_tables says."""

    tables: dict[TableName, TableFilter] = Field(default={})
    """What of tables goes on, by where, operations or columns: public.orders: {where: "total > 10"}."""

    def matcher(self) -> TableMatcher:
        """The tables that go on."""
        return TableMatcher.parse(self.include_tables or ("*.*",), self.exclude_tables)


class ModifiersConfig(Section):
    """What happens to changes on their way."""

    filter: FilterConfig = FilterConfig()
    """Which tables go on to the targets, of those that are captured."""

    transformations: Transformations = Transformations()
    """Which values are changed on their way, and how."""

    sanitize: bool = False
    """Take out what targets refuse: NUL, and bytes that are no UTF-8."""

    injector: InjectorConfig = InjectorConfig()
    """What tells the row of an event from others, and how new the event is."""

    @model_validator(mode="before")
    @classmethod
    def _an_empty_list_is_no_modifiers(cls, value: Any) -> Any:
        return {} if value == [] else value


class Config(Section):
    """The configuration of a pipeline."""

    name: Name = DEFAULT_PIPELINE
    """Name of the pipeline: in slot and publication, in the state directory, and of its progress."""

    state_dir: LocalPath = Field(
        default_factory=lambda data: Path(STATE_HOME, data.get("name", DEFAULT_PIPELINE)),
        validate_default=True,
    )
    """Directory of the pipeline's own files, with mode 0700; by default ~/.pgsluice/<name>."""

    log: LogConfig = LogConfig()
    """The change log: the durable, ordered copy of the replication stream."""

    spark: SparkConfig = SparkConfig()
    """The Spark session that does the work."""

    batch: BatchConfig = BatchConfig()
    """How much goes into one batch, for targets that don't say otherwise."""

    on_error: OnError = "stop"
    """What to do with a row that a target refuses: stop, or dead_letter: put it aside (postgres, duckdb)."""

    source: SourceConfig | None = None
    """Where changes come from: exactly one kind of source."""

    target: TargetSection | None = None
    """Where changes go: exactly one kind of target. For several, use targets."""

    targets: tuple[NamedTargetSection, ...] = ()
    """Several targets over the same log, each at its own pace: a list of kinds, with a name each."""

    modifiers: ModifiersConfig = ModifiersConfig()
    """What happens to changes on their way."""

    instrumentation: Reserved = Reserved()
    """Metrics and traces; no settings in this version."""

    server: Reserved = Reserved()
    """The HTTP server; no settings in this version."""

    @model_validator(mode="after")
    def _target_or_targets(self) -> Config:
        if self.target is not None and self.targets:
            raise ValueError("give target or targets, not both")
        names = [_target_name(section) for section in self.targets]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two targets are named {twice[0]}; give each of them a name of its own")
        return self

    @property
    def log_dir(self) -> Path:
        """Where the change log is."""
        return self.log.path or self.state_dir / "log"

    @property
    def postgres(self) -> PostgresSourceConfig:
        """The source; an error when none is configured."""
        if self.source is None or self.source.postgres is None:
            raise ConfigError(
                "no source is configured",
                remedy="Give --source-url, PGSLUICE_SOURCE__POSTGRES__URL, or source.postgres.url in a file",
            )
        return self.source.postgres

    @property
    def source_url(self) -> str:
        """How to connect to the source; empty when libpq's own variables say it all."""
        url = self.postgres.url
        return url.get_secret_value() if url else ""

    def sinks(self) -> tuple[Target, ...]:
        """The targets, in order; an error when none is configured."""
        sections = (self.target,) if self.target else self.targets
        if not sections:
            raise ConfigError(
                "no target is configured",
                remedy="Give --target, or a target section; `pgsluice targets` lists the kinds",
            )
        return tuple(self._resolve(section) for section in sections)

    def _resolve(self, section: TargetSection) -> Target:
        kind, options = section.chosen()
        own: TargetBatchConfig = getattr(options, "batch", TargetBatchConfig())
        batch = self.batch.model_copy(update=own.model_dump(exclude_none=True))
        renames = Renames.parse(
            getattr(options, "schema_map", {}),
            {source: table.target for source, table in getattr(options, "tables", {}).items()},
        )
        on_error = getattr(options, "on_error", None) or self.on_error
        return Target(_target_name(section), registry.kind(kind), options, batch, renames, on_error)


def config_model(kinds: tuple[SinkKind, ...] | None = None) -> type[Config]:
    """The configuration's model with the targets that there are; by default all that can be loaded."""
    return _config_model(tuple(registry.kinds().values()) if kinds is None else kinds)


@lru_cache(maxsize=8)
def _config_model(kinds: tuple[SinkKind, ...]) -> type[Config]:
    one, item = target_sections(kinds)
    words = {key: Config.model_fields[key].description for key in ("target", "targets")}
    fields: dict[str, Any] = {
        "target": (one | None, Field(default=None, description=words["target"])),
        "targets": (GenericAlias(tuple, (item, ...)), Field(default=(), description=words["targets"])),
    }
    model: type[Config] = create_model("Config", __base__=Config, __doc__=Config.__doc__, **fields)
    return model


def _target_name(section: TargetSection) -> str:
    name: str | None = getattr(section, "name", None)
    return name or section.chosen()[0]
