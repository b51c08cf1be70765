"""
PostgreSQL's own way: CREATE SUBSCRIPTION over a slot that exists, without copying.

The subscription is made beforehand, switched off. The clock of a catch-up starts when it is switched on: the
start of its worker, some milliseconds, is in; making the subscription is not.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from bench.harness import WrongResultError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from bench.postgres.clusters import Clusters

_PATIENCE: Final = 300.0
_LOOK: Final = 0.01  # the loop of our sink is in this process, too


@contextmanager
def subscription(pair: Clusters, publication: str, slot: str, database: str) -> Iterator[float]:
    """A subscription that applies what the slot has; gives when it was switched on."""
    with pair.connect_target(database) as conn:
        conn.execute(
            sql.SQL(
                "CREATE SUBSCRIPTION native CONNECTION {} PUBLICATION {} WITH (create_slot = false, "
                "slot_name = {}, copy_data = false, enabled = false)"
            ).format(sql.Literal(pair.source.url), sql.Identifier(publication), sql.Identifier(slot))
        )
        try:
            since = time.monotonic()
            conn.execute("ALTER SUBSCRIPTION native ENABLE")
            yield since
        finally:
            conn.execute("ALTER SUBSCRIPTION native DISABLE")
            conn.execute("ALTER SUBSCRIPTION native SET (slot_name = NONE)")
            conn.execute("DROP SUBSCRIPTION native")


def until_visible(conn: psycopg.Connection[Any], marker: str) -> float:
    """Wait until a reader of the target sees a row in ``marker``; gives the moment."""
    statement = sql.SQL("SELECT FROM {}").format(sql.Identifier(marker))
    deadline = time.monotonic() + _PATIENCE
    while not conn.execute(statement).rowcount:
        if time.monotonic() > deadline:
            raise WrongResultError(f"nothing came into {marker} in {_PATIENCE:.0f} s")
        time.sleep(_LOOK)
    return time.monotonic()
