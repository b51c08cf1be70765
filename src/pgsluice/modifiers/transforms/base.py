"""What a transform is: from the SQL of a value to the SQL of what stands in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from pgsluice.modifiers.transforms.sql import Draw, hmac_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from pgsluice.modifiers.transforms.lookup import LookupChoice
    from pgsluice.schema.table import PgType

Family = Literal[
    "text", "integer", "float", "numeric", "boolean", "date", "timestamp", "timestamptz", "uuid", "bytea",
    "json", "hstore", "texts", "other",
]  # fmt: skip
"""Types that one SQL serves; texts are arrays of text."""

_FAMILIES: Final[Mapping[str, Family]] = {
    "text": "text", "varchar": "text", "bpchar": "text", "citext": "text", "name": "text",
    "int2": "integer", "int4": "integer", "int8": "integer",
    "float4": "float", "float8": "float", "numeric": "numeric", "bool": "boolean",
    "date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz",
    "uuid": "uuid", "bytea": "bytea", "json": "json", "jsonb": "json", "hstore": "hstore",
}  # fmt: skip

INTEGERS: Final = {"int2": 15, "int4": 31, "int8": 63}
"""Bits of the highest value."""

_LENGTH_HEADER: Final = 4  # bytes that a typmod of varchar has beyond the length

Uniqueness = Literal["preserved", "likely", "lossy"]
"""Whether different values stay different: surely, most likely, or not."""

Nulls = Literal["never", "failure", "result", "always"]
"""
What NULL in place of a value means: there is none; the value could not be changed; NULL is an answer where
the column allows it, and elsewhere a failure; there is nothing else.
"""

Generator = Literal["random", "deterministic"]


def family(type_: PgType) -> Family:
    """The family of a column's type; a domain's is that of what it stands for."""
    while type_.base is not None:
        type_ = type_.base
    if type_.element is not None:
        return "texts" if family(type_.element) == "text" else "other"
    return _FAMILIES.get(type_.name, "other")


def longest(type_: PgType) -> int | None:
    """How many characters a text column holds; None for any number."""
    while type_.base is not None:
        type_ = type_.base
    return type_.typmod - _LENGTH_HEADER if type_.name in ("varchar", "bpchar") and type_.typmod > 0 else None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a row, and what a transform may know beside it."""

    value: str  # SQL of its text
    type: PgType
    key: bytes  # the secret of deterministic draws
    parameters: Mapping[str, str]  # SQL of those that other columns give
    over_row: Callable[[str], str] = str  # SQL of an expression over the row's columns
    lookup: Callable[[LookupChoice], tuple[str, ...]] = lambda _: ()  # what another table has

    def draw(self, generator: Generator = "deterministic", key: bytes | None = None) -> Draw:
        """Numbers by the value; or, with ``random``, by chance."""
        source = self.value if generator == "deterministic" else "uuid()"
        return Draw(hmac_sha256(key or self.key, source))


class Transform(BaseModel):
    """One way of changing a value. Its fields are its parameters."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    families: ClassVar[frozenset[Family] | None] = None  # types that it is for; None for all
    uniqueness: ClassVar[Uniqueness] = "lossy"
    dynamic: ClassVar[frozenset[str]] = frozenset()  # parameters that other columns may give

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the row whose texts it needs; dynamic parameters may give others in their place."""
        return frozenset()

    @property
    def nulls(self) -> Nulls:
        """What NULL in place of a value means."""
        return "failure"

    @property
    def is_deterministic(self) -> bool:
        """Whether the same value gives the same in its place, always and everywhere."""
        return getattr(self, "generator", "deterministic") == "deterministic"

    @property
    def mostly_keeps_values_apart(self) -> bool:
        """Whether different values stay different, at least most likely."""
        return self.uniqueness != "lossy"

    @property
    def may_be_cut(self) -> bool:
        """Whether a text that is too long for its column may lose its end."""
        return self.uniqueness == "lossy"

    @property
    def lets_plain_out(self) -> bool:
        """Whether it leaves values as they are that it is given to change."""
        return False

    @property
    def lengths(self) -> tuple[int, int | None]:
        """The least and the greatest number of characters of what it makes, as far as that is known."""
        return 0, None

    def outcomes(self, type_: PgType) -> float | None:
        """Of how many values, all alike in chance, it draws for a column; None when it draws none."""
        return None

    def problem(self, type_: PgType) -> str | None:
        """Why it can't serve a column of that type, although the family is right."""
        return None

    def sql(self, cell: Cell) -> str:
        """
        The SQL of the text that stands in the value's place; asked only for values that are not NULL.

        NULL where it can't be done: what happens then is the user's choice (``on_error``).
        """
        raise NotImplementedError


class ArrowTransform(Transform):
    """A transform that no expression of Spark can express: a function over an Arrow array."""

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """As many values for some texts, none of which is NULL; NULL where it can't be done."""
        raise NotImplementedError


class Generated(Transform):
    """A transform that makes values up: by chance, or always the same for the same value."""

    generator: Generator = "random"
    """random, or deterministic: the same value gives the same in its place, always and everywhere."""

    @property
    def nulls(self) -> Nulls:
        """It always has something to give."""
        return "never"
