"""
The two compiled passes, ready to be called: from the cache on disk, or compiled in memory.

Compiling takes seconds, so the code is kept in numba's cache: beside the package, or in the user's
cache directory when the package is read-only. Where no directory can be written or read the passes
are compiled anew in each process; that is slow, never fatal.
"""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from pgsluice.source.pgoutput import fill, measure, wire
from pgsluice.source.pgoutput.buffers import Relations, allocate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.source.pgoutput.buffers import Bytes, Columns, Longs

Measure: TypeAlias = "Callable[[Bytes, Relations, Longs, int, int, Longs], tuple[int, int]]"
Fill: TypeAlias = "Callable[[Bytes, Relations, Longs, Longs, int, Columns], None]"


class Kernel(NamedTuple):
    """The compiled passes."""

    measure: Measure
    fill: Fill


@cache
def kernel() -> Kernel:
    """The passes, compiled or loaded once per process."""
    try:
        return _tried(Kernel(_cached(measure.measure), _cached(fill.fill)))
    except Exception:  # noqa: BLE001 - no place for the cache, a full disk, a damaged file: anything
        return _tried(Kernel(njit(nogil=True)(measure.measure), njit(nogil=True)(fill.fill)))


def _tried(passes: Kernel) -> Kernel:
    """The passes after one call on nothing, which is what makes numba compile or load them."""
    nothing = np.zeros(0, np.uint8)
    nothing.flags.writeable = False
    counters = np.zeros((2, wire.COUNTERS), np.int64)
    none = np.zeros(0, np.int64)
    known = Relations(*(none,) * 4, wanted=np.zeros(0, np.uint8))
    passes.measure(nothing, known, none, wire.NONE_OPEN, 0, counters)
    passes.fill(nothing, known, none, np.zeros(wire.LONGS, np.int64), 0, allocate(counters[0]))
    return passes


def _cached(function: Callable[..., Any]) -> Any:
    # numba's cache sees changes of the function's own file only: the name stands for all of them.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    return njit(nogil=True, cache=True)(function)


@cache
def _sources() -> str:
    text = "".join(inspect.getsource(module) for module in (wire, measure, fill))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
