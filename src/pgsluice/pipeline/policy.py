"""What happens after an error: the one place that decides between trying again and stopping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pgsluice.errors import SluiceError

_BACKOFF: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the same batch again."""

    seconds: float  # to wait before


def after_error(exc: BaseException, attempt: int) -> Retry | None:
    """A retry for what can get better by itself; None for everything else, which stops the loop."""
    if isinstance(exc, SluiceError) and exc.transient:
        return Retry(_BACKOFF[min(attempt, len(_BACKOFF) - 1)])
    return None
