"""
Giving committed files their names.

A file is written under a name that no reader looks for, and renamed once a manifest lists it. All manifests
but the last have had this done; for the last one whoever comes next does it again, which changes nothing
where it was done.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pgsluice.changelog.segment import sync_directory
from pgsluice.observability.failpoints import failpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.files.manifest import Manifest


def reveal(root: Path, manifest: Manifest) -> None:
    """Rename the files of a manifest, durably; those that have their names already are left alone."""
    directories = {(root / listed.path).parent for listed in manifest.files}
    new = [directory for directory in directories if not directory.is_dir()]
    for directory in new:
        directory.mkdir(exist_ok=True)
    if new:
        sync_directory(root)
    for listed in manifest.files:
        with suppress(FileNotFoundError):  # it was renamed before, by us or by another run
            (root / listed.staged).rename(root / listed.path)
        failpoint("files.revealing")
    for directory in directories:
        sync_directory(directory)
