"""
Connection strings: reading them, and showing them without their secrets.

Everything that libpq accepts is accepted: a URI, ``key=value`` pairs, or nothing at all, in which case
the PG* variables decide.
"""

from __future__ import annotations

import os
import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgsluice.errors import ConfigError

_SCHEME = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_REMEDY = (
    "Write postgresql://user:password@host:port/database, with other characters than letters and digits in "
    "the password as %XX; or leave the password to .pgpass or PGPASSWORD"
)


def parse_url(url: str, whose: str = "source") -> dict[str, Any]:
    """
    The parameters of a connection string; ``whose`` it is, for messages.

    Libpq's own complaint is never shown: it quotes pieces of the string, the password's among them.
    """
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        raise ConfigError(f"the {whose} URL can't be read", remedy=_REMEDY) from None
    if _SCHEME.match(url) and _holds_stray_password(parameters):
        raise ConfigError(f"the {whose} URL is ambiguous: its password must be encoded", remedy=_REMEDY)
    return parameters


def safe_url(url: str, whose: str = "source") -> str:
    """The address for messages: who, where, which database, and never a password."""
    try:
        parameters = parse_url(url)
    except ConfigError:
        return f"the {whose}"
    found = {name: parameters.get(name) or os.environ.get(variable, "") for name, variable in _SHOWN.items()}
    if service := parameters.get("service") or os.environ.get("PGSERVICE"):
        return f"the service {service}"
    user = f"{found['user']}{':***' if parameters.get('password') else ''}@" if found["user"] else ""
    port = f":{found['port']}" if found["port"] else ""
    return f"postgresql://{user}{found['host']}{port}/{found['dbname']}"


_SHOWN = {"user": "PGUSER", "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE"}


def _holds_stray_password(parameters: dict[str, Any]) -> bool:
    """Whether an unencoded @, / or : of a password has spilt into the parts after it."""
    port = str(parameters.get("port", ""))
    spilt = any("@" in str(parameters.get(name, "")) for name in ("host", "dbname", "port"))
    return spilt or bool(port and not re.fullmatch(r"[0-9,]*", port))
