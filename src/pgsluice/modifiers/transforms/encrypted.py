"""Values encrypted, so that whoever has the key can read them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import SecretStr, field_validator

from pgsluice.modifiers.transforms.base import ArrowTransform, Family, Uniqueness, family

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.schema.table import PgType

_KEY_BYTES: Final = 64
_SHORTEST: Final = 22  # characters of base64 for 16 bytes


class EncryptedAesSiv(ArrowTransform):
    """The value encrypted by AES-SIV (RFC 5297), in unpadded base64 for URLs: reversible with the key."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"text", "bytea"})
    uniqueness: ClassVar[Uniqueness] = "preserved"

    key_hex: SecretStr
    """The key: 64 bytes in hexadecimal digits."""

    associated_data: str = ""
    """Binds values to a place, such as a column: the same value gives another text elsewhere."""

    @field_validator("key_hex")
    @classmethod
    def _a_key(cls, value: SecretStr) -> SecretStr:
        try:
            size = len(bytes.fromhex(value.get_secret_value()))
        except ValueError:
            size = 0
        if size != _KEY_BYTES:
            raise ValueError("should be 64 bytes, in 128 hexadecimal digits")
        return value

    @property
    def lengths(self) -> tuple[int, int | None]:
        """The vector alone, for an empty text; nobody knows how long values are."""
        return _SHORTEST, None

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """All of them in one pass; of a bytea, what it stands for is encrypted."""
        # Compiled code: loaded where rows are changed, not wherever rules are read.
        from pgsluice.modifiers.transforms.aes import encrypt_siv
        from pgsluice.modifiers.transforms.encoded import (
            base64_url,
            bytea_of_bytes,
            bytes_of_bytea,
            parts,
            texts_of,
        )

        data, offsets = parts(texts)
        is_bytea = family(type_) == "bytea"
        if is_bytea:
            data, offsets = bytes_of_bytea(data, offsets)
        secret = bytes.fromhex(self.key_hex.get_secret_value())
        encrypted = encrypt_siv(secret, self.associated_data.encode(), data, offsets[:-1], offsets[1:])
        encoded = base64_url(*encrypted)
        return texts_of(*(bytea_of_bytes(*encoded) if is_bytea else encoded))
