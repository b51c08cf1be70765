"""
What directories and files are called.

Names of tables are written with ASCII letters, digits, ``_`` and ``-``; every other byte is ``%`` and two
hex digits. So a name is the same on every file system and in every locale, has no ``=``, which Spark would
take for a partition, and never begins with ``_`` or ``.``, which Spark would not see.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion

MANIFEST: Final = "_manifest"  # not seen by Spark; DuckDB does see it, but no *.parquet is in there
MESSAGES: Final = "messages"  # no table's directory: those have a dot
STAGED: Final = ".tmp"  # an ending that no reader asks for

_LONGEST: Final = 120  # two parts and a dot fit into the 255 bytes that a name may have
_KEPT: Final = 100
_ODD = re.compile(rb"^_|[^A-Za-z0-9_-]")
_NUMBER = re.compile(r"\.?([0-9]{10})(?:\.|$)")


def encoded(name: str) -> str:
    """A name as a part of a path; one that would be too long is cut and ends with a digest of the whole."""
    safe = _ODD.sub(lambda found: b"%%%02x" % found[0][0], name.encode()).decode()
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_KEPT]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def directory_of(table: TableVersion | None) -> str:
    """The directory of a table's files; of messages, which belong to no table."""
    return MESSAGES if table is None else f"{encoded(table.schema)}.{encoded(table.name)}"


def numbered(number: int) -> str:
    """A number of a manifest, so that names sort by it."""
    return f"{number:010d}"


def number_in(name: str) -> int | None:
    """The number that a name begins with; None for a name of another kind."""
    found = _NUMBER.match(name)
    return int(found[1]) if found else None


def file_name(pipeline: str, number: int, version: int | None, place: int, suffix: str) -> str:
    """
    The name of a committed file.

    Sorted by name, the files of a table are in the order of their rows, for each pipeline.
    """
    kind = "" if version is None else f"-v{version}"
    return f"{encoded(pipeline)}-{numbered(number)}-{place:05d}{kind}{suffix}"
