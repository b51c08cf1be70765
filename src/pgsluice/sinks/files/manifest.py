"""
What a manifest says: which files a batch brought, and how far the pipeline is with them.

One JSON file per commit, for people and programs to read. Positions in it are those of changes: commit LSN
and number in the transaction.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pgsluice.changelog.position import Lsn
from pgsluice.errors import TargetError
from pgsluice.schema.type_names import display_name

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.schema.table import TableVersion

MANIFEST_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a change."""

    lsn: str
    seq: int

    @classmethod
    def of(cls, commit_lsn: int, seq: int) -> Place:
        """From the numbers of the envelope."""
        return cls(str(Lsn(commit_lsn)), seq)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a commit."""

    path: str  # below the feed's directory
    staged: str  # where it was written; it is renamed once the manifest is there
    table: int | None  # the version, as in ``tables``; None for messages
    rows: int
    bytes: int
    first: Place
    last: Place


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit, or the opening by a new run, which brings no files."""

    number: int
    pipeline: str
    format: str  # of the files
    owner: str  # the run that wrote it
    written_at: str
    token: str | None  # progress: what the feed holds with these files
    files: tuple[ListedFile, ...] = ()
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # by version

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(
            {"manifest": MANIFEST_FORMAT, **asdict(self)}, indent=1, ensure_ascii=False
        ).encode()


def decode(path: Path) -> Manifest:
    """Read a manifest."""
    try:
        fields = json.loads(path.read_bytes())
        found = fields.pop("manifest")
        if found <= MANIFEST_FORMAT:
            return Manifest(**{**fields, "files": tuple(map(_listed, fields["files"]))})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TargetError(
            f"{path} is damaged",
            remedy="Put the manifest back, or begin with an empty directory and copy the data again",
            path=str(path),
        ) from error
    raise TargetError(
        f"{path} was written by a newer pgsluice (format {found}, this one knows {MANIFEST_FORMAT})",
        remedy="Use that version, or another directory",
        path=str(path),
    )


def described(table: TableVersion) -> dict[str, Any]:
    """A table version, for those who read files of it."""
    return {
        "schema": table.schema,
        "table": table.name,
        "id": str(table.relid),
        "identity": table.identity,
        "columns": [
            {
                "name": column.name,
                "id": table.column_id(column),
                "type": display_name(column.type),
                "in_identity": column.in_identity,
            }
            for column in table.columns
        ],
    }


def _listed(fields: dict[str, Any]) -> ListedFile:
    return ListedFile(**{**fields, "first": Place(**fields["first"]), "last": Place(**fields["last"])})
