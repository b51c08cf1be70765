"""Texts without what targets refuse: NUL, and bytes that are no UTF-8 (of a source that checks none)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion

_ROWS: Final = ("values", "old")
_CLEAN: Final = r"replace(make_valid_utf8(v), '\0', '')"  # what is no character becomes U+FFFD, as everywhere
# In a json a NUL is written as an escape, which jsonb and most readers refuse. An escaped backslash before
# the letters is none.
_CLEAN_JSON: Final = rf"regexp_replace({_CLEAN}, '(?<!\\\\)(\\\\\\\\)*\\\\u0000', '$1')"


def sanitize(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """The frame with clean texts."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    return frame.withColumns({row: F.expr(_clean(row, tables)) for row in _ROWS})


def _clean(row: str, tables: Mapping[int, TableVersion]) -> str:
    cases = []
    for number, version in tables.items():
        jsons = [i for i, column in enumerate(version.columns) if base_type(column.type).name == "json"]
        if jsons:
            is_json = f"i in ({', '.join(map(str, jsons))})"
            cases.append(
                f"when {number} then transform(`{row}`, (v, i) -> if({is_json}, {_CLEAN_JSON}, {_CLEAN}))"
            )
    plain = f"transform(`{row}`, v -> {_CLEAN})"
    return f"case relation {' '.join(cases)} else {plain} end" if cases else plain
