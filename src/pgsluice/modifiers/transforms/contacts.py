"""Addresses of mail and numbers of phones."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field, SecretStr, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Generated, Transform, Uniqueness
from pgsluice.modifiers.transforms.people import first_names, last_names
from pgsluice.modifiers.transforms.sql import Draw, array_of, hmac_sha256, quoted
from pgsluice.modifiers.transforms.strings import Seeded

_TEXT: Final[frozenset[Family]] = frozenset({"text"})
_DOMAINS: Final = ("example.com", "example.net", "example.org")
_LOCAL_DIGITS: Final = 32


class Email(Transform):
    """A digest before the @; the domain is replaced, too."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    replacement_domain: str = "@example.com"
    """What follows the digest."""

    exclude_domain: str = ""
    """Addresses of this domain keep it."""

    salt: SecretStr | None = None
    """Keys the digest; by default the salt of all rules."""

    def sql(self, cell: Cell) -> str:
        """The digest of the whole address, so that equal names of two domains stay apart."""
        key = self.salt.get_secret_value().encode() if self.salt else cell.key
        digest = f"left({hmac_sha256(key, f'lower({cell.value})')}, {_LOCAL_DIGITS})"
        domain = quoted("@" + self.replacement_domain.removeprefix("@"))
        if self.exclude_domain:
            kept = quoted("@" + self.exclude_domain.removeprefix("@").lower())
            domain = f"if(endswith(lower({cell.value}), {kept}), {kept}, {domain})"
        return f"{digest} || {domain}"


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
    """For a value that is no address: reject follows on_error."""

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

    def sql(self, cell: Cell) -> str:
        """A length, the prefix, digits."""
        draw = cell.draw(self.generator)
        prefix = cell.parameters.get("prefix", quoted(self.prefix))
        length = draw.between(self.min_length, self.max_length)
        return f"{prefix} || " + draw.symbols(f"cast({length} - length({prefix}) as int)", "0123456789")
