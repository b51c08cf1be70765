"""Whether the targets of a configuration can be reached, before a run needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import SluiceError
from pgsluice.source.finding import Finding

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config


def check_targets(config: Config) -> list[Finding]:
    """A finding for each target that is a server; targets that are files are made by the run."""
    found = []
    for target in config.sinks():
        database = getattr(target.kind.build(target.options), "database", None)
        if database is None:
            continue
        try:
            database()
        except SluiceError as error:
            what = f"target {target.name}: {error.message}"
            found.append(Finding("target", "error", what, error.remedy, {"target": target.name}))
        else:
            what = f"target {target.name}: it can be reached"
            found.append(Finding("target", "info", what, fields={"target": target.name}))
    return found
