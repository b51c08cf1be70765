"""What DuckDB's errors mean to a pipeline: which can be tried again, and what to tell people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import duckdb

from pgsluice.errors import RowRefusedError, TargetError, TargetLockedError, TargetUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.schema.table import TableVersion

_HOLDER: Final = re.compile(r"Conflicting lock is held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")
_FULL: Final = ("No space left on device", "File too large", "Disk quota exceeded")
_DENIED: Final = ("Permission denied", "Read-only file system", "read-only mode", "Operation not permitted")


def translated(error: duckdb.Error, path: Path) -> TargetError:
    """The error of ours for one of DuckDB's."""
    text = str(error)
    if any(reason in text for reason in _FULL):  # whatever the class: a failed commit is another one
        return TargetUnavailableError(
            f"there is no space left for {path}", remedy="Free some space on that disk", path=str(path)
        )
    if isinstance(error, duckdb.IOException):
        return _io_error(text, path)
    if isinstance(error, duckdb.TransactionException) and "onflict" in text:
        return TargetUnavailableError(
            f"another writer in this process changed {path.name} at the same time", path=str(path)
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return TargetUnavailableError(
            f"DuckDB ran out of memory while writing {path.name}",
            remedy="Give it more by memory_limit, or use a smaller batch",
            path=str(path),
        )
    if isinstance(error, duckdb.FatalException):
        return TargetUnavailableError(f"DuckDB gave up {path.name} and has to open it again", path=str(path))
    return TargetError(f"DuckDB refused a statement on {path.name}: {_without_values(text)}", path=str(path))


def against_rule(error: duckdb.ConstraintException, version: TableVersion) -> RowRefusedError:
    """The error for a row that breaks a rule which somebody gave to the table."""
    return RowRefusedError(
        f"a row of {version.qualified} breaks a rule of DuckDB's table: {_without_values(str(error))}",
        remedy="Drop that rule in the DuckDB file: the source's rows need not follow it",
        table=version.qualified,
    )


def _io_error(text: str, path: Path) -> TargetError:
    holder = _HOLDER.search(text)
    if holder or "Could not set lock" in text:
        who = f"{holder['program']} (PID {holder['pid']})" if holder else "another process"
        return TargetLockedError(
            f"{path} is open in {who}, and a DuckDB file can have only one process that writes",
            remedy="Close it there; to read while the pipeline runs, copy the file",
            path=str(path),
        )
    if any(reason in text for reason in _DENIED):
        return TargetError(
            f"{path} can't be written: permission denied or read-only",
            remedy="Give the user of this process the right to write the file and its directory",
            path=str(path),
        )
    if "No such file or directory" in text or "Is a directory" in text:
        return TargetError(
            f"{path} can't be opened", remedy="Name a file in a directory that exists", path=str(path)
        )
    if "not a valid DuckDB database file" in text:
        return TargetError(
            f"{path} is not a DuckDB file", remedy="Name another file, or remove this one", path=str(path)
        )
    return TargetUnavailableError(f"DuckDB can't write {path}: {_without_values(text)}", path=str(path))


def _without_values(text: str) -> str:
    """The beginning of DuckDB's text, up to where it may quote a row or a statement."""
    return re.split(r"[\n\"]", text, maxsplit=1)[0].rstrip(" :")
