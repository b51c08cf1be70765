"""
PostgreSQL replication through a durable change log and Apache Spark.

    from pgsluice import DuckDBSink, Pipeline, PostgresSource

    source = PostgresSource("postgresql://localhost/shop", tables=["public.*"], init=True)
    Pipeline(source, DuckDBSink("shop.duckdb"), name="shop").run(once=True)
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from pgsluice.errors import SluiceError
    from pgsluice.modifiers.chain import Chain
    from pgsluice.modifiers.injector.apply import Injector
    from pgsluice.pipeline.intake import BatchOptions
    from pgsluice.pipeline.run import Pipeline
    from pgsluice.pipeline.session import SparkOptions
    from pgsluice.sinks.duckdb.sink import DuckDBSink
    from pgsluice.sinks.files.sink import FilesSink
    from pgsluice.sinks.memory import MemorySink
    from pgsluice.sinks.postgres.sink import PostgresSink
    from pgsluice.sinks.stdout import StdoutSink
    from pgsluice.source.postgres import LogOptions, PostgresSource

__version__ = "0.1.0"

__all__ = [
    "BatchOptions",
    "Chain",
    "DuckDBSink",
    "FilesSink",
    "Injector",
    "LogOptions",
    "MemorySink",
    "Pipeline",
    "PostgresSink",
    "PostgresSource",
    "SluiceError",
    "SparkOptions",
    "StdoutSink",
    "__version__",
]

_PLACES = {
    "BatchOptions": "pgsluice.pipeline.intake",
    "Chain": "pgsluice.modifiers.chain",
    "DuckDBSink": "pgsluice.sinks.duckdb.sink",
    "FilesSink": "pgsluice.sinks.files.sink",
    "Injector": "pgsluice.modifiers.injector.apply",
    "LogOptions": "pgsluice.source.postgres",
    "MemorySink": "pgsluice.sinks.memory",
    "Pipeline": "pgsluice.pipeline.run",
    "PostgresSink": "pgsluice.sinks.postgres.sink",
    "PostgresSource": "pgsluice.source.postgres",
    "SluiceError": "pgsluice.errors",
    "SparkOptions": "pgsluice.pipeline.session",
    "StdoutSink": "pgsluice.sinks.stdout",
}
"""Loaded when first asked for: ``import pgsluice`` costs nothing, and extras are needed only where used."""


def __getattr__(name: str) -> typing.Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'pgsluice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
