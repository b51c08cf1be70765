"""What happens after an error: the one place that decides between trying again and stopping."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

_BACKOFF: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the same batch again."""

    seconds: float  # to wait before


def after_error(exc: BaseException, attempt: int) -> Retry | None:
    """A retry for what can get better by itself; None for everything else, which stops the loop."""
    if isinstance(exc, SluiceError) and exc.transient and (exc.tries is None or attempt + 1 < exc.tries):
        return Retry(_BACKOFF[min(attempt, len(_BACKOFF) - 1)])
    return None


def with_patience(
    attempt: Callable[[], None],
    stopping: threading.Event,
    note: Callable[[Exception], None],
    *,
    only: type[SluiceError] = SluiceError,
) -> bool:
    """
    Try until it works, unless the error can't get better; False when stopped meanwhile.

    ``note`` hears of each error that is waited for; errors that are not ``only`` such are not.
    """
    for number in itertools.count():
        try:
            attempt()
        except Exception as exc:
            retry = after_error(exc, number) if isinstance(exc, only) else None
            if retry is None:
                raise
            note(exc)
            if stopping.wait(retry.seconds):
                return False
        else:
            return True
    return False
