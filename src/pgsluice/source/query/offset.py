"""The offset that Spark keeps in a query's checkpoint: ``{"lsn": "0/16B3748", "system": "7312..."}``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError, WrongSystemError


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of the last whole transaction that a query has read, and the cluster that it is of."""

    lsn: Lsn
    system: str

    def as_json(self) -> dict[str, str]:
        """The form that Spark keeps."""
        return {"lsn": str(self.lsn), "system": self.system}

    @classmethod
    def read(cls, found: dict[str, Any], system: str) -> Offset:
        """An offset of the checkpoint, once it is one of this system."""
        if "lsn" not in found:
            raise ConfigError(
                f"the checkpoint holds {found}, which is no offset of pgsluice",
                remedy="Give this query a checkpoint directory of its own",
            )
        offset = cls(Lsn.parse(str(found["lsn"])), str(found.get("system", system)))
        if offset.system != system:
            raise WrongSystemError(
                f"the checkpoint is of the database system {offset.system}, the change log of {system}",
                remedy="Point the query at the old system's log, or use a new checkpoint directory",
            )
        return offset
