"""FF1 against NIST's samples, and values that keep their form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pgsluice.modifiers.transforms.ff1 import encrypt_texts
from pgsluice.modifiers.transforms.registry import make
from pgsluice.schema.table import PgType

TEXT = PgType(25, "text")
KEY = "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94"
BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"
TEN, LONG = "39383736353433323130", "3737373770717273373737"


def changed(values: list[str], type_: PgType = TEXT, **parameters: Any) -> list[Any]:
    """What becomes of values, as a slice of an array."""
    transform = make("fpe_ff1", {"key_hex": KEY, **parameters})
    made: list[Any] = transform.change(pa.array(["left out", *values])[1:], b"", type_).to_pylist()  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("bits", "tweak", "text", "cipher"),
    [
        (128, "", "0123456789", "2433477484"),
        (128, TEN, "0123456789", "6124200773"),
        (128, LONG, "0123456789abcdefghi", "a9tv40mll9kdu509eum"),
        (192, "", "0123456789", "2830668132"),
        (192, TEN, "0123456789", "2496655549"),
        (192, LONG, "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"),
        (256, "", "0123456789", "6657667009"),
        (256, TEN, "0123456789", "1001623463"),
        (256, LONG, "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
    ],
)
def test_samples_of_nist(bits: int, tweak: str, text: str, cipher: str) -> None:
    """Samples 1 to 9."""
    radix = 36 if "a" in text else 10
    numerals = np.array([BASE_36.index(symbol) for symbol in text], np.int32)
    failed = encrypt_texts(
        bytes.fromhex(KEY)[: bits // 8], bytes.fromhex(tweak), radix, numerals, np.array([0, len(text)]),
        keep=(0, 0), least=2, strict=True,
    )  # fmt: skip
    assert not failed.any()
    assert "".join(BASE_36[numeral] for numeral in numerals) == cipher
    if tweak != LONG:  # a tweak of text, through a rule
        given = {"key_hex": KEY[: bits // 4], "associated_data": bytes.fromhex(tweak).decode()}
        assert changed([text], alphabet="digits", **given) == [cipher]


def test_texts_keep_their_form() -> None:
    """What is no symbol of the alphabet stays in its place; so do the ends that are to be kept."""
    cards = ["4111-1111 1111+1111", "4111111111111111", "4242424242424242"]
    made = changed(cards, alphabet="digits", keep_prefix=6, keep_suffix=4)
    for card, other in zip(cards, made, strict=True):
        kept = [i for i, symbol in enumerate(card) if not symbol.isdigit()]
        assert all(card[i] == other[i] for i in kept)
        digits, others = ("".join(filter(str.isdigit, text)) for text in (card, other))
        assert (digits[:6], digits[-4:], len(digits)) == (others[:6], others[-4:], len(others))
        assert digits != others
    assert made[0].replace("-", "").replace(" ", "").replace("+", "") == made[1]  # separators say nothing
    assert changed(["Grüße an 12345678", "😀abcdefgh😀"])[1][0::9] == "😀😀"
    long = changed(["x" * 5000, "y" * 5001])
    assert [len(text) for text in long] == [5000, 5001]


def test_texts_that_cannot_be_changed() -> None:
    """Too short to hide anything, or with other characters where that is an error."""
    assert changed(["12345", "123456", "1-2-3-4-5", ""], alphabet="digits")[0::2] == [None, None]
    assert changed(["123-456", "123456-"], alphabet="digits", passthrough="error")[0] is None
    assert changed(["12345678"], alphabet="digits", min_length=9) == [None]
    assert changed(["abcdef"], keep_prefix=2, keep_suffix=1) == [None]
    mail = changed(["john.doe@abcdef", "a@abcdefghijk", "johndoe"], preserve_from="@")
    assert mail[0].endswith("@abcdef")
    assert mail[0] != "john.doe@abcdef"
    assert mail[0][4] == "."
    assert mail[1] is None
    assert len(mail[2]) == 7


@pytest.mark.parametrize("kind", ["int2", "int4", "int8"])
def test_integers(kind: str) -> None:
    """One to one among the numbers of as many digits that the type holds."""
    bits = {"int2": 15, "int4": 31, "int8": 63}[kind]
    type_ = PgType(0, kind)
    whole = [str(n) for n in range(-1100, 1101)]
    made = changed(whole, type_)
    assert len(set(made)) == len(whole)
    for digits in (1, 2, 3):
        for sign in ("", "-"):
            own = [n for n in whole if len(n.removeprefix("-")) == digits and n.startswith("-") == bool(sign)]
            assert sorted(changed(own, type_)) == sorted(own)
    ends = [str(n) for n in (2**bits - 1, -(2**bits), 10 ** (len(str(2**bits)) - 1))]
    for before, after in zip(ends, changed(ends, type_), strict=True):
        assert -(2**bits) <= int(after) < 2**bits
        assert len(after) == len(before)
    many = [str(n) for n in range(10_000, 30_000)]
    others = changed(many, type_)
    assert len(set(others)) == len(many)
    assert sum(one == other for one, other in zip(many, others, strict=True)) < 20
    assert others == changed(many, type_)
    assert others != changed(many, type_, associated_data="elsewhere")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"key_hex": "abcd"}, "should be 16, 24 or 32 bytes"),
        ({"key_hex": KEY, "alphabet": "aa"}, "different symbols"),
        ({"key_hex": KEY, "alphabet": "digits", "min_length": 5}, "min_length must be 6 or more"),
        ({"key_hex": KEY, "preserve_from": "a"}, "no symbol of the alphabet"),
    ],
)
def test_faulty_parameters(parameters: dict[str, Any], words: str) -> None:
    """Each says what is wrong, and the key is not shown."""
    with pytest.raises(ValueError, match=words) as refused:
        make("fpe_ff1", parameters)
    assert KEY not in str(refused.value)
    assert KEY not in repr(make("fpe_ff1", {"key_hex": KEY}))
    assert "takes A for a" in str(make("fpe_ff1", {"key_hex": KEY}).problem(PgType(0, "citext")))
