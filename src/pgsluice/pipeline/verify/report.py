"""What a comparison has found. Keys are those of the target: of values that rules change none is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["missing", "extra", "different", "unsettled"]
"""Not in the target; only there; not the same; and: could not be compared, for it changed all the time."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row that is not the same."""

    kind: Kind
    key: dict[str, str]  # by column, as the target has it; of a table without a key a digest of the row
    rows: tuple[int, int]  # how often it is in the source and in the target


@dataclass(slots=True)
class TableReport:
    """One table."""

    table: str  # in the source
    target_table: str
    source_rows: int = 0
    target_rows: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    unsettled: int = 0
    more: bool = False  # whether it was given up before all rows that differ were counted
    rows: list[RowDifference] = field(default_factory=list)  # the first of them
    problems: list[str] = field(default_factory=list)  # of the table as a whole
    notes: list[str] = field(default_factory=list)  # what was not compared

    @property
    def differs(self) -> bool:
        """Whether something is not as it should be; rows that never came to rest are no proof of that."""
        return bool(self.problems or self.missing or self.extra or self.different)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"equal": not self.differs, **asdict(self)}


@dataclass(slots=True)
class TargetReport:
    """One target."""

    target: str
    running: bool
    position: str | None  # what it had at the beginning
    behind_bytes: int | None  # of WAL, then
    tables: list[TableReport] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # why, by table
    notes: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether a table differs."""
        return any(table.differs for table in self.tables)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "equal": not self.differs,
            **asdict(self),
            "tables": [table.as_dict() for table in self.tables],
        }
