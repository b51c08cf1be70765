"""The repository as a whole: nothing in it belongs to one machine, and its parts agree."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pgsluice"
# Joined here so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.}$-])/" + r"(?:home|root|Users|workspace|work)/[\w.-]+")
REGISTRY = re.compile(
    "|".join(
        (
            r"pypi\.org/" + "simple",
            "files" + r"\.pythonhosted",
            "artifact" + "ory",
            r"(?<!emit-)index" + "-url",
        )
    ),
    re.I,
)
# Parts that a dependency brings in the one version that fits it: declaring them could only break that.
PARTS_OF = {"py4j": "pyspark", "pydantic_core": "pydantic"}


def tracked_files() -> list[Path]:
    """Every text file of the repository: what git tracks, or the tree where there is no git."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        skipped = re.compile(r"/(\.[a-z_]+|dist|site|__pycache__)/")
        paths = [
            path for path in ROOT.rglob("*") if not skipped.search(f"/{path.relative_to(ROOT).as_posix()}")
        ]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    """``file:line: text`` of every line of a tracked file that has the pattern."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def test_the_lock_has_exact_versions_only():
    """constraints.txt has no addresses, no paths and no open versions, and nothing is missing in it."""
    command = [sys.executable, "tools/check_constraints.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "--index" + "-url https://packages.example/simple",
        "thing @ file:///somewhere/thing.whl",
        "thing>=1.0",
        "thing==1.0 ; python_version < '3' # https://packages.example",
    ],
)
def test_a_bad_line_in_the_lock_is_found(line: str):
    """The check of the lock refuses addresses, paths and open versions."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from check_constraints import problems
    finally:
        sys.path.pop(0)
    project = {"project": {"dependencies": [], "optional-dependencies": {}}, "dependency-groups": {}}
    assert list(problems(line, project)) == [f"constraints.txt:1: not an exact version: {line}"]


def test_the_lock_keeps_the_tested_spark():
    """PySpark is the version of the documentation, and pandas is older than 3."""
    lock = dict(re.findall(r"^([a-z0-9-]+)==([0-9.]+)", (ROOT / "constraints.txt").read_text(), re.M))
    assert lock["pyspark"] == "4.2.0"
    assert int(lock["pandas"].split(".")[0]) < 3


def test_no_file_names_a_place_on_one_machine():
    """No tracked file has an absolute path below somebody's home or workspace."""
    assert lines_matching(MACHINE_PATH) == []


def test_no_file_names_a_package_registry():
    """Where packages come from is the machine's own configuration, never the repository's."""
    assert lines_matching(REGISTRY) == []


def test_every_module_says_what_it_is_for():
    """Each module of the package, and each tool, opens with a docstring."""
    modules = [*PACKAGE.rglob("*.py"), *(ROOT / "tools").glob("*.py"), *(ROOT / "bench").rglob("*.py")]
    assert PACKAGE / "__init__.py" in modules
    silent = [
        str(path.relative_to(ROOT)) for path in modules if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_every_folder_of_the_package_is_a_package():
    """A folder with modules has an __init__, so that no wheel leaves it out and no import is implicit."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [
        str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()
    ] == []


def test_every_page_is_in_the_navigation_once():
    """mkdocs.yml lists each page of docs/ exactly once."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(_pages_of(navigation)) == sorted(pages)


def test_the_pipeline_of_checks_runs_the_readme_test_command():
    """What the README tells people to run is what .ci/run runs."""
    commands = re.findall(r"^make [a-z-]+", (ROOT / "README.md").read_text(), re.M)
    assert commands[:2] == ["make demo", "make test"]
    assert "step make test" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_changelog_has_the_version():
    """The newest section is Unreleased, and a released version of the package has one of its own."""
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert sections[0] == "Unreleased"


def test_every_target_of_the_makefile_is_explained():
    """`make help` lists every target that a person may call."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert targets is not None
    called_by_people = {name for name in targets[1].split() if not name.startswith("system-")}
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M)) == called_by_people


def test_the_makefile_has_the_targets_that_people_are_told_of():
    """A target that the documents, the checks and habits rely on can't go unnoticed."""
    explained = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert {"help", "setup", "demo", "test", "bench", "check", "dist", "soak"} <= set(explained)


def test_every_import_is_declared():
    """
    What the package imports from others is in pyproject.toml, as a dependency or in an extra.

    The tests run in an environment that has more, in which a missing declaration would go unseen.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]
    names = {_normal(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in declared}
    providers = packages_distributions() | {part: [whole] for part, whole in PARTS_OF.items()}
    missing = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in PACKAGE.rglob("*.py")
        for module in _imported(ast.parse(path.read_text()))
        if module not in sys.stdlib_module_names | {"pgsluice"}
        and not names & {_normal(provider) for provider in providers.get(module, ())}
    }
    assert missing == set()


def _imported(tree: ast.Module) -> set[str]:
    """The top-level modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_tools_check_their_own_output():
    """Every generator can be run with --check, which `make check` does."""
    generators = sorted((ROOT / "tools").glob("generate_*.py"))
    assert generators != []
    assert [path.name for path in generators if "--check" not in path.read_text()] == []


def test_the_build_backend_of_the_lock_is_the_declared_one():
    """The back end that pyproject.toml names is in the development group, for builds without network."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    group = project["dependency-groups"]["dev"]
    assert set(project["build-system"]["requires"]) <= set(group)


def _pages_of(navigation: object) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    children = navigation.values() if isinstance(navigation, dict) else navigation
    assert not isinstance(children, str)
    return [page for child in children for page in _pages_of(child)]


def test_scripts_can_be_run():
    """Scripts that the Makefile and people call directly are executable, also in a fresh clone."""
    scripts = [ROOT / ".ci" / "run", *(ROOT / "tools").glob("*.sh")]
    assert [path.name for path in scripts if not os.access(path, os.X_OK)] == []


def test_setup_lists_everything_that_is_missing_at_once(tmp_path: Path):
    """Without apt, one list names each missing part and the package that brings it, and nothing is tried."""
    for tool in ("bash", "id", "sed", "head"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool}"))
    environment = {"PATH": str(tmp_path), "PYTHON": sys.executable, "JAVA_HOME": str(tmp_path / "nowhere")}
    script = [str(tmp_path / "bash"), str(ROOT / "tools" / "setup.sh"), "python", "java"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.findall(r"^  - (\w+)", done.stderr, re.M) == ["Java"]
    assert "apt-get install --no-install-recommends openjdk-17-jre-headless\n" in done.stderr
