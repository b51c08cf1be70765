"""
The DuckDB sink: tables in a DuckDB file, exactly once.

``config`` has the options, ``sink`` the way of a batch, ``progress`` the token beside the data, ``target``
and ``columns`` what a table looks like there, ``merge`` how a fold is applied, ``misfits`` and ``failures``
what went wrong.
"""

from pgsluice.sinks.duckdb.config import KIND, DuckDBConfig

__all__ = ["KIND", "DuckDBConfig"]
