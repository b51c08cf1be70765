"""Compiling the passes over bytes: kept in numba's cache, or compiled anew where it has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, without the interpreter's lock."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package nor the user's cache directory can be written
        return njit(nogil=True)(function)
