"""Compiling the passes over bytes: kept in numba's cache, or compiled anew where it has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, without the interpreter's lock."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package nor the user's cache directory can be written
        return njit(nogil=True)(function)


def _copy_bytes(_typing: Any, to: Any, _to_at: Any, source: Any, _source_at: Any, _count: Any) -> Any:
    """C's memcpy between two arrays of bytes, for compiled functions; a loop takes three times as long."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(array: int, offset: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            return builder.gep(data, [arguments[offset]])

        cgutils.raw_memcpy(builder, place(0, 1), place(2, 3), arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(to, types.intp, source, types.intp, types.intp), generate


copy_bytes: Any = intrinsic(_copy_bytes)


def _trailing_zeros(_typing: Any, _value: Any) -> Any:
    """How many bits of a number that is not 0 are 0 at its lower end, for compiled functions."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


trailing_zeros: Any = intrinsic(_trailing_zeros)
