"""
Which transforms there are.

The names of the best-known tools' rule files are names here, too, so that such files run unchanged. Other
packages add theirs by entry points of the group ``pgsluice.transformers``, each of which names a subclass of
:class:`~pgsluice.modifiers.transforms.base.Transform`.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from pgsluice.modifiers.transforms.contacts import Email, PhoneNumber, SeededEmail
from pgsluice.modifiers.transforms.dates import Date, Shift, Timestamp
from pgsluice.modifiers.transforms.documents import Hstore, Json
from pgsluice.modifiers.transforms.encrypted import EncryptedAesSiv
from pgsluice.modifiers.transforms.expression import Sql
from pgsluice.modifiers.transforms.fixed import LiteralString, Noop, Null
from pgsluice.modifiers.transforms.functions import Python
from pgsluice.modifiers.transforms.hashing import Bucket, Hash, Truncate
from pgsluice.modifiers.transforms.lookup import LookupChoice
from pgsluice.modifiers.transforms.masking import Masking
from pgsluice.modifiers.transforms.numbers import Boolean, Float, Integer, UnixTimestamp, Uuid
from pgsluice.modifiers.transforms.people import FirstName, SeededFirstName, SeededFullName, SeededLastName
from pgsluice.modifiers.transforms.preserving import FpeFf1
from pgsluice.modifiers.transforms.strings import Choice, Letters, SeededSymbols, Symbols
from pgsluice.modifiers.transforms.template import Template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.modifiers.transforms.base import Transform

GROUP: Final = "pgsluice.transformers"

BUILT_IN: Final[Mapping[str, type[Transform]]] = {
    "": Noop,
    "bucket": Bucket,
    "email": Email,
    "encrypted_aes_siv": EncryptedAesSiv,
    "fpe_ff1": FpeFf1,
    "greenmask_boolean": Boolean,
    "greenmask_choice": Choice,
    "greenmask_date": Date,
    "greenmask_firstname": FirstName,
    "greenmask_float": Float,
    "greenmask_integer": Integer,
    "greenmask_string": Symbols,
    "greenmask_unix_timestamp": UnixTimestamp,
    "greenmask_utc_timestamp": Timestamp,
    "greenmask_uuid": Uuid,
    "hash": Hash,
    "hstore": Hstore,
    "json": Json,
    "literal_string": LiteralString,
    "lookup_choice": LookupChoice,
    "masking": Masking,
    "neosync_email": SeededEmail,
    "neosync_firstname": SeededFirstName,
    "neosync_fullname": SeededFullName,
    "neosync_lastname": SeededLastName,
    "neosync_string": SeededSymbols,
    "noop": Noop,
    "null": Null,
    "phone_number": PhoneNumber,
    "python": Python,
    "shift": Shift,
    "sql": Sql,
    "string": Letters,
    "template": Template,
    "truncate": Truncate,
}


@cache
def transforms() -> Mapping[str, type[Transform]]:
    """All that there are, by name; a name of ours is not taken by another package."""
    others = {entry.name: entry.load() for entry in entry_points(group=GROUP) if entry.name not in BUILT_IN}
    return {**others, **BUILT_IN}


def make(name: str, parameters: Mapping[str, Any]) -> Transform:
    """The transform of a rule; ValueError says what is wrong with it, without its values."""
    known = transforms()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        raise ValueError(
            f"there is no transformer {name!r}" + (f"; did you mean {nearest[0]}?" if nearest else "")
        )
    try:
        return known[name].model_validate(dict(parameters))
    except ValidationError as exc:
        raise ValueError(
            "; ".join(_problem(name, each) for each in exc.errors(include_input=False))
        ) from None


def _problem(name: str, error: Mapping[str, Any]) -> str:
    at = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "missing":
            return f"{name} needs the parameter {at}"
        case "extra_forbidden":
            return f"{name} has no parameter {at}"
        case _:
            words = error["msg"].removeprefix("Value error, ")
            return f"{name}: {at}: {words}" if at else f"{name}: {words}"
