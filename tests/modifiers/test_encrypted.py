"""Ciphers against published vectors, and values that are encrypted through rules."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pytest

from pgsluice.modifiers.transforms.aes import encrypt_siv
from pgsluice.modifiers.transforms.registry import make
from pgsluice.schema.table import PgType

TEXT, BYTEA = PgType(25, "text"), PgType(17, "bytea")
KEY = bytes(range(64)).hex()


def siv(key: str, about: str, text: str) -> str:
    """One text, all in hexadecimal digits."""
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    out, offsets = encrypt_siv(
        bytes.fromhex(key), bytes.fromhex(about), data, np.array([0]), np.array([len(data)])
    )
    assert offsets.tolist() == [0, len(out)]
    return out.tobytes().hex()


def test_the_vector_of_rfc_5297() -> None:
    """Its example A.1, with keys of 128 bits."""
    key = "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    about = "101112131415161718191a1b1c1d1e1f2021222324252627"
    assert siv(key, about, "112233445566778899aabbccddee") == (
        "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"
    )


def test_values() -> None:
    """Texts of all lengths around a block, in a slice of an array: equal ones are equal, others not."""
    transform = make("encrypted_aes_siv", {"key_hex": KEY})
    texts = ["", "a", "ü" * 7, "x" * 15, "x" * 16, "x" * 17, "y" * 100, "a"]
    array = pa.array(["left out", *texts])[1:]
    made = transform.change(array, b"", TEXT).to_pylist()  # type: ignore[attr-defined]
    assert made[1] == made[-1]
    assert len(set(made)) == len(texts) - 1
    for text, token in zip(texts, made, strict=True):
        padded = token + "=" * (-len(token) % 4)
        assert base64.urlsafe_b64decode(padded).hex() == siv(KEY, "", text.encode().hex())


def test_bytea() -> None:
    """What it stands for is encrypted; the token is bytes, too."""
    transform = make("encrypted_aes_siv", {"key_hex": KEY, "associated_data": "t.c"})
    as_text = transform.change(pa.array(["JK"]), b"", TEXT).to_pylist()  # type: ignore[attr-defined]
    as_bytes = transform.change(pa.array(["\\x4a4B"]), b"", BYTEA).to_pylist()  # type: ignore[attr-defined]
    assert as_bytes == ["\\x" + as_text[0].encode().hex()]
    other = make("encrypted_aes_siv", {"key_hex": KEY}).change(pa.array(["JK"]), b"", TEXT)  # type: ignore[attr-defined]
    assert other.to_pylist() != as_text


def test_a_key_of_another_size() -> None:
    """Refused, and not shown."""
    with pytest.raises(ValueError, match="should be 64 bytes") as refused:
        make("encrypted_aes_siv", {"key_hex": "abcd"})
    assert "abcd" not in str(refused.value)
    assert KEY not in repr(make("encrypted_aes_siv", {"key_hex": KEY}))
