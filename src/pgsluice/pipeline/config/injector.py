"""The section of the injector."""

from __future__ import annotations

from pydantic import Field, SecretStr, model_validator

from pgsluice.modifiers.injector import WithoutIdentity  # noqa: TC001 - pydantic reads annotations
from pgsluice.pipeline.config.section import Section, TableName


class InjectorConfig(Section):
    """What tells the row of an event from others, and how new the event is."""

    enabled: bool = False
    """Whether events for files and stdout get an identity, a version, and ids of their table and columns."""

    identity: dict[TableName, tuple[str, ...]] = Field(default={})
    """Columns that tell rows apart, where they are not the key: public.orders: [number]."""

    version: dict[TableName, str] = Field(default={})
    """A column that grows with each change of a row, in place of the position: public.orders: updated_at."""

    without_identity: WithoutIdentity = "pass"
    """What becomes of rows of tables without identity: pass; drop; stop. All targets, and counted."""

    source_url: SecretStr | None = None
    """Accepted for files of pgstream, and not used: ids are those of the source's catalog."""

    @model_validator(mode="after")
    def _is_switched_on(self) -> InjectorConfig:
        if self.model_fields_set and "enabled" not in self.model_fields_set:
            raise ValueError("say enabled: true, or the injector does nothing")
        if empty := [table for table, columns in self.identity.items() if not columns]:
            raise ValueError(f"the identity of {empty[0]} names no column")
        return self
