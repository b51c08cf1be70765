"""The template, the examples and the generated pages agree with the models."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pgsluice.pipeline.config import config_model, load_config
from pgsluice.pipeline.config.describe import settings
from pgsluice.pipeline.config.template import render
from pgsluice.sinks import registry

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATE = ROOT / "config.template.yaml"
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".yaml", ".env"))
ENVIRONMENT = {
    "SOURCE_URL": "postgresql://app@localhost/shop",
    "TARGET_URL": "postgresql://replica@localhost/shop",
    "RULES_SALT": "a salt",
    "CARD_KEY": "ab" * 16,
}
# What a file that works has to say for itself.
CHOSEN = {"source.postgres.url", "target.duckdb.path"}


def model() -> Any:
    """The model with the kinds of target that belong to the package."""
    return config_model(tuple(registry.kind(name) for name in sorted(registry.BUILT_IN)))


def switched_on(text: str) -> Any:
    """The tree of a file in which every setting has been switched on."""
    return yaml.safe_load(re.sub(r"^#(?!#)", "", text, flags=re.MULTILINE))


def look_up(tree: Any, key: tuple[str, ...]) -> Any:
    """The value at a key; raises KeyError when the key is not there."""
    for part in key:
        tree = tree[part]
    return tree


def test_the_template_has_every_key() -> None:
    """Every key of every model stands in the template, each with its words, and no other key."""
    tree = switched_on(TEMPLATE.read_text())
    keys = [setting.key for setting in settings(model())]
    for key in keys:
        look_up(tree, key)
    assert sorted(_keys(tree)) == sorted(keys)
    assert all(setting.description for setting in settings(model()))


def test_the_template_has_the_defaults() -> None:
    """What stands in the template is the default, read back by the model's own type."""
    tree = switched_on(TEMPLATE.read_text())
    for setting in settings(model()):
        if setting.section or setting.name in CHOSEN:
            continue
        expected = "…" if setting.required else yaml.safe_load(setting.default_text)
        assert look_up(tree, setting.key) == expected, setting.name


def test_the_template_loads_as_the_defaults() -> None:
    """The template as it stands is a working configuration, equal to one that says only what it must."""
    flags = {"source.postgres.url": ENVIRONMENT["SOURCE_URL"], "target": {"duckdb": {"path": "shop.duckdb"}}}
    assert load_config(TEMPLATE, ENVIRONMENT, {}).model_dump() == load_config(None, {}, flags).model_dump()


def test_the_template_is_shipped() -> None:
    """The file in the package is the file at the root."""
    shipped = ROOT / "src" / "pgsluice" / "cli" / "templates" / "config.template.yaml"
    assert shipped.read_bytes() == TEMPLATE.read_bytes()


@pytest.mark.parametrize("generator", ["generate_config_reference.py", "generate_cli_page.py"])
def test_generated_files_are_up_to_date(generator: str) -> None:
    """Template and pages are what the generators write today."""
    command = [sys.executable, f"tools/{generator}", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_load(path: Path) -> None:
    """Every example is a configuration with a source and a target."""
    config = load_config(path, ENVIRONMENT, {})
    assert config.source_url == ENVIRONMENT["SOURCE_URL"]
    assert len(config.sinks()) >= 1


def test_both_forms_of_an_example_are_equal() -> None:
    """An example as YAML and as variables is the same configuration, for every route that there is."""
    pairs = [(path, path.with_suffix(".env")) for path in EXAMPLES if path.with_suffix(".env") in EXAMPLES]
    pairs = [(one, other) for one, other in pairs if one != other]
    assert {one.stem for one, _ in pairs} == {
        "postgres-to-duckdb", "postgres-to-files", "postgres-to-postgres", "postgres-to-stdout",
    }  # fmt: skip
    for one, other in pairs:
        assert load_config(one, ENVIRONMENT, {}) == load_config(other, ENVIRONMENT, {})


def test_a_rendered_file_has_only_what_was_chosen() -> None:
    """In a new file the answers are switched on and everything else is a comment."""
    chosen = {"name": "shop", "target": {"duckdb": {"path": "a b.duckdb"}}}
    text = render(model(), chosen)
    assert yaml.safe_load(text) == chosen
    assert sorted(_keys(switched_on(text))) == sorted(setting.key for setting in settings(model()))


def _keys(tree: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(tree, dict):
        return []
    return [key for name, value in tree.items() for key in ((*prefix, name), *_keys(value, (*prefix, name)))]
