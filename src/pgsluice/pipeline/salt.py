"""The secret of deterministic transforms: configured, or made once and kept in the state directory."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from pgsluice.source.process import prepare_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgsluice.modifiers.transformer.rules import Transformations

_SALT: Final = "salt"
_SALT_BYTES: Final = 32
_CHANGED: Final = "changes-values"  # a file that says so to commands that are given another configuration


def changes_values(state_dir: Path) -> bool:
    """Whether a pipeline has ever changed values."""
    return (state_dir / _CHANGED).exists()


def salt_of(rules: Transformations, state_dir: Path, *, keeps: bool) -> Callable[[], bytes]:
    """The secret of deterministic transforms: the configured one, or one that is made at its first use."""
    given = rules.salt

    @cache
    def made() -> bytes:
        if keeps:
            prepare_directory(state_dir)
            (state_dir / _CHANGED).touch(mode=0o600)
        if given is not None:
            return given.get_secret_value().encode()
        path = state_dir / _SALT
        if not keeps and not path.exists():
            return _new_salt()
        return _kept_salt(path)

    lock = threading.Lock()  # every loop asks, and the directory is probed once

    def salt() -> bytes:
        with lock:
            return made()

    return salt


def _kept_salt(path: Path) -> bytes:
    """What the file has; it comes into being whole, and once."""
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name) as file:  # of mode 0600
            file.write(_new_salt())
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # another thread was faster
                os.link(file.name, path)
    return path.read_bytes()


def _new_salt() -> bytes:
    return secrets.token_hex(_SALT_BYTES).encode()
