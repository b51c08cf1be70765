"""Functions that rules of tests name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def reversed_texts(texts: pa.StringArray, suffix: str = "") -> Any:
    """Backwards, and something behind; NULL in place of what has a digit."""
    made = pc.binary_join_element_wise(pc.utf8_reverse(texts), pa.scalar(suffix), "")
    return pc.if_else(pc.match_substring_regex(texts, "[0-9]"), None, made)


def too_few(texts: pa.StringArray) -> Any:
    """One is missing."""
    return texts[1:]


def broken(texts: pa.StringArray) -> Any:
    """Tells in its error what nobody should see."""
    raise ValueError(f"what is {texts[0]}?")
