"""From the words of a security label of PostgreSQL Anonymizer to a rule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pgsluice.modifiers.transforms.base import family
from pgsluice.modifiers.transforms.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.schema.table import PgType

_LABEL: Final = re.compile(r"\s*MASKED\s+WITH\s+(FUNCTION|VALUE)\s+(.*?)\s*", re.IGNORECASE | re.DOTALL)
_NOT_MASKED: Final = re.compile(r"\s*NOT\s+MASKED\s*", re.IGNORECASE)
_CALL: Final = re.compile(r"(?:anon\.)?([a-z_0-9]+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_ARGUMENT: Final = re.compile(
    r"""\s*(?:'((?:[^']|'')*)'|\$(\w*)\$(.*?)\$\2\$|("(?:[^"]|"")*"|[\w.+-]+))(?:::[\w \[\]]+)?\s*(?:,|$)""",
    re.DOTALL,
)
_DAYS: Final = ("1900-01-01", "2025-12-31")

Rule = dict[str, Any]


def rule_of_label(label: str, column: str, type_: PgType) -> Rule:
    """The rule that comes nearest to a label; ValueError says what is not understood."""
    if _NOT_MASKED.fullmatch(label):
        return {"name": "noop"}
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ValueError("its security label is neither MASKED WITH FUNCTION nor MASKED WITH VALUE")
    if match[1].upper() == "VALUE":
        return _of_value(match[2])
    call = _CALL.fullmatch(match[2])
    make = _FUNCTIONS.get(call[1].lower()) if call else None
    if call is None or make is None:
        name = call[1] if call else "its expression"
        raise ValueError(f"its security label is MASKED WITH FUNCTION, and {name} has no transformer")
    arguments = _arguments(call[2])
    try:
        return make(arguments, column, type_)
    except (IndexError, ValueError):
        raise ValueError(
            f"its security label calls {call[1]} with arguments that are not understood"
        ) from None


def _of_value(text: str) -> Rule:
    if text.upper() == "NULL":
        return {"name": "null"}
    found = _arguments(text)
    if len(found) != 1:
        raise ValueError("its security label is MASKED WITH VALUE, and that is no single literal")
    return _rule("literal_string", literal=found[0])


def _arguments(text: str) -> list[str]:
    """Literals and names, as texts; ValueError for what is more than that."""
    found, done = [], 0
    for match in _ARGUMENT.finditer(text):
        if match.start() != done:
            break
        done = match.end()
        single, _, dollars, bare = match.groups()
        found.append(single.replace("''", "'") if single is not None else dollars if bare is None else bare)
    if text.strip() and done != len(text):
        raise ValueError("its security label has arguments that are not understood")
    return found


def _rule(name: str, **parameters: Any) -> Rule:
    return {"name": name, "parameters": parameters} if parameters else {"name": name}


def _simply(name: str, **parameters: Any) -> Callable[[list[str], str, PgType], Rule]:
    return lambda _arguments, _column, _type: _rule(name, **parameters)


def _partial(arguments: list[str], column: str, _type: PgType) -> Rule:
    """The ends of a text; one that would be shown whole is hidden whole."""
    own, first, padding, last = arguments
    if own.strip('"') != column:
        raise ValueError("another column")
    name = "`" + column.replace("`", "``") + "`"
    shown = f"concat(left({name}, {int(first)}), {quoted(padding)}, right({name}, {int(last)}))"
    whole = f"length({name}) <= {int(first) + int(last)}"
    return _rule("sql", expression=f"if({whole}, {quoted(padding)}, {shown})")


def _days(arguments: list[str], _column: str, type_: PgType) -> Rule:
    first, last = arguments or _DAYS
    if family(type_) in ("timestamp", "timestamptz"):
        return _rule("greenmask_utc_timestamp", min_timestamp=first, max_timestamp=last)
    return _rule("greenmask_date", min_value=first[:10], max_value=last[:10])


def _numbers(arguments: list[str], _column: str, _type: PgType) -> Rule:
    lowest, highest = map(int, arguments)
    return _rule("greenmask_integer", min_value=lowest, max_value=highest)


def _letters(arguments: list[str], _column: str, _type: PgType) -> Rule:
    return _rule("greenmask_string", min_length=int(arguments[0]), max_length=int(arguments[0]))


def _phone(arguments: list[str], _column: str, _type: PgType) -> Rule:
    prefix = arguments[0] if arguments else "0"
    return _rule("phone_number", prefix=prefix, min_length=len(prefix) + 9, max_length=len(prefix) + 9)


_EMAIL: Final = _simply("neosync_email", invalid_email_action="generate")
_FIRST, _LAST, _FULL = map(_simply, ("neosync_firstname", "neosync_lastname", "neosync_fullname"))
_FUNCTIONS: Final[dict[str, Callable[[list[str], str, PgType], Rule]]] = {
    **{f"{how}_first_name": _FIRST for how in ("fake", "dummy", "random")},
    **{f"{how}_last_name": _LAST for how in ("fake", "dummy", "random")},
    **dict.fromkeys(("dummy_name", "fake_name"), _FULL),
    **dict.fromkeys(
        ("fake_email", "dummy_email", "dummy_free_email", "dummy_safe_email", "random_email"), _EMAIL
    ),
    "pseudo_first_name": _simply("greenmask_firstname", generator="deterministic"),
    "pseudo_email": _simply("email"),
    "hash": _simply("hash"),
    "digest": _simply("hash"),
    "partial": _partial,
    "partial_email": _simply("masking", type="email"),
    "random_string": _letters,
    "random_zip": _simply("greenmask_string", symbols="0123456789", min_length=5, max_length=5),
    "random_phone": _phone,
    "random_int_between": _numbers,
    "random_bigint_between": _numbers,
    "random_date": _days,
    "random_date_between": _days,
    "lorem_ipsum": _simply("string"),
}
