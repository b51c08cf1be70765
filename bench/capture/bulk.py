"""
The bare loop of our own: reads a slot in bulk and throws everything away.

The socket is read as the listener reads it (:mod:`pgsluice.source.replication`); what came is only walked
through, message by message, to count the changes and to find the last commit. Nothing is confirmed.
A process of its own, like the listener: options as JSON on standard input, the result on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from pgsluice.changelog.position import Lsn
from pgsluice.source import replication
from pgsluice.source.connect import connect

if TYPE_CHECKING:
    import numpy.typing as npt


@njit(cache=True, nogil=True)
def _walk(wire: npt.NDArray[np.uint8], size: int, wanted: int) -> tuple[Any, Any, Any]:
    """Bytes of whole messages, changes among them, and the end of the commit behind the last wanted one."""
    at = np.int64(0)
    changes = 0
    while at + 5 <= size:
        length = (
            (np.int64(wire[at + 1]) << 24)
            | (np.int64(wire[at + 2]) << 16)
            | (np.int64(wire[at + 3]) << 8)
            | np.int64(wire[at + 4])
        )
        if at + 1 + length > size:
            break
        message = at + 30  # behind the headers of CopyData and XLogData
        if wire[at + 5] == 119 and length > 29:
            kind = wire[message]
            if kind == 73 or kind == 85 or kind == 68:  # I U D
                changes += 1
            elif kind == 67 and changes >= wanted:  # C
                end = np.int64(0)
                for i in range(8):
                    end = (end << 8) | np.int64(wire[message + 10 + i])
                return at + 1 + length, changes, end
        at += 1 + length
    return at, changes, 0


def throw_away(url: str, slot: str, publication: str, changes: int) -> dict[str, Any]:
    """Read so many changes and the commit behind them."""
    _walk(np.zeros(8, np.uint8), 0, 0)  # loads the compiled pass before the clock
    wake, bell = os.pipe()
    connection = connect(url, replication=True)
    left, end = changes, 0
    started, cpu = time.monotonic(), time.process_time()
    stream = replication.start(connection, slot, (publication,), Lsn(0))
    while not end:
        stream.fill(1.0, wake)
        consumed, found, end = _walk(stream.buffer, stream.size, left)
        stream.consume(consumed)
        left -= found
    result = {
        "seconds": time.monotonic() - started,
        "cpu": time.process_time() - cpu,
        "changes": changes - left,
        "end": str(Lsn(end)),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    stream.close()
    os.close(wake)
    os.close(bell)
    return result


if __name__ == "__main__":
    sys.stdout.write(json.dumps(throw_away(**json.loads(sys.stdin.readline()))) + "\n")
