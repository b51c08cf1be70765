"""The registry of sinks: built-in kinds, entry points of other packages, and missing libraries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from pgsluice.errors import ConfigError, NotInstalledError
from pgsluice.sinks import registry
from pgsluice.sinks.base import SinkKind

if TYPE_CHECKING:
    from pathlib import Path

THIRD_PARTY = """
from pydantic import BaseModel
from pgsluice.sinks.base import SinkKind

class Config(BaseModel):
    path: str

KIND = SinkKind("NAME", "one line", "lines", "at least once", Config, lambda config: config, "NAME: {}")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a small third-party package, by putting it and its metadata on the path."""

    def install(entry: str, module: str, source: str, distribution: str = "other-sinks") -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pgsluice.sinks]\n{entry} = {module}:KIND\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    for name in [name for name in sys.modules if name.startswith("third_")]:
        del sys.modules[name]


def test_built_in_kinds_are_found_by_name() -> None:
    """Each built-in kind loads, is of its own name, and has a configuration model."""
    found = registry.kinds()
    assert set(registry.BUILT_IN) <= set(found)
    assert all(kind.name == name and issubclass(kind.config, BaseModel) for name, kind in found.items())


def test_listing_kinds_is_cheap() -> None:
    """Finding out what there is imports neither Spark nor a client library."""
    import subprocess

    code = (
        "import sys; from pgsluice.sinks import registry; registry.kinds();"
        "print([m for m in ('duckdb', 'pyspark', 'numba', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_entry_point_adds_a_kind(package) -> None:
    """A package adds a kind by its metadata alone."""
    package("tape", "third_tape", THIRD_PARTY.replace("NAME", "tape"))
    assert "tape" in registry.kinds()
    assert registry.kind("tape").summary == "one line"


def test_an_entry_point_never_replaces_a_built_in(package) -> None:
    """The name of a built-in kind is taken, and the package that tries is named."""
    package("stdout", "third_stdout", THIRD_PARTY.replace("NAME", "stdout"))
    with capture_logs() as logs:
        kind = registry.kind("stdout")
    assert kind.summary != "one line"
    assert [(line["name"], line["package"]) for line in logs] == [("stdout", "other-sinks")]


def test_a_broken_kind_does_not_hide_the_others(package) -> None:
    """A third-party kind that can't be imported is left out of the list and is an error when asked for."""
    package("broken", "third_broken", "import a_library_that_is_not_there")
    with capture_logs() as logs:
        assert "broken" not in registry.kinds()
    assert "broken" in [line["name"] for line in logs]
    with pytest.raises(NotInstalledError) as caught:
        registry.kind("broken")
    assert caught.value.remedy == "pip install 'other-sinks'"
    assert "a_library_that_is_not_there" in caught.value.message


@pytest.mark.parametrize("source", ["", "KIND = 1", THIRD_PARTY.replace("NAME", "another")])
def test_an_entry_point_that_names_no_kind(package, source: str) -> None:
    """An entry point that leads nowhere, to something else, or to another name is refused."""
    package("wrong", "third_wrong", source)
    with pytest.raises(ConfigError, match="target kind wrong is broken"):
        registry.kind("wrong")


@pytest.mark.parametrize("name", ["My-Sink", "a__b", "1st"])
def test_a_name_that_can_not_be_a_key_is_ignored(package, name: str) -> None:
    """Names that environment variables could not spell are left out with a warning."""
    package(name, "third_name", THIRD_PARTY.replace("NAME", name))
    with capture_logs() as logs:
        assert name not in registry.kinds()
    assert logs[0]["name"] == name


def test_an_unknown_kind_names_the_nearest() -> None:
    """A slip of the finger is answered with the kind that was meant."""
    with pytest.raises(ConfigError) as caught:
        registry.kind("duckbd")
    assert str(caught.value) == "there is no target kind 'duckbd'. Did you mean duckdb?"


def test_an_unknown_kind_that_is_like_none_lists_all() -> None:
    """With nothing near, the known kinds are listed."""
    with pytest.raises(ConfigError, match=r"Known kinds: .*duckdb, .*memory"):
        registry.kind("zzzz")


def test_a_missing_library_is_one_pip_line() -> None:
    """A build that can't import its library says what to install."""

    class Options(BaseModel):
        """No options."""

    def build(config: BaseModel) -> None:
        import a_library_that_is_not_there  # noqa: F401

    kind = SinkKind("tape", "", "lines", "at least once", Options, build, "", extra="tapes")
    with pytest.raises(NotInstalledError) as caught:
        registry.build(kind, Options())
    assert caught.value.remedy == "pip install 'pgsluice[tapes]'"
    assert caught.value.exit_code == 2
