"""
What rules have done so far, kept in a file of the state directory: the targets were made by it.

For each table that has come, how each of its columns was changed, as a fingerprint under the salt: rows are
found by their keys, so these must be changed the same way for as long as a target lives. And which tables
and columns have rules under another name than their own, and which columns because they point at another one:
commands that don't ask the source go by it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pgsluice.modifiers.kept_file import read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pgsluice.modifiers.transformer.rules import ColumnRule
    from pgsluice.schema.renames import TableName

FILE: Final = "rules.json"
PLAIN: Final = ""  # of a column whose values go as they are
_DIGITS: Final = 32


class Followed(NamedTuple):
    """A column that has the rule of another one."""

    schema: str
    table: str
    column: str
    of_schema: str
    of_table: str
    of_column: str


class RuleBook:
    """
    What is kept of rules.

    Args:
        path: where; None: nowhere.
        writes: whether this process is the one that keeps it; others read.
    """

    def __init__(self, path: Path | None = None, *, writes: bool = True) -> None:
        kept: dict[str, Any] | None = read_kept(path)
        self.is_new = kept is None
        self._path = path if writes else None
        self._lock = threading.Lock()  # every loop asks
        self._is_kept = True
        found = kept or {"columns": {}, "followed": [], "tables": {}, "numbers": {}, "names": {}}
        self._columns = {
            int(relid): {int(number): print_ for number, print_ in columns.items()}
            for relid, columns in found["columns"].items()
        }
        self._followed = [Followed(*each) for each in found["followed"]]
        self._tables = {int(relid): (name[0], name[1]) for relid, name in found["tables"].items()}
        self._numbers: dict[int, dict[str, int]] = {
            int(relid): numbers for relid, numbers in found["numbers"].items()
        }
        self._names: dict[int, dict[str, list[int]]] = {
            int(relid): names for relid, names in found["names"].items()
        }

    @property
    def followed(self) -> tuple[Followed, ...]:
        """Columns that have the rule of what they point at."""
        return tuple(self._followed)

    @property
    def tables(self) -> Mapping[int, TableName]:
        """By number of a table: the name under which it has its rules."""
        return self._tables

    def columns_of(self, relid: int) -> Mapping[int, str] | None:
        """The fingerprints of a table's columns by number; None for one that has not come."""
        return self._columns.get(relid)

    @property
    def has_changed_any(self) -> bool:
        """Whether values of any column were changed."""
        return any(print_ != PLAIN for columns in self._columns.values() for print_ in columns.values())

    def numbers_called(self, relid: int, name: str) -> set[int]:
        """The numbers of columns of a table that are or were called so."""
        return {*self._names.get(relid, {}).get(name, ())}

    def note_names(self, relid: int, columns: Mapping[str, int]) -> None:
        """The columns of a table are called so."""
        with self._lock:
            known = self._names.setdefault(relid, {})
            for name, number in columns.items():
                if number not in known.setdefault(name, []):
                    known[name].append(number)
                    self._is_kept = False

    def note(self, relid: int, columns: Mapping[int, str]) -> None:
        """A table goes on, with its columns changed so."""
        with self._lock:
            known = self._columns.get(relid)
            if known is None or any(known.get(number) != print_ for number, print_ in columns.items()):
                self._columns[relid] = {**(known or {}), **columns}
                self._is_kept = False

    def numbers_of(self, relid: int) -> Mapping[str, int]:
        """The numbers of a table's columns by the names under which they have rules."""
        return self._numbers.get(relid, {})

    def note_name(self, relid: int, name: TableName, numbers: Mapping[str, int]) -> None:
        """A table has the rules that are given for a name: its own, one of before, or its parent's."""
        with self._lock:
            if (self._tables.get(relid), self._numbers.get(relid)) != (name, numbers):
                self._tables[relid], self._numbers[relid] = name, dict(numbers)
                self._is_kept = False

    def follow(self, followed: Iterable[Followed]) -> None:
        """Columns have the rule of what they point at."""
        with self._lock:
            new = [each for each in followed if each not in self._followed]
            self._followed += new
            self._is_kept = self._is_kept and not new

    def forget(self, relid: int) -> None:
        """A table is about to be copied anew."""
        with self._lock:
            self._columns.pop(relid, None)

    def keep(self) -> None:
        """Write down what is new; before any row goes on by it."""
        with self._lock:
            if not self._is_kept and self._path is not None:
                kept = {
                    "columns": self._columns,
                    "followed": self._followed,
                    "tables": self._tables,
                    "numbers": self._numbers,
                    "names": self._names,
                }
                write_kept(self._path, kept)
            self._is_kept = True


def fingerprint(rule: ColumnRule | None, salt: Callable[[], bytes]) -> str:
    """Tells ways of changing values apart, and nothing of the salt or of what else is secret in them."""
    if rule is None or not rule.changes_values:
        return PLAIN
    said = [
        type(rule.transform).__name__,
        rule.parameters,
        {name: given.column for name, given in rule.dynamic_parameters.items()},
    ]
    text = json.dumps(said, sort_keys=True, default=str)
    return hmac.new(salt(), text.encode(), hashlib.sha256).hexdigest()[:_DIGITS]
