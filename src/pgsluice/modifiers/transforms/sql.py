"""Pieces of Spark SQL: literals, and numbers drawn from a keyed digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

_BLOCK: Final = 64  # bytes of SHA-256's input block, which HMAC pads its key to


def quoted(text: str) -> str:
    """
    A string literal.

    Spark replaces ``${name}`` by settings and variables wherever it stands in a text of SQL, also inside
    a literal; so no dollar sign is left in one.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024").replace("\n", "\\n")
    return f"'{escaped}'"


def array_of(texts: tuple[str, ...]) -> str:
    """An array of string literals."""
    return f"array({', '.join(map(quoted, texts))})"


def hmac_sha256(key: bytes, text: str) -> str:
    """The HMAC of a text expression, as 64 hexadecimal digits."""
    block = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block).hex() for pad in (0x36, 0x5C))
    return f"sha2(concat(X'{outer}', unhex(sha2(concat(X'{inner}', cast({text} as binary)), 256))), 256)"


@dataclass(frozen=True, slots=True)
class Draw:
    """Numbers that look random and come from a digest: the same digest gives the same numbers."""

    digest: str  # an expression: 64 hexadecimal digits

    def below(self, limit: int | str, at: int = 0) -> str:
        """A whole number from 0 to below a limit; ``at`` tells the draws of one digest apart."""
        # The digest is what nobody can guess; taking numbers out of it only has to be fast and even.
        return f"pmod(xxhash64({self.digest}, {at}), {limit})"

    def between(self, lowest: int, highest: int, at: int = 0) -> str:
        """A whole number from lowest to highest, both included."""
        return f"({lowest} + {self.below(highest - lowest + 1, at)})"

    def fraction(self, at: int = 0) -> str:
        """A number from 0 to below 1."""
        return f"({self.below(1 << 53, at)} / {float(1 << 53)!r}D)"

    def one_of(self, texts: tuple[str, ...], at: int = 0) -> str:
        """One of some texts."""
        return f"get({array_of(texts)}, cast({self.below(len(texts), at)} as int))"

    def symbols(self, count: str, symbols: str, at: int = 0) -> str:
        """As many symbols as an expression says."""
        place = f"cast(pmod(xxhash64(d, {at}, i), {len(symbols)}) as int) + 1"
        picked = f"transform(sequence(1, n), i -> substr({quoted(symbols)}, {place}, 1))"
        # Lambdas name the digest and the count, which would else be made anew for each symbol.
        text = f"if(n > 0, array_join({picked}, ''), '')"
        counted = f"get(transform(array(cast({count} as int)), n -> {text}), 0)"
        return f"get(transform(array({self.digest}), d -> {counted}), 0)"
