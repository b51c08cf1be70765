"""
Check the lock: exact versions only, no addresses and no paths, and every direct dependency is in it.

``make check`` runs it. The lock is written by ``make lock`` and read by pip as a constraints file.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==[0-9][0-9A-Za-z.+!]*( ; [^:/@]+)?")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def problems(lock: str, project: dict[str, object]) -> Iterator[str]:
    """Everything that is wrong with the text of a lock."""
    pinned = set()
    for number, line in enumerate(lock.splitlines(), 1):
        match = PIN.fullmatch(line)
        if match is None:
            yield f"constraints.txt:{number}: not an exact version: {line}"
        else:
            pinned.add(match["name"])
    for name in sorted(direct_dependencies(project) - pinned):
        yield f"constraints.txt: {name} of pyproject.toml is missing; run make lock"


def direct_dependencies(project: dict[str, object]) -> set[str]:
    """The normalized names of everything that pyproject.toml asks for."""
    return {_normalized(requirement) for requirement in _requirements(project)}


def _requirements(project: dict[str, object]) -> Iterator[str]:
    match project:
        case {
            "project": {"dependencies": list(needed), "optional-dependencies": dict(extras)},
            "dependency-groups": dict(groups),
        }:
            yield from needed
            for group in (*extras.values(), *groups.values()):
                yield from group
        case _:
            raise SystemExit("pyproject.toml lacks dependencies, optional-dependencies or dependency-groups")


def _normalized(requirement: str) -> str:
    match = NAME.match(requirement)
    name = match[0] if match else requirement
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Print the problems; 1 when there are any."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = list(problems((ROOT / "constraints.txt").read_text(), project))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
