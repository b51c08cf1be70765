"""Addresses of mail and numbers of phones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, SecretStr, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Generated, Nulls, Transform, Uniqueness, family
from pgsluice.modifiers.transforms.people import first_names, last_names
from pgsluice.modifiers.transforms.sql import Draw, array_of, hmac_sha256, quoted
from pgsluice.modifiers.transforms.strings import Seeded, texts_of_range

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_TEXT: Final[frozenset[Family]] = frozenset({"text"})
_DOMAINS: Final = ("example.com", "example.net", "example.org")
_LEAST: Final = len("a@") + max(map(len, _DOMAINS))
_LOCAL_DIGITS: Final = 32
# Of a flat array, as PostgreSQL writes it; possessive, so that Java keeps its stack on a long one.
_ELEMENT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^,"{}\\]++'
_ESCAPED: Final = r"\\(.)"
_QUOTED: Final = re.compile(r'[\s,"{}\\]')


class Email(Transform):
    """A digest before the @; the domain is replaced, too. Of an array, or a text like {a@b.c,d@e.f}, each."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"text", "texts"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    replacement_domain: str = "@example.com"
    """What follows the digest."""

    exclude_domain: str = ""
    """Addresses of this domain stay as they are."""

    salt: SecretStr | None = None
    """Keys the digest; by default the salt of all rules."""

    @property
    def lengths(self) -> tuple[int, int | None]:
        """The digest and the domain; of an array, or what looks like one, nobody knows."""
        return _LOCAL_DIGITS + len(self._domain), None

    @property
    def _domain(self) -> str:
        return "@" + self.replacement_domain.removeprefix("@")

    def problem(self, type_: PgType) -> str | None:
        """What is put into an array must not need quotes."""
        if _QUOTED.search(self._domain):
            return "replacement_domain has characters that no domain has"
        return None

    def sql(self, cell: Cell) -> str:
        """An address, or each of an array's; NULL for an array in an array."""
        value, pieces = cell.value, "regexp_extract_all(v, " + quoted(_ELEMENT) + ", 0)"
        bare = f"regexp_replace(substr(e, 2, length(e) - 2), {quoted(_ESCAPED)}, {quoted('$1')})"
        address = self._address(cell, "e", f"if(startswith(e, '\"'), {bare}, e)")
        each = f"transform({pieces}, e -> if(e = 'NULL', e, {address}))"
        whole = f"concat('{{', array_join({pieces}, ','), '}}')"
        changed = f"if({whole} = v, concat('{{', array_join({each}, ','), '}}'), null)"
        array = f"get(transform(array({value}), v -> {changed}), 0)"
        is_array = f"startswith({value}, '{{') and endswith({value}, '}}')"
        if family(cell.type) == "texts":
            return f"if({is_array}, {array}, null)"
        return f"if({is_array}, {array}, {self._address(cell, value, value)})"

    def _address(self, cell: Cell, written: str, text: str) -> str:
        """The digest of the whole address, so that equal names of two domains stay apart."""
        key = self.salt.get_secret_value().encode() if self.salt else cell.key
        address = f"{_left(hmac_sha256(key, f'lower({text})'))} || {quoted(self._domain)}"
        if not self.exclude_domain:
            return address
        kept = quoted("@" + self.exclude_domain.removeprefix("@").lower())
        return f"if(endswith(lower({text}), {kept}), {written}, {address})"


def _left(digest: str) -> str:
    return f"left({digest}, {_LOCAL_DIGITS})"


class SeededEmail(Seeded):
    """An address that is made up, whole or before the @."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    preserve_length: bool = False
    """As long as the value."""

    preserve_domain: bool = False
    """The domain stays."""

    excluded_domains: tuple[str, ...] = ()
    """Domains that are treated the other way than preserve_domain says."""

    max_length: int = Field(default=100, ge=6)
    """Longer ones are cut, before the @."""

    email_type: Literal["uuidv4", "fullname", "any"] = "uuidv4"
    """What stands before the @."""

    invalid_email_action: Literal["reject", "passthrough", "null", "generate"] = "reject"
    """For a value that is no address: reject follows on_error; passthrough needs allow_plain: true."""

    @property
    def nulls(self) -> Nulls:
        """By what is asked for."""
        match self.invalid_email_action:
            case "null":
                return "result"
            case "reject":
                return "failure"
            case _:
                return "never"

    @property
    def lets_plain_out(self) -> bool:
        """What is no address, with passthrough."""
        return self.invalid_email_action == "passthrough"

    @property
    def lengths(self) -> tuple[int, int | None]:
        """At most max_length, as far as the domain leaves room."""
        return 0, None if self.preserve_length or self.preserve_domain else max(self.max_length, _LEAST)

    def outcomes(self, type_: PgType) -> float | None:
        """Names, or the digits that have room before the longest domain."""
        if self.preserve_length:
            return texts_of_range(16, 1, 1)
        if self.email_type == "fullname":
            return len(first_names()) * len(last_names())
        room = self.max_length - max(map(len, _DOMAINS)) - 1
        return float(16 ** min(max(room, 1), _LOCAL_DIGITS))

    def sql(self, cell: Cell) -> str:
        """What is made up, @, a domain."""
        value, draw = cell.value, cell.draw(self.generator, self.seed_bytes())
        old_domain = f"substring_index({value}, '@', -1)"
        domain = draw.one_of(_DOMAINS, 3)
        if self.excluded_domains:
            excluded = array_of(tuple(map(str.lower, self.excluded_domains)))
            is_excluded = f"array_contains({excluded}, lower({old_domain}))"
            keeps = f"not {is_excluded}" if self.preserve_domain else is_excluded
            domain = f"if({keeps}, {old_domain}, {domain})"
        elif self.preserve_domain:
            domain = old_domain
        room = f"length({value})" if self.preserve_length else str(self.max_length)
        local = f"greatest({room} - length({domain}) - 1, 1)"
        name = self._name(draw)
        if self.preserve_length:
            name = f"rpad({name}, {local}, {quoted('a')})"
        return self._checked(value, f"left({name}, {local}) || '@' || {domain}")

    def _name(self, draw: Draw) -> str:
        if self.email_type != "fullname":
            return f"left({draw.digest}, {_LOCAL_DIGITS})"
        return f"lower(concat_ws('.', {draw.one_of(first_names())}, {draw.one_of(last_names(), 1)}))"

    def _checked(self, value: str, address: str) -> str:
        is_address = f"{value} rlike '^[^@ ]+@[^@ ]+$'"
        match self.invalid_email_action:
            case "generate":
                return address
            case "passthrough":
                return f"if({is_address}, {address}, {value})"
            case _:  # NULL is what was asked for, or what on_error is for
                return f"if({is_address}, {address}, null)"


class PhoneNumber(Generated):
    """A prefix and digits."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"
    dynamic: ClassVar[frozenset[str]] = frozenset({"prefix"})

    prefix: str = ""
    """What it begins with; another column may say it."""

    min_length: int = Field(default=6, ge=1, le=30)
    """The least number of characters, prefix included."""

    max_length: int = Field(default=10, ge=1, le=30)
    """The highest number of characters."""

    @model_validator(mode="after")
    def _a_range(self) -> PhoneNumber:
        if self.min_length > self.max_length:
            raise ValueError("min_length must not be above max_length")
        if len(self.prefix) >= self.min_length:
            raise ValueError("prefix leaves no room for a digit in min_length")
        return self

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Those of the range; a prefix of another column may be longer."""
        return self.min_length, self.max_length

    def outcomes(self, type_: PgType) -> float | None:
        """Of the shortest there are the fewest."""
        digits = (self.min_length - len(self.prefix), self.max_length - len(self.prefix))
        return texts_of_range(10, *digits)

    def sql(self, cell: Cell) -> str:
        """A length, the prefix, digits."""
        draw = cell.draw(self.generator)
        prefix = cell.parameters.get("prefix", quoted(self.prefix))
        length = draw.between(self.min_length, self.max_length)
        return f"{prefix} || " + draw.symbols(f"cast({length} - length({prefix}) as int)", "0123456789")
