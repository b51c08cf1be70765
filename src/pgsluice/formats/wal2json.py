"""
Entries as the JSON of wal2json, one text per entry: its format 2, or its format 1 with one change in each.

Made in the JVM from projections only, as :mod:`pgsluice.formats.pgstream` does. The fields are those that the
plugin writes with ``include-xids``, ``include-timestamp`` and ``include-lsn``. Where it would lose something,
that is kept: NaN and the infinities are texts in place of ``null``, columns that an UPDATE left alone are
named in ``unchanged``, and ``seq`` stands beside the position, which is that of the commit. After the
injector there are also the ids of the table and of its columns, and the event's identity and version.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from pgsluice.changelog.envelope import DELETE, INSERT, MESSAGE, SNAPSHOT, TRUNCATE, UPDATE
from pgsluice.formats.json_text import (
    EVENT_IDENTITY,
    TIMESTAMP,
    is_injected,
    json_of,
    kind_of,
    lsn,
    quoted,
    value,
)
from pgsluice.schema.type_names import display_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion

Version = Literal[1, 2]

_LOOKUP: Final = (
    "map<string, struct<names: array<string>, types: array<string>, kinds: array<string>, "
    "identity: array<boolean>, ids: array<string>, id: string>>"
)
# An UPDATE that did not change its key brings no old tuple: the new row has the key.
_OLD: Final = "coalesce(old, `values`)"
_SENT: Final = "NOT array_contains(coalesce(unchanged, array()), i)"
_IN_IDENTITY: Final = "_table.identity[i]"
_IN_OLD_KEYS: Final = f"{_IN_IDENTITY} AND v IS NOT NULL"  # format 1 leaves NULL out of a whole old row


def events(frame: DataFrame, tables: Mapping[int, TableVersion], version: Version = 2) -> DataFrame:
    """
    The events of a frame of envelopes.

    Args:
        frame: Rows in the envelope.
        tables: The table versions that the rows' ``relation`` numbers name.
        version: wal2json's ``format-version``.

    Returns:
        ``relation``, ``commit_lsn``, ``seq`` and ``event``, a JSON text, for each row.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    lookup = json.dumps({str(number): _described(table) for number, table in tables.items()})
    described = frame.withColumn(
        "_table", F.from_json(F.lit(lookup), _LOOKUP)[F.col("relation").cast("string")]
    )
    event = (_change_1 if version == 1 else _event_2)(injected=is_injected(frame))
    return described.select("relation", "commit_lsn", "seq", F.expr(event).alias("event"))


def _described(table: TableVersion) -> dict[str, Any]:
    return {
        "names": [json_of(column.name) for column in table.columns],
        "types": [json_of(display_name(column.type)) for column in table.columns],
        "kinds": [kind_of(column.type) for column in table.columns],
        "identity": [table.identity == "f" or column.in_identity for column in table.columns],
        "ids": [json_of(table.column_id(column)) for column in table.columns],
        "id": json_of(str(table.relid)),
    }


def _list(row: str, wanted: str, item: str) -> str:
    """A JSON array with an item for each wanted column of a row."""
    return f"concat('[', array_join(transform({row}, (v, i) -> IF({wanted}, {item}, NULL)), ','), ']')"


# The plugin writes bytea without its \x.
_VALUE: Final = value("IF(_table.kinds[i] = 'bytea', substring(v, 3), v)", "_table.kinds[i]")
_NAME, _TYPE, _ID = "_table.names[i]", "_table.types[i]", "_table.ids[i]"
_HAS_COLUMNS: Final = f"op IN ('{INSERT}', '{UPDATE}', '{SNAPSHOT}')"
_HAS_IDENTITY: Final = f"op IN ('{UPDATE}', '{DELETE}')"
_UNCHANGED: Final = (
    "IF(size(unchanged) > 0, concat(',\"unchanged\":[', "
    "array_join(transform(unchanged, i -> _table.names[i]), ','), ']'), '')"
)
_MESSAGE: Final = (
    f"concat(',\"transactional\":', IF(seq > 0, 'true', 'false'), "
    f"',\"prefix\":', {quoted('prefix')}, ',\"content\":', {quoted('content')})"
)
_HEAD: Final = f"concat(IF(xid IS NULL, '', concat('\"xid\":', xid, ',')), '\"timestamp\":', {TIMESTAMP})"


def _table(*, injected: bool) -> str:
    id_ = ", ',\"table_id\":', _table.id" if injected else ""
    return f"concat(',\"schema\":', {quoted('schema')}, ',\"table\":', {quoted('`table`')}{id_})"


def _event_2(*, injected: bool) -> str:
    id_ = f"'\"id\":', {_ID}, ','" if injected else "''"
    cell = f"concat('{{', {id_}, '\"name\":', {_NAME}, ',\"type\":', {_TYPE}, ',\"value\":', {_VALUE}, '}}')"
    return f"""concat(
    '{{"action":"', IF(op = '{SNAPSHOT}', '{INSERT}', op), '",', {_HEAD},
    ',"lsn":"', {lsn("commit_lsn")}, '","seq":', seq,
    IF(op = '{MESSAGE}', {_MESSAGE}, {_table(injected=injected)}),
    IF({_HAS_COLUMNS}, concat(',"columns":', {_list("`values`", _SENT, cell)}), ''),
    IF({_HAS_IDENTITY}, concat(',"identity":', {_list(_OLD, _IN_IDENTITY, cell)}), ''),
    {_UNCHANGED}, {EVENT_IDENTITY if injected else "''"}, '}}'
)"""


_KIND_1: Final = (
    f"CASE op WHEN '{UPDATE}' THEN 'update' WHEN '{DELETE}' THEN 'delete' WHEN '{TRUNCATE}' THEN 'truncate' "
    f"WHEN '{MESSAGE}' THEN 'message' ELSE 'insert' END"
)


def _lists(prefix: str, row: str, wanted: str, *, injected: bool) -> str:
    """The names, types and values of columns, and perhaps their ids: an array each."""
    kinds = [("names", _NAME), ("types", _TYPE), ("values", _VALUE), *([("ids", _ID)] if injected else [])]
    parts = [f"'\"{prefix}{name}\":', {_list(row, wanted, item)}" for name, item in kinds]
    between = ", ',', "
    return f"concat({between.join(parts)})"


def _change_1(*, injected: bool) -> str:
    columns = _lists("column", "`values`", _SENT, injected=injected)
    keys = _lists("key", _OLD, _IN_OLD_KEYS, injected=injected)
    return f"""concat(
    '{{', {_HEAD}, ',"nextlsn":"', {lsn("end_lsn")}, '","seq":', seq,
    ',"change":[{{"kind":"', {_KIND_1}, '"',
    IF(op = '{MESSAGE}', {_MESSAGE}, {_table(injected=injected)}),
    IF({_HAS_COLUMNS}, concat(',', {columns}), ''),
    IF({_HAS_IDENTITY}, concat(',"oldkeys":{{', {keys}, '}}'), ''),
    {_UNCHANGED}, {EVENT_IDENTITY if injected else "''"}, '}}]}}'
)"""
