"""Each transformer by itself: rows per second and core, in the JVM, over values that are there already."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from bench.harness import Sample, figure
from pgsluice.modifiers.transforms.base import ArrowTransform, Cell
from pgsluice.modifiers.transforms.registry import BUILT_IN, make
from pgsluice.schema.table import PgType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.clusters import Clusters

_SAME: Final = {"generator": "deterministic"}
_TIMES: Final = {"min_timestamp": "2020-01-01T00:00:00Z", "max_timestamp": "2024-01-01T00:00:00Z"}
_DATES: Final = {"min_value": "2020-01-01", "max_value": "2024-01-01"}
# Type of the column, the values, and parameters; texts of 36 characters where nothing is said.
_CASES: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "bucket": ("int4", "cast(id as string)", {"size": 100}),
    "email": ("text", "concat(uuid(), '@example.org')", {}),
    "greenmask_boolean": ("bool", "'t'", _SAME),
    "greenmask_choice": ("text", "", {"choices": ["a", "b", "c"], **_SAME}),
    "greenmask_date": ("date", "'2024-05-17'", {**_DATES, **_SAME}),
    "greenmask_float": ("float8", "'1.5'", {"min_value": 0, "max_value": 100, **_SAME}),
    "greenmask_integer": ("int4", "cast(id as string)", _SAME),
    "greenmask_unix_timestamp": ("int8", "cast(id as string)", {"min_value": 0, "max_value": 2**31, **_SAME}),
    "greenmask_utc_timestamp": ("timestamptz", "'2024-05-17 10:11:12+00'", {**_TIMES, **_SAME}),
    "lookup_choice": ("text", "", {"lookup_table": "t", "lookup_column": "c", **_SAME}),
    "literal_string": ("text", "", {"literal": "x"}),
    "neosync_email": ("text", "concat(uuid(), '@example.org')", {"seed": 1}),
    "shift": ("date", "'2024-05-17'", {}),
    "sql": ("text", "", {"expression": "upper(v)"}),
    "template": ("text", "", {"template": "{{ .GetValue | upper | trunc 8 }}-{{ sha256sum .GetValue }}"}),
    "truncate": ("text", "", {"length": 8}),
}


def measure(pair: Clusters) -> Iterator[Figure]:
    """All of them, one after the other."""
    session = pair.source.spark.get()
    for name, transform in sorted(BUILT_IN.items()):
        if not name or issubclass(transform, ArrowTransform):
            continue
        parameters: dict[str, Any] = {}
        if "generator" in transform.model_fields:
            parameters = dict(_SAME)
        if "seed" in transform.model_fields:
            parameters = {"seed": 1}
        type_, value, parameters = _CASES.get(name, ("text", "", parameters))
        cell = Cell("v", PgType(0, type_), b"salt", {}, lookup=lambda _: tuple(map(str, range(1000))))
        made = make(name, parameters).sql(cell)
        rows = session.range(0, pair.options.rows, 1, 1).selectExpr(f"{value or 'uuid()'} as v").cache()
        rows.count()
        frame = rows.selectExpr(f"{made} as made")
        frame.write.format("noop").mode("overwrite").save()  # compiled before the clock starts
        samples = [_timed(frame, pair.options.rows) for _ in range(pair.options.repetitions)]
        rows.unpersist()
        yield figure(f"{name}, one core", "rows/s", samples)


def _timed(frame: Any, rows: int) -> Sample:
    began = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return Sample(rows / (time.monotonic() - began))
