"""
The schema of the source read from its catalogs, where no pg_dump is new enough to write it.

``found`` has what an object is, ``order`` what has to come before what, ``read`` puts it together. One file
for each family of objects: ``kinds`` (schemas, extensions, types, sequences, functions), ``tables``,
``constraints`` (with indexes), ``views`` (with triggers, rules and policies), ``rights`` (owners, grants,
comments), ``secrets`` (what must not be told). The search path of our sessions is empty, so plain names are
those of the server's own catalogs.
"""

from pgsluice.source.snapshot.catalog_schema.read import read_catalog_schema, tells_values

__all__ = ["read_catalog_schema", "tells_values"]
