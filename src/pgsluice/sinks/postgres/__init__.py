"""
The PostgreSQL sink: tables in another PostgreSQL database, exactly once.

``config`` has the options, ``sink`` the way of a batch, ``connection`` the session it is written over,
``progress`` the token beside the data, ``target`` what a table looks like there, ``merge`` how a fold is
applied, ``copy_text`` and ``kernel`` how rows become COPY's text, ``failures`` what went wrong.
``obstacles``, ``together`` and ``proof`` are about what a table checks or does by itself; ``schema``,
``older`` and ``clean`` make the source's objects and room for them.
"""

from pgsluice.sinks.postgres.config import KIND, PostgresConfig

__all__ = ["KIND", "PostgresConfig"]
