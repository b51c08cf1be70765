"""
The ``target`` and ``targets`` sections, made from the kinds that the sink registry knows.

Each kind's own model gets the settings that targets have in common (``batch``), and becomes one key of
``target``. Neighbours: ``sinks/registry.py`` finds the kinds, ``model.py`` puts the sections in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, PositiveInt, create_model, model_validator

from pgsluice.pipeline.config.section import SECTION, Section, TableName
from pgsluice.units import Duration, MiB, PositiveSize, Size

if TYPE_CHECKING:
    from pgsluice.schema.renames import Renames
    from pgsluice.sinks.base import SinkKind

MAX_BYTES: Final = 64 * MiB  # bounds the memory of the driver, and is far above what a job costs to start
MAX_WAIT: Final = 0.0  # what is durable is applied at once: waiting only helps targets with dear commits
QUEUE_BYTES: Final = 64 * MiB  # one full batch may be made ready while another is written

SCHEMA_MAP: Final = "Schemas that are called otherwise in this target, such as public: shop."
TABLES: Final = "Tables that are called otherwise in this target: public.orders: {target: sales.orders}."
ON_ERROR: Final = "What to do with a row that this target refuses, instead of the pipeline's on_error."
BATCH: Final = "Batches of this target, where they differ from the pipeline's batch."

Decode = Literal["auto", "driver", "tasks"]
"""By the driver, or in tasks of Spark; auto: in tasks where these run on other machines."""

OnError = Literal["stop", "dead_letter"]
"""Stop with an error; or put the row aside, to be replayed or discarded later."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Lower-case letters, digits and ``_``: it becomes a part of slot names and file names."""


class BatchConfig(Section):
    """How much goes into one batch. A batch always ends with a whole transaction, so one may be larger."""

    max_bytes: PositiveSize = MAX_BYTES
    """A batch is closed when it has this many bytes of the change log."""

    max_rows: PositiveInt | None = None
    """A batch is closed when it has this many rows; null is no limit."""

    max_wait: Duration = MAX_WAIT
    """How long to wait for more before a smaller batch is applied; 0s applies what there is at once."""

    queue_bytes: Size = QUEUE_BYTES
    """How much may be made ready ahead of the batch that is being written."""

    decode: Decode = "auto"
    """Where large batches are decoded that no modifier has to see; auto: in tasks if Spark is a cluster."""


class TargetBatchConfig(Section):
    """What one target does otherwise than the pipeline's ``batch``; null takes the pipeline's value."""

    max_bytes: PositiveSize | None = None
    """Instead of the pipeline's batch.max_bytes."""

    max_rows: PositiveInt | None = None
    """Instead of the pipeline's batch.max_rows."""

    max_wait: Duration | None = None
    """Instead of the pipeline's batch.max_wait."""

    queue_bytes: Size | None = None
    """Instead of the pipeline's batch.queue_bytes."""

    decode: Decode | None = None
    """Instead of the pipeline's batch.decode."""


class TableConfig(Section):
    """One table of the source in this target."""

    target: TableName
    """What it is called in the target: schema.table."""


class TargetSection(Section):
    """Where changes go: exactly one kind of target."""

    @model_validator(mode="after")
    def _one_kind(self) -> TargetSection:
        if len(self._given()) != 1:
            raise ValueError(f"name exactly one kind of target: {', '.join(self._kinds())}")
        return self

    def chosen(self) -> tuple[str, BaseModel]:
        """The kind and its options."""
        kind = self._given()[0]
        return kind, getattr(self, kind)

    @classmethod
    def _kinds(cls) -> list[str]:
        return [key for key in cls.model_fields if key != "name"]

    def _given(self) -> list[str]:
        return [kind for kind in self._kinds() if getattr(self, kind) is not None]


class NamedTargetSection(TargetSection):
    """One of several targets."""

    name: Name | None = None
    """Name of this target in status and logs, and of its progress; by default its kind."""


@dataclass(frozen=True, slots=True)
class Target:
    """One target of a pipeline, ready to be built."""

    name: str
    kind: SinkKind
    options: BaseModel  # of the kind's own model
    batch: BatchConfig  # the pipeline's, with what this target changes
    renames: Renames
    on_error: OnError = "stop"


def target_sections(kinds: tuple[SinkKind, ...]) -> tuple[type[TargetSection], type[NamedTargetSection]]:
    """The models of ``target`` and of an item of ``targets`` for these kinds."""
    fields: dict[str, Any] = {
        kind.name: (options_model(kind) | None, Field(default=None, description=kind.summary))
        for kind in kinds
    }
    return (
        create_model("Target", __base__=TargetSection, __doc__=TargetSection.__doc__, **fields),
        create_model(
            "NamedTarget", __base__=NamedTargetSection, __doc__=NamedTargetSection.__doc__, **fields
        ),
    )


def options_model(kind: SinkKind) -> type[BaseModel]:
    """A kind's own model with the settings that every target has."""
    namespace: dict[str, Any] = {"__module__": __name__, "__doc__": kind.summary, "model_config": SECTION}
    annotations: dict[str, Any] = {}
    if "batch" not in kind.config.model_fields:
        batch = _batch_model(kind)
        annotations["batch"] = batch
        namespace["batch"] = Field(default=batch(), description=BATCH)
    if kind.tries_rows:
        annotations["on_error"] = OnError | None
        namespace["on_error"] = Field(default=None, description=ON_ERROR)
    if kind.form == "tables":
        annotations |= {"schema_map": dict[str, str], "tables": dict[TableName, TableConfig]}
        namespace["schema_map"] = Field(default={}, description=SCHEMA_MAP)
        namespace["tables"] = Field(default={}, description=TABLES)
    namespace["__annotations__"] = annotations
    return type(f"{kind.name.title()}Target", (kind.config,), namespace)


def _batch_model(kind: SinkKind) -> type[TargetBatchConfig]:
    """A kind whose commits are dear has a longer wait of its own, which the pipeline's does not change."""
    if kind.max_wait is None:
        return TargetBatchConfig
    wait: Any = (
        Duration | None,
        Field(default=kind.max_wait, description=TargetBatchConfig.model_fields["max_wait"].description),
    )
    return create_model(f"{kind.name.title()}Batch", __base__=TargetBatchConfig, max_wait=wait)
