"""Functions of users over Arrow arrays."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pgsluice.modifiers.transforms.base import ArrowTransform

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pgsluice.schema.table import PgType


class Python(ArrowTransform):
    """What a function of your own makes of the values: it gets an Arrow array of texts, and gives as many."""

    function: str = Field(pattern=r"^[\w.]+:[\w.]+$")
    """Where it is, as module:function; it must be importable where Spark's workers run."""

    arguments: dict[str, Any] = Field(default={}, repr=False)
    """Arguments by name, besides the array."""

    deterministic: bool = False
    """Whether it always gives the same for the same value."""

    unique: bool = False
    """Whether it keeps different values apart."""

    @property
    def is_deterministic(self) -> bool:
        """By the word of who wrote it."""
        return self.deterministic

    @property
    def mostly_keeps_values_apart(self) -> bool:
        """By the word of who wrote it."""
        return self.unique

    @property
    def may_be_cut(self) -> bool:
        """What does not fit is not what was asked for."""
        return False

    def problem(self, type_: PgType) -> str | None:
        """Whether it is there."""
        try:
            self._load()
        except (ImportError, AttributeError) as exc:
            return f"{self.function} can't be imported: {exc}"
        return None

    def change(self, texts: pa.StringArray, key: bytes, type_: PgType) -> pa.Array:
        """Call it."""
        return self._load()(texts, **self.arguments)

    def _load(self) -> Callable[..., Any]:
        module, _, name = self.function.partition(":")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        loaded: Callable[..., Any] = found
        return loaded
