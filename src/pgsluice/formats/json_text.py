"""SQL of the pieces that formats of JSON are made of: texts in quotes, values, times and positions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.envelope import IDENTITY, SNAPSHOT, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgsluice.schema.table import PgType

_NUMBERS: Final = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric", "oid"})

TIMESTAMP: Final = (
    "concat('\"', CAST(TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, "
    "CAST(unix_micros(commit_ts) AS DECIMAL(20, 0)) / 1000000) AS STRING), '+00\"')"
)
"""Without a detour over the session's time zone, and with the digits that PostgreSQL would print."""


def lsn(column: str) -> str:
    """A position as PostgreSQL prints it; a copied row has none."""
    return (
        f"IF(op = '{SNAPSHOT}', '0/0', "
        f"concat(hex(shiftrightunsigned({column}, 32)), '/', hex({column} & 4294967295)))"
    )


EVENT_IDENTITY: Final = (
    f"concat(',\"event_identity\":', coalesce(to_json({IDENTITY}), 'null'), "
    f"',\"event_version\":', coalesce(string({VERSION}), 'null'))"
)
"""What the injector has found; the names are no other format's."""


def is_injected(frame: DataFrame) -> bool:
    """Whether entries have gone through the injector."""
    return IDENTITY in frame.columns


def json_of(text: str) -> str:
    """A constant text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def quoted(cell: str) -> str:
    """A text as JSON. Inside the brackets stands one text in quotes, so trimming takes just them."""
    return f"trim(BOTH '[]' FROM to_json(array({cell})))"


def kind_of(type_: PgType) -> str:
    """Which form of JSON the values of a type have."""
    if type_.schema != "pg_catalog":
        return "text"
    if type_.name in _NUMBERS:
        return "number"
    return type_.name if type_.name in ("bool", "bytea") else "text"


def value(text: str, kind: str) -> str:
    """A value as JSON, by its kind. NaN and the infinities are no JSON numbers: text."""
    return (
        f"CASE WHEN {text} IS NULL THEN 'null' "
        f"WHEN {kind} = 'number' AND {text} RLIKE '^-?[0-9]' THEN {text} "
        f"WHEN {kind} = 'bool' THEN IF({text} = 't', 'true', 'false') "
        f"ELSE {quoted(text)} END"
    )
