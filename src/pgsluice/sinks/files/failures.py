"""What errors of the file system mean to a pipeline: which can be tried again, and what to tell people."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pgsluice.errors import TargetError, TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_DIRECTORY: Final = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST)


@contextmanager
def translating(root: Path | str) -> Iterator[None]:
    """Errors of the file system below a directory become errors of ours."""
    try:
        yield
    except OSError as error:
        raise _translated(error, str(root)) from error


def _translated(error: OSError, root: str) -> TargetError:
    if error.errno in _FULL:
        return TargetUnavailableError(
            f"there is no space left below {root}", remedy="Free some space on that disk", path=root
        )
    if error.errno in _DENIED:
        return TargetError(
            f"{root} can't be written: permission denied or read-only",
            remedy="Give the user of this process the right to write the directory and all below it",
            path=root,
        )
    if error.errno in _NO_DIRECTORY:
        return TargetError(
            f"{root} can't be written: it is no directory, or a part of it was removed",
            remedy="Name a directory, and leave _manifest in it alone; then start again",
            path=root,
        )
    return TargetUnavailableError(f"{root} can't be written: {error.strerror or error}", path=root)


def no_links(root: Path) -> TargetError:
    """For a file system in which a manifest can't be made exclusively."""
    return TargetError(
        f"the file system of {root} has no hard links, by which one writer keeps out another",
        remedy="Use a directory on another file system",
        path=str(root),
    )
