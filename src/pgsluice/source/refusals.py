"""
From what psycopg and the source say to the errors of pgsluice, each with what to do.

A connection that was refused goes by the server's words (:mod:`pgsluice.postgres.refusals`); everything
after goes by SQLSTATE.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors as pg

from pgsluice.errors import (
    MissingRightError,
    PoolerError,
    SchemaBusyError,
    SourceError,
    SourceRefusedError,
    SourceUnreachableError,
)
from pgsluice.postgres import refusals
from pgsluice.postgres.address import safe_url

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASSES: Final[Mapping[refusals.Kind, type[SourceError]]] = {
    "pooler": PoolerError,
    "right": MissingRightError,
    "refused": SourceRefusedError,
    "unreachable": SourceUnreachableError,
}


_RACE: Final = re.compile("could not open relation with OID|cache lookup failed for")
"""What the server says when something is dropped that it has just found in the catalog."""


def refusal(exc: psycopg.Error, url: str, parameters: Mapping[str, Any]) -> SourceError:
    """Our error for a connection that could not be opened."""
    found = refusals.refusal(exc, url, parameters)
    return _CLASSES[found.kind](found.message, remedy=found.remedy)


def translate(exc: psycopg.Error, url: str, doing: str) -> SourceError:
    """Our error for a statement that failed; ``doing`` completes "could not …"."""
    said = exc.diag.message_primary or refusals.one_line(exc)
    if isinstance(exc, pg.InsufficientPrivilege):
        return MissingRightError(
            f"could not {doing} on {safe_url(url)}: {said}",
            remedy="Run it as a role that may, or grant the right; pgsluice check lists what is missing",
        )
    if isinstance(exc, pg.AdminShutdown | pg.CrashShutdown | pg.CannotConnectNow) or (
        isinstance(exc, psycopg.OperationalError) and exc.sqlstate is None
    ):
        return SourceUnreachableError(f"the connection to {safe_url(url)} broke: could not {doing}: {said}")
    if isinstance(exc, pg.DeadlockDetected) or _RACE.match(said):
        return SchemaBusyError(f"could not {doing} on {safe_url(url)}: others change it now ({said})")
    if isinstance(exc, pg.LockNotAvailable | pg.QueryCanceled):
        kind = SchemaBusyError if isinstance(exc, pg.LockNotAvailable) else SourceError
        return kind(
            f"could not {doing} on {safe_url(url)} in time: {said}",
            remedy="Another session holds a lock or a long transaction: see pg_stat_activity, then try again",
        )
    return SourceError(f"could not {doing} on {safe_url(url)}: {said}")
