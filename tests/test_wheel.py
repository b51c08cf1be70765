"""The wheel works on its own: built, installed outside the tree, and run from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import pgsluice

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pgsluice"


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment that has the wheel, and a folder to run things in."""

    bin: Path
    folder: Path

    def run(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the tree and from its settings."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PGSLUICE_"))
        }
        program = [str(self.bin / command[0]), *command[1:]]
        return subprocess.run(
            program, cwd=self.folder, env=kept, capture_output=True, text=True, timeout=timeout, check=False
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what the source archive holds."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """
    An environment with the wheel and nothing else of ours.

    The dependencies are looked up in the environment of the tests, which saves half a gigabyte of
    downloads. The path file does not pull in that environment's own path files, so its editable
    installation of the package stays out; a test makes sure.
    """
    home = tmp_path_factory.mktemp("elsewhere")
    environment = home / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    libraries = Path(place.stdout.strip())
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    folder = home / "run"
    folder.mkdir()
    return Installation(environment / "bin", folder)


def test_the_wheel_has_every_file_of_the_package(wheel: Path):
    """Migrations, templates and py.typed are in the wheel, like every other file of the package."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("pgsluice/")}
    in_tree = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert in_tree - packed == set()
    assert "pgsluice/py.typed" in packed
    assert any(name.startswith("pgsluice/schema/migrations/") and name.endswith(".sql") for name in packed)
    assert any("template" in name for name in packed)


def test_the_wheel_carries_the_licence(wheel: Path):
    """LICENSE and NOTICE travel with the package."""
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    assert {"LICENSE", "NOTICE", "entry_points.txt"} <= names


def test_the_installed_package_is_the_wheel(installed: Installation):
    """What runs is the installed copy, not the tree that it was built from."""
    done = installed.run("python", "-c", "import pgsluice; print(pgsluice.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(installed.bin.parent), done.stderr


def test_version(installed: Installation):
    """`pgsluice --version` prints the version of the package."""
    done = installed.run("pgsluice", "--version")
    assert done.returncode == 0, done.stderr
    assert pgsluice.__version__ in done.stdout


def test_config_schema(installed: Installation):
    """`pgsluice config schema` prints a JSON Schema that knows the top keys."""
    done = installed.run("pgsluice", "config", "schema")
    assert done.returncode == 0, done.stderr
    assert {"name", "state_dir", "source"} <= set(json.loads(done.stdout)["properties"])


def test_targets_are_found_by_their_entry_points(installed: Installation):
    """The sinks of the wheel's own entry points are listed."""
    done = installed.run("pgsluice", "targets")
    assert done.returncode == 0, done.stderr
    assert [kind for kind in ("duckdb", "memory", "postgres", "stdout") if kind not in done.stdout] == []


@pytest.mark.skipif(shutil.which("java") is None, reason="the demo needs Java")
def test_the_demo_runs(installed: Installation):
    """`pgsluice demo` replicates its shop and finds source and target equal."""
    done = installed.run("pgsluice", "demo", "--seconds", "1", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
