"""The first SIGINT or SIGTERM asks for a graceful end, the second one ends at once; SIGHUP asks to reload."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None], reload: Callable[[], None] | None = None) -> Iterator[None]:
    """
    Call ``stop`` on the first signal; leave the process on the second, with 128 + its number.

    SIGHUP calls ``reload``, if there is one.
    """
    asked = False

    def handle(number: int, _frame: Any) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    if reload is not None:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: reload())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
