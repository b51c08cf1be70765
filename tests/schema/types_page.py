"""
The page ``docs/types.md``, made from the cases: what each type and each awkward value becomes.

The texts come from the server that is given; the values from the Arrow engine, which a test holds equal to
the one in the JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.schema.typed import SpecialValues, arrow_column, shape_of, spark_type
from tests.schema.type_cases import CASES, Cases
from tests.schema.typed_rows import declare, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    import pyarrow as pa

    from pgsluice.schema.table import PgType

INTRODUCTION = """\
# Types

<!-- Written by tools/generate_types_page.py from tests/schema/type_cases.py. -->

Values travel in PostgreSQL's own text form, under pinned session settings, and become typed columns only at
the end. A typed column holds a value exactly or not at all: no float on the way of a numeric, no lost
microsecond, no 44 BC that becomes 44 AD.

## Values that a typed column can't hold

PostgreSQL's dates go from 4713 BC to 5874897 and know infinity; typed dates and timestamps have the years
1 to 9999, which is what Spark documents, what Python can collect and what all lake formats share. A numeric
can be NaN, a decimal can't. Arrays may have several dimensions or begin at another number than 1. What
happens then is a choice for each of `dates`, `timestamps`, `decimals` and `arrays`:

| choice | the column | the value's text |
|---|---|---|
| `null` (default) | NULL | in `_untyped`, under the column's name |
| `clamp` (dates and timestamps only) | the nearest value: 0001-01-01 or 9999-12-31 | in `_untyped`, too |
| `string` | all columns of that kind are strings, also as elements of arrays | in the column |
| `stop` | | an error, `SLUICE-UNTYPED`, names table, column and position |

`null` is the default because it loses nothing, changes nothing silently, and one odd value does not stop a
stream: `_untyped` is NULL in every other row, so `WHERE _untyped IS NOT NULL` finds and counts them. An array
with one element that does not fit is untyped as a whole.

Text that is no value of the column's type at all can only come from a row that was misread; that always
stops with `SLUICE-UNTYPED`. Bytes that are no UTF-8 (from SQL_ASCII databases) pass unchanged in text
columns; `is_valid_utf8` finds them in Spark.

## Columns beside the table's own

| column | type | meaning |
|---|---|---|
| `_op` | string | `I`, `U`, `D`, `T` (truncate) or `S` (copied by the snapshot) |
| `_lsn`, `_seq` | bigint | the position: commit LSN, and number of the change in its transaction |
| `_xid`, `_ts` | bigint, timestamp | the transaction, and when it committed |
| `_unchanged` | array&lt;string&gt; | columns whose large value did not change and was not sent |
| `_old` | map&lt;string,string&gt; | the old row as text, where the stream sent one |
| `_untyped` | map&lt;string,string&gt; | see above |

A column in `_unchanged` is NULL in this row only, not in the table. `_old` has the columns of the replica
identity, all of them with REPLICA IDENTITY FULL. In a deleted row (`_op` D) the table's own columns hold what
the stream sent of it, so a merge finds its key there.

## Every type

Domains are typed as what they stand for. Types that are not in this list, and those that users make
(composites, ranges, base types of extensions), are strings with PostgreSQL's text. A decimal needs a
precision up to 38 and a scale from 0 to the precision; all other numerics are strings. In the table a space
at the start or end of a text is shown as ␠, a line break as ⏎.

| PostgreSQL type | Spark type | value | its text | becomes |
|---|---|---|---|---|
"""


def render(conn: psycopg.Connection) -> str:
    """The whole page; the connection is pinned, and its database prepared for the cases."""
    types = declare(conn, [case.type for case in CASES])
    lines = (line for case, kind in zip(CASES, types, strict=True) for line in _rows(conn, case, kind))
    return INTRODUCTION + "".join(f"{line}\n" for line in lines)


def _rows(conn: psycopg.Connection, case: Cases, kind: PgType) -> Iterator[str]:
    import pyarrow as pa

    written = pa.array(texts(conn, case.type, case.values), pa.string())
    typed = arrow_column(written, kind, SpecialValues())
    spark = spark_type(shape_of(kind, SpecialValues())).simpleString()
    for n, value in enumerate(case.values):
        first = (f"`{case.type}`", _code(spark)) if n == 0 else ("", "")
        cells = (*first, _code(value), _code(written[n].as_py()), _becomes(written[n].as_py(), typed[n]))
        yield f"| {' | '.join(cells)} |"


def _becomes(text: str, value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL, and its text in `_untyped`"
    shown = _shown(value.as_py())
    if isinstance(value.as_py(), str):
        return "the same text"
    return "the same value" if shown == text or isinstance(value.as_py(), float) else _code(shown)


def _shown(value: Any) -> str:
    match value:
        case list():
            return f"[{', '.join(_item(item) for item in value)}]"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case bool():
            return str(value).lower()
        case str():
            return value
        case float():
            return repr(value)
    return format(value, "f") if hasattr(value, "as_tuple") else str(value)


def _item(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return f"'{value}'"
    return _shown(value)


def _code(text: str) -> str:
    if not text:
        return "(empty)"
    spaced = text.replace("\n", "⏎").replace("\t", "⇥")
    core = spaced.strip(" ")
    spaced = (
        "␠" * (len(spaced) - len(spaced.lstrip(" "))) + core + "␠" * (len(spaced) - len(spaced.rstrip(" ")))
    )
    return f"<code>{_escaped(spaced)}</code>"


def _escaped(text: str) -> str:
    # As numbers: what Markdown or HTML would read as its own, and the bar that ends a cell.
    return "".join(f"&#{ord(char)};" if char in "&<>|`*_[]\\{}\"'~" else char for char in text)
