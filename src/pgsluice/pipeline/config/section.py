"""
What every section of the configuration has in common, and the pieces that sections share.

Sections are frozen and refuse unknown keys. Pydantic's errors never show a value: it may be a secret.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr

from pgsluice.errors import ConfigError
from pgsluice.schema.match import TablePattern

SECTION = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


class Section(BaseModel):
    """A group of settings."""

    model_config = SECTION


class Reserved(Section):
    """A section that has no settings in this version."""


def _check_pattern(value: Any) -> Any:
    if isinstance(value, str):
        try:
            TablePattern.parse(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
    return value


Pattern = Annotated[str, BeforeValidator(_check_pattern)]
"""A table pattern; see :mod:`pgsluice.schema.match`."""


def _check_name(value: Any) -> Any:
    if isinstance(_check_pattern(value), str) and not TablePattern.parse(value).exact:
        raise ValueError("name one table: schema.table, without *")
    return value


TableName = Annotated[str, BeforeValidator(_check_name)]
"""The name of one table, written as in SQL."""


def _check_url(value: Any) -> Any:
    from pgsluice.postgres.address import parse_url

    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("is empty; is a variable unset?")
    try:
        parse_url(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return value


PostgresUrl = Annotated[SecretStr, BeforeValidator(_check_url)]
"""How to connect to a PostgreSQL server; secret as a whole, since it may hold a password."""
