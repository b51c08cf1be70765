"""
The options of ``format("pgsluice")``: strings from Spark, read once into a record.

Light on purpose: every process that Spark starts for a query imports this.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError
from pgsluice.schema.match import TablePattern, parse_names
from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.source.names import DEFAULT_PIPELINE

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_HOME: Final = "~/.pgsluice"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_SPECIAL: Final = {f"special{name.name.capitalize()}": name.name for name in fields(SpecialValues)}
_KNOWN: Final = (
    "url", "log", "name", "slot", "publication", "stateDir", "table", "startingPosition",
    "maxBytesPerTrigger", "consumer", "partitions", "listenerLease", "columns", "where",
    "snapshot", *_SPECIAL,
)  # fmt: skip
_OF_TABLES: Final = ("columns", "where", "snapshot")  # of tables that are read as a batch
_SIZE = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a query asked for."""

    log: Path  # the directory of the change log
    url: str | None = field(default=None, repr=False)  # None: the log alone is read, whoever fills it
    name: str = DEFAULT_PIPELINE
    slot: str | None = None
    publication: str | None = None
    table: tuple[str, str] | None = None  # schema and name; None for the envelope
    start: str | Lsn = EARLIEST  # of a new query; a checkpoint wins over it
    max_bytes: int = 64 << 20  # of log in one micro-batch, unless one transaction is larger
    consumer: str = ""  # holds the log for this query
    partitions: int | None = None  # at most so many tasks per micro-batch; None: twice the driver's cores
    lease: float = 300.0  # seconds that a listener outlives its last reader
    columns: tuple[str, ...] | None = None  # of a table that is read as a batch; None: all
    where: str | None = None  # which of its rows, in SQL
    snapshot: str | None = None  # to read it in
    table_alone: bool = False  # without the columns that a stream has beside the table's own
    special: SpecialValues = field(default_factory=SpecialValues)


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Read Spark's options; their names are compared without regard to case."""
    named = _named(given)
    name = named.get("name", DEFAULT_PIPELINE)
    table = _table(named["table"]) if "table" in named else None
    if "url" not in named and "log" not in named:
        raise ConfigError(
            "neither the option url nor the option log is given",
            remedy='Use .option("url", "postgresql://...") or .option("log", "<state directory>/log")',
        )
    return ReadOptions(
        _log_directory(named, name),
        url=named.get("url"),
        name=name,
        slot=named.get("slot"),
        publication=named.get("publication"),
        table=table,
        start=_position(named.get("startingPosition", EARLIEST)),
        max_bytes=_size("maxBytesPerTrigger", named.get("maxBytesPerTrigger", "64MiB")),
        consumer=named.get("consumer") or (".".join(table) if table else "envelope"),
        partitions=int(_number("partitions", named["partitions"])) if "partitions" in named else None,
        lease=_number("listenerLease", named.get("listenerLease", "300")),
        columns=_columns(named),
        where=named.get("where"),
        snapshot=named.get("snapshot"),
        table_alone=not named.keys().isdisjoint(_OF_TABLES),
        special=SpecialValues(**_special_choices(named)),
    )


def _named(given: Mapping[str, str]) -> dict[str, str]:
    """The options under their proper names."""
    proper = {name.lower(): name for name in _KNOWN}
    unknown = [key for key in given if key.lower() not in proper]
    if unknown:
        nearest = difflib.get_close_matches(unknown[0].lower(), proper, n=1, cutoff=0.5)
        hint = f", did you mean {proper[nearest[0]]}?" if nearest else ""
        raise ConfigError(
            f"unknown option {unknown[0]}{hint}", remedy=f"There are: {', '.join(_KNOWN)}", option=unknown[0]
        )
    return {proper[key.lower()]: value for key, value in given.items()}


def _log_directory(named: Mapping[str, str], name: str) -> Path:
    if "log" in named and "stateDir" in named:
        raise ConfigError("both options log and stateDir are given", remedy="The log's directory is enough")
    if "log" in named:
        return Path(named["log"]).expanduser().absolute()
    return Path(named.get("stateDir", f"{STATE_HOME}/{name}")).expanduser().absolute() / "log"


def _table(text: str) -> tuple[str, str]:
    pattern = TablePattern.parse(text)
    if pattern.schema is None or pattern.table is None:
        raise ConfigError(
            f"the option table names one table, not {text!r}",
            remedy="Leave it out to read all tables in the envelope",
        )
    return pattern.schema, pattern.table


def _columns(named: Mapping[str, str]) -> tuple[str, ...] | None:
    text = named.get("columns", "*").strip()
    return None if text == "*" else parse_names(text)


def _position(text: str) -> str | Lsn:
    return text if text in (EARLIEST, LATEST) else Lsn.parse(text)


def _size(option: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) << _POWERS[(match[2] or "").lower()] if match else 0
    if size <= 0:
        raise ConfigError(
            f"the option {option} is no size: {text!r}", remedy="Write it like 64MiB, or in bytes"
        )
    return size


def _number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise ConfigError(f"the option {option} must be a number above zero, not {text!r}")
    return number


def _special_choices(named: Mapping[str, str]) -> dict[str, Any]:
    choices = get_type_hints(SpecialValues)
    for option, choice in _SPECIAL.items():
        allowed = get_args(choices[choice])
        if option in named and named[option] not in allowed:
            raise ConfigError(
                f"the option {option} can't be {named[option]!r}",
                remedy=f"Choose one of {', '.join(allowed)}",
            )
    return {choice: named[option] for option, choice in _SPECIAL.items() if option in named}
