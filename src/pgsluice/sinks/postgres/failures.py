"""What the target's errors mean to a pipeline: which can be tried again, and what to tell people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors as pg

from pgsluice.errors import RowRefusedError, TargetError, TargetSchemaError, TargetUnavailableError
from pgsluice.sinks.postgres.obstacles import GRANT
from pgsluice.sinks.ready import table_gone

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion

# What gets better by itself, or when somebody has acted: the batch is tried again, the log takes the stream.
_TRANSIENT: Final = (
    pg.AdminShutdown,
    pg.CannotConnectNow,
    pg.CrashShutdown,
    pg.DeadlockDetected,
    pg.DiskFull,
    pg.IdleInTransactionSessionTimeout,
    pg.InsufficientResources,
    pg.IoError,  # of storage that is away for a moment; a disk that is broken for good needs people anyway
    pg.LockNotAvailable,
    pg.OutOfMemory,
    pg.QueryCanceled,
    pg.ReadOnlySqlTransaction,
    pg.SerializationFailure,
    pg.TooManyConnections,
)


_MISFITS: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError)


def translated(error: psycopg.Error, where: str, version: TableVersion | None) -> TargetError:
    """
    The error of ours for one of the target's; ``version`` is the table that was being written.

    The server's details quote values of rows: they are never shown.
    """
    said = _said(error)
    table = version.qualified if version is not None else _named(error)
    at = f" while {table} was being written" if table else ""
    if isinstance(error, _TRANSIENT) or (
        isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    ):
        return TargetUnavailableError(f"{where} can't take the batch now{at}: {said}", table=table)
    if isinstance(error, pg.InsufficientPrivilege):
        return (RowRefusedError if table else TargetError)(
            f"the role of the target may not write{f' {table}' if table else ''}: {said}",
            remedy="Grant it the right, or connect as the owner of the tables",
            table=table,
        )
    if isinstance(error, pg.UniqueViolation) and error.diag.constraint_name:
        return RowRefusedError(
            f"{table} has a row already that the source has just made, by {error.diag.constraint_name}",
            remedy="Somebody else writes to the target: remove those rows, or set on_conflict",
            table=table,
            constraint=error.diag.constraint_name,
        )
    if isinstance(error, pg.ForeignKeyViolation) and error.diag.constraint_name:
        return TargetSchemaError(
            f"the foreign key {error.diag.constraint_name} of the target's table {table} is not satisfied",
            remedy=f"Copy the table that it refers to as well, or let the role switch it off: {GRANT}",
            table=table,
            constraint=error.diag.constraint_name,
        )
    if version is not None and isinstance(error, pg.UndefinedTable) and not _is_of_function(error):
        return table_gone(version)
    if version is not None and isinstance(error, _MISFITS):
        return _misfit(error, version)
    return TargetError(f"{where} refused a statement{at}: {_words(error)}", table=table)


def _named(error: psycopg.Error) -> str | None:
    diag = error.diag
    return f"{diag.schema_name}.{diag.table_name}" if diag.table_name else None


def _said(error: psycopg.Error) -> str:
    """What the server says; a function's own words may be nothing but values of rows."""
    if isinstance(error, pg.RaiseException) or _is_of_function(error):
        return f"an exception that a function of the target raises (SQLSTATE {error.sqlstate})"
    return error.diag.message_primary or " ".join(str(error).split())


def _is_of_function(error: psycopg.Error) -> bool:
    return _OF_FUNCTION.search(error.diag.context or "") is not None


def _words(error: psycopg.Error) -> str:
    """The same without values of rows."""
    return _without_values(_said(error))


def _misfit(error: psycopg.Error, version: TableVersion) -> TargetSchemaError:
    column = error.diag.column_name or _column_of_copy(error.diag.context, version)
    what = f"the column {column!r} of {version.qualified}" if column else version.qualified
    rule = f" ({error.diag.constraint_name})" if error.diag.constraint_name else ""
    return TargetSchemaError(
        f"the target refuses a value of {what}{rule}: {_words(error)}",
        remedy="Make the target's table as the source's is; then start again, or replay the letter",
        table=version.qualified,
        column=column,
    )


def _column_of_copy(context: str | None, version: TableVersion) -> str | None:
    """COPY names the column in its context: ``COPY items, line 1, column price: "…"``."""
    for line in (context or "").splitlines():
        if line.startswith("COPY "):
            for column in version.columns:
                if f", column {column.name}:" in line or line.endswith(f", column {column.name}"):
                    return column.name
    return None


def _without_values(text: str) -> str:
    """The server's words, without what they quote and what follows a colon: that may be a value."""
    return _QUOTED.sub("…", text.split(":", maxsplit=1)[0]).rstrip()


_QUOTED: Final = re.compile(r'"[^"]*"?')
_OF_FUNCTION: Final = re.compile(r"^(PL/\w+|SQL) function ", re.MULTILINE)
