"""
The files sink: a change feed in Parquet or JSON lines, exactly once.

``config`` has the options, ``sink`` the way of a batch, ``commits`` the numbered manifests that make files
count, ``manifest`` what stands in one, ``reveal`` how committed files get their names, ``parts`` how tasks
write, ``parquet`` and ``lines`` the two forms, ``names`` and ``failures`` what they say.
"""

from pgsluice.sinks.files.config import KIND, FilesConfig

__all__ = ["KIND", "FilesConfig"]
