"""A disk that is small enough to be filled."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class SmallDisk:
    """A file system of its own, of 8 MiB at first."""

    path: Path

    def resize(self, size: str) -> None:
        """Give it another size, such as ``200m``."""
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)

    def directory_of(self, user: int, group: int) -> Path:
        """A directory on it that belongs to a user of the system."""
        made = self.path / str(user)
        made.mkdir()
        os.chown(made, user, group)
        return made


@pytest.fixture
def small_disk(reachable: Path) -> Iterator[SmallDisk]:
    """An empty one; to mount it takes root."""
    disk = SmallDisk(reachable / "disk")
    disk.path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(disk.path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting a small file system needs root: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk.path)], check=False)
