"""Values encrypted so that they keep their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from pgsluice.modifiers.transforms.base import INTEGERS, ArrowTransform, Family, Nulls, Uniqueness, family
from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from pgsluice.schema.table import PgType

_DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_ALPHABETS: Final = {
    "digits": _DIGITS,
    "letters": _LOWER + _LOWER.upper(),
    "alphanumeric": _DIGITS + _LOWER + _LOWER.upper(),
}
_KEY_BYTES: Final = (16, 24, 32)
_ENOUGH: Final = 1_000_000  # values that FF1 needs to choose from, by NIST


class FpeFf1(ArrowTransform):
    """
    The value encrypted by FF1 (NIST SP 800-38G): as long, of the same symbols, reversible with the key.

    A whole number stays one with as many digits; few digits hide little. A text needs at least as many
    symbols as give a million possible values, such as 6 digits.
    """

    families: ClassVar[frozenset[Family] | None] = frozenset({"text", "integer"})
    uniqueness: ClassVar[Uniqueness] = "preserved"

    key_hex: SecretStr
    """The key: 16, 24 or 32 bytes in hexadecimal digits."""

    associated_data: str = ""
    """Binds values to a place, such as a column: the same value gives another one elsewhere (FF1's tweak)."""

    alphabet: str = Field(default="alphanumeric", validate_default=True)
    """For texts: what is encrypted: digits, letters, alphanumeric, or the symbols themselves."""

    passthrough: Literal["keep", "error"] = "keep"
    """For other characters: keep leaves them in their place; error: such a text can't be changed."""

    keep_prefix: int = Field(default=0, ge=0)
    """How many symbols at the beginning stay as they are."""

    keep_suffix: int = Field(default=0, ge=0)
    """How many symbols at the end stay as they are."""

    min_length: int = Field(default=0, ge=0)
    """Texts in which fewer symbols would be encrypted can't be changed; 0 is the least that is allowed."""

    preserve_from: str = ""
    """From the last place where this stands on, a text stays as it is: @ keeps the domain of an address."""

    @field_validator("key_hex")
    @classmethod
    def _a_key(cls, value: SecretStr) -> SecretStr:
        try:
            size = len(bytes.fromhex(value.get_secret_value()))
        except ValueError:
            size = 0
        if size not in _KEY_BYTES:
            raise ValueError("should be 16, 24 or 32 bytes, in hexadecimal digits")
        return value

    @field_validator("alphabet")
    @classmethod
    def _symbols(cls, value: str) -> str:
        symbols = _ALPHABETS.get(value, value)
        if not 2 <= len(symbols) <= 2**16 or len(set(symbols)) != len(symbols):
            raise ValueError("should be digits, letters, alphanumeric, or two and more different symbols")
        return symbols

    @model_validator(mode="after")
    def _agree(self) -> FpeFf1:
        if self.min_length and self.min_length < self._least:
            raise ValueError(f"min_length must be {self._least} or more for {len(self.alphabet)} symbols")
        if set(self.preserve_from) & set(self.alphabet):
            raise ValueError("preserve_from must have no symbol of the alphabet")
        return self

    @property
    def _least(self) -> int:
        """How many symbols give a million values."""
        return next(n for n in range(2, 21) if len(self.alphabet) ** n >= _ENOUGH)

    @property
    def nulls(self) -> Nulls:
        """Where a text is too short."""
        return "failure"

    def problem(self, type_: PgType) -> str | None:
        """Where a type takes two texts for one, there may be none that differ only in that."""
        if base_type(type_).name == "citext" and len(set(self.alphabet.lower())) < len(self.alphabet):
            return "the type takes A for a, and the alphabet has both"
        return None

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """All of them in one pass."""
        if family(type_) == "integer":
            return self._integers(texts, INTEGERS[base_type(type_).name])
        return self._texts(texts)

    def _integers(self, texts: pa.StringArray, bits: int) -> pa.Array:
        # Compiled code: loaded where rows are changed, not wherever rules are read.
        from pgsluice.modifiers.transforms.encoded import parts, texts_of
        from pgsluice.modifiers.transforms.ff1 import encrypt_integers

        data, offsets = parts(texts)
        changed = data[offsets[0] : offsets[-1]].copy()
        offsets = offsets - offsets[0]
        encrypt_integers(self._key, self.associated_data.encode(), changed, offsets, bits)
        return texts_of(changed, offsets)

    @property
    def _key(self) -> bytes:
        return bytes.fromhex(self.key_hex.get_secret_value())

    def _texts(self, texts: pa.StringArray) -> pa.Array:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from pgsluice.modifiers.transforms.encoded import characters, texts_of_characters
        from pgsluice.modifiers.transforms.ff1 import encrypt_texts

        codes, starts = characters(texts)
        symbols = np.frombuffer(self.alphabet.encode("utf-32-le"), np.uint32)
        numerals = self._numerals(codes, symbols)
        if self.preserve_from:
            numerals[self._tails(texts, starts)] = -1
        failed = encrypt_texts(
            self._key, self.associated_data.encode(), len(symbols), numerals, starts,
            keep=(self.keep_prefix, self.keep_suffix), least=self.min_length or self._least,
            strict=self.passthrough == "error",
        )  # fmt: skip
        changed = np.where(numerals >= 0, symbols[numerals], codes)
        return pc.if_else(pa.array(failed), None, texts_of_characters(changed, starts))

    def _numerals(
        self, codes: npt.NDArray[np.uint32], symbols: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.int32]:
        """The place of each character in the alphabet, or -1."""
        import numpy as np

        order = np.argsort(symbols)
        at = np.minimum(np.searchsorted(symbols[order], codes), len(symbols) - 1)
        return np.where(symbols[order][at] == codes, order[at], -1).astype(np.int32)

    def _tails(self, texts: pa.StringArray, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which characters stand behind preserve_from, or are of it."""
        import numpy as np
        import pyarrow.compute as pc

        found = pc.split_pattern(texts, self.preserve_from, max_splits=1, reverse=True)
        heads = pc.utf8_length(pc.list_element(found, 0)).to_numpy(zero_copy_only=False).astype(np.int64)
        place = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
        tails: npt.NDArray[np.bool_] = place >= np.repeat(heads, np.diff(starts))
        return tails
