"""
Entries as the JSON events of pgstream v1, one text per entry.

Made in the JVM from projections only: no Python function touches a row, and a small local relation needs no
job. What belongs to a table (names and types of its columns) is one constant that the rows look up.

Beyond pgstream's own fields an event has ``seq``, which together with ``lsn`` is the position of the change,
and, where an UPDATE left TOAST values alone, their columns' names in ``unchanged``. After the injector it has
the ids of its table and columns, and in ``metadata`` also its identity and version.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pgsluice.changelog.envelope import DELETE, INSERT, MESSAGE, SNAPSHOT, UPDATE
from pgsluice.formats.json_text import EVENT_IDENTITY, TIMESTAMP, is_injected, json_of, lsn, quoted
from pgsluice.schema.type_names import base_type, display_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import Column, TableVersion

_NUMBERS: Final = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric", "oid"})
_LOOKUP: Final = (
    "map<string, struct<heads: array<string>, kinds: array<string>, identity: array<boolean>, "
    "names: array<string>, ids: string>>"
)
_NO_IDS: Final = '"table_pgstream_id":"","id_col_pgstream_id":null'


def events(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """
    The events of a frame of envelopes.

    Args:
        frame: Rows in the envelope.
        tables: The table versions that the rows' ``relation`` numbers name.

    Returns:
        ``relation``, ``commit_lsn``, ``seq`` and ``event``, a JSON text, for each row.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    injected = is_injected(frame)
    described_as = {str(number): _described(table, injected=injected) for number, table in tables.items()}
    lookup = json.dumps(described_as)
    described = frame.withColumn(
        "_table", F.from_json(F.lit(lookup), _LOOKUP)[F.col("relation").cast("string")]
    )
    return described.select(
        "relation", "commit_lsn", "seq", F.expr(_INJECTED if injected else _EVENT).alias("event")
    )


def _described(table: TableVersion, *, injected: bool) -> dict[str, Any]:
    ids = {column.name: table.column_id(column) for column in table.columns} if injected else {}
    identity = json.dumps([ids[name] for name in table.naming] or None) if injected else ""
    return {
        "heads": [_head(column, ids.get(column.name, "")) for column in table.columns],
        "kinds": [_kind(column) for column in table.columns],
        "identity": [table.identity == "f" or column.in_identity for column in table.columns],
        "names": [json_of(column.name) for column in table.columns],
        "ids": f'"table_pgstream_id":"{table.relid}","id_col_pgstream_id":{identity}',
    }


def _head(column: Column, id_: str) -> str:
    """A column's JSON up to its value."""
    return (
        f'{{"id":"{id_}","name":{json_of(column.name)},"type":{json_of(display_name(column.type))},"value":'
    )


def _kind(column: Column) -> str:
    name = base_type(column.type).name
    if base_type(column.type).schema == "pg_catalog" and (name in _NUMBERS or name == "bool"):
        return "bool" if name == "bool" else "number"
    return "text"


def _cells(values: str, left_out: str) -> str:
    """SQL: a JSON array of the cells of a row. NaN and the infinities are no JSON numbers: text."""
    value = (
        "CASE WHEN v IS NULL THEN 'null' "
        "WHEN _table.kinds[i] = 'number' AND v RLIKE '^-?[0-9]' THEN v "
        "WHEN _table.kinds[i] = 'bool' THEN IF(v = 't', 'true', 'false') "
        f"ELSE {quoted('v')} END"
    )
    cell = f"CASE WHEN {left_out} THEN NULL ELSE concat(_table.heads[i], {value}, '}}') END"
    return f"concat('[', array_join(transform({values}, (v, i) -> {cell}), ','), ']')"


_COLUMNS: Final = (
    f"CASE WHEN op IN ('{INSERT}', '{UPDATE}', '{SNAPSHOT}') "
    f"THEN {_cells('`values`', 'array_contains(unchanged, i)')} ELSE 'null' END"
)
# An UPDATE that did not change its key brings no old tuple: the new row has the key.
_IDENTITY: Final = (
    f"CASE WHEN op IN ('{UPDATE}', '{DELETE}') "
    f"THEN {_cells('coalesce(old, `values`)', 'NOT _table.identity[i]')} ELSE 'null' END"
)
_UNCHANGED: Final = (
    "IF(size(unchanged) > 0, concat(',\"unchanged\":[', "
    "array_join(transform(unchanged, i -> _table.names[i]), ','), ']'), '')"
)
_MESSAGE: Final = (
    f"IF(op = '{MESSAGE}', "
    f"concat(',\"prefix\":', {quoted('prefix')}, ',\"content\":', {quoted('content')}), '')"
)
_EVENT_UP_TO_METADATA: Final = f"""concat(
    '{{"action":"', IF(op = '{SNAPSHOT}', '{INSERT}', op),
    '","timestamp":', {TIMESTAMP},
    ',"lsn":"', {lsn("commit_lsn")},
    '","seq":', seq,
    ',"schema":', {quoted("coalesce(schema, '')")},
    ',"table":', {quoted("coalesce(`table`, '')")},
    ',"columns":', {_COLUMNS},
    ',"identity":', {_IDENTITY},
    {_UNCHANGED},
    {_MESSAGE},
    ',"metadata":{{"schema_id":null,'
)"""
_EVENT: Final = f"concat({_EVENT_UP_TO_METADATA}, '{_NO_IDS}}}}}')"
_INJECTED: Final = (
    f"concat({_EVENT_UP_TO_METADATA}, coalesce(_table.ids, '{_NO_IDS}'), {EVENT_IDENTITY}, '}}}}')"
)
