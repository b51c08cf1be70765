"""The command ``pgsluice targets``, and the options that commands share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
import yaml

from pgsluice.cli.main import main
from pgsluice.cli.options import KEYS, flags, split_list, target_flags
from pgsluice.errors import ConfigError
from pgsluice.pipeline.config import config_model, load_config
from pgsluice.pipeline.config.describe import settings
from pgsluice.sinks import registry


@pytest.fixture(autouse=True)
def logs_as_they_were():
    """Leave the set-up of logs as it was."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind is a row with its guarantee."""
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:]} >= set(registry.BUILT_IN)
    assert any(line.startswith("duckdb") and "exactly once" in line for line in lines)


def test_one_kind_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """One kind is shown with each of its options, default and an example."""
    assert main(["targets", "duckdb"]) == 0
    out = capsys.readouterr().out
    for option in (*registry.kind("duckdb").config.model_fields, "batch.max_rows"):
        assert f"\n{option} " in out
    assert "required" in out
    assert "pip install 'pgsluice[duckdb]'" in out
    assert "example:\n  target:\n    duckdb:" in out


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same as data: a list of kinds, or one."""
    assert main(["targets", "--json"]) == 0
    assert {kind["kind"] for kind in json.loads(capsys.readouterr().out)} >= set(registry.BUILT_IN)
    assert main(["targets", "duckdb", "--json"]) == 0
    options = {option["key"]: option for option in json.loads(capsys.readouterr().out)["options"]}
    assert options["path"]["required"] is True
    assert options["batch.max_wait"]["type"] == "duration"


def test_an_unknown_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that there isn't is an error that names the nearest."""
    assert main(["targets", "duckbd"]) == 2
    assert "Did you mean duckdb?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_the_example_of_a_kind_loads(name: str) -> None:
    """What is shown as an example is a target that can be configured so."""
    config = load_config(None, {}, {"target": yaml.safe_load(registry.kind(name).example)})
    assert config.sinks()[0].kind.name == name


def test_every_shared_option_is_a_key() -> None:
    """Options lead to keys that there are."""
    known = {setting.name for setting in settings(config_model())}
    assert set(KEYS.values()) <= known


def test_flags_leave_out_what_was_not_given() -> None:
    """Only what was given becomes a key; lists are split, paths are text."""
    given = flags(
        name=None, source_url="x", state_dir=Path("d"), tables=["a,b", "c"], schemas=[], failover=False
    )
    assert given == {
        "source.postgres.url": "x",
        "state_dir": "d",
        "source.postgres.replication.tables": ["a", "b", "c"],
    }


def test_lists_are_split_outside_of_quotes() -> None:
    """A comma in a quoted name does not end it."""
    assert split_list(['a, "b,c".d', "", "e,"]) == ["a", '"b,c".d', "e"]


def test_target_flags() -> None:
    """--target-url is the url or the path of the kind that --target names."""
    assert target_flags(None, None) == {}
    assert target_flags("stdout", None) == {"target": {"stdout": {}}}
    assert target_flags("duckdb", "a") == {"target": {"duckdb": {"path": "a"}}}
    with pytest.raises(ConfigError, match="--target-url needs --target"):
        target_flags(None, "a")
    with pytest.raises(ConfigError, match="takes no --target-url"):
        target_flags("memory", "a")
