"""
Reading configuration files: YAML, and ``.env`` files with the names of the environment variables.

Gives raw text and trees; ``load.py`` decides what they mean.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import yaml
from dotenv.parser import parse_stream

from pgsluice.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pgsluice.pipeline.config.describe import Key

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """YAML without tags, in which a key that stands twice is a mistake."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key.value} stands twice", key.start_mark
            )
        seen.add(key.value)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def is_env_file(path: Path) -> bool:
    """Whether a file has variables; an error when it is neither that nor YAML."""
    if path.suffix in (".yaml", ".yml"):
        return False
    if path.suffix == ".env" or path.name == ".env":
        return True
    raise ConfigError(
        f"{path} is not a configuration file by its name",
        remedy="Name it .yaml, .yml or .env, after what is in it",
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """The tree of a YAML file."""
    text = _read(path)
    place, fault = "", ""
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        fault = error.problem or "can't be read"
    except yaml.YAMLError:
        fault = "there are characters that YAML does not allow"
    if fault:  # raised here so that no traceback shows lines of the file: they may hold secrets
        raise ConfigError(f"{path}{place}: not valid YAML: {fault}", remedy="Mend the file at that place")
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: the file should have keys and values, such as name: shop")
    return tree


def rules_section(tree: Any) -> Any:
    """The rules of a file that has them alone, or in the section of a configuration."""
    for section in ("modifiers", "transformations"):
        tree = tree.get(section, tree) if isinstance(tree, dict) else tree
    return tree


def read_env(path: Path) -> dict[str, str]:
    """The variables of a ``.env`` file, as they stand."""
    variables = {}
    for binding in parse_stream(io.StringIO(_read(path))):
        if binding.error or (binding.key is not None and binding.value is None):
            raise ConfigError(f"{path}, line {binding.original.line}: write NAME=value")
        if binding.key is not None and binding.value is not None:
            variables[binding.key] = binding.value
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """
    Replace ``${NAME}`` and ``${NAME:-default}``; ``$${`` stands for ``${`` itself.

    Raises ValueError that names the variable, for one that is missing and has no default.
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        reference = _VARIABLE.fullmatch(match[1])
        if reference is None or not match[0].endswith("}"):
            raise ValueError("write ${NAME} or ${NAME:-default}, and $${ for the characters themselves")
        name, default = reference.groups()
        if default is not None:
            return variables.get(name) or default
        if name not in variables:
            raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        return variables[name]

    return _REFERENCE.sub(value, text)


def map_strings(tree: Any, change: Callable[[Key, str], Any], key: Key = ()) -> Any:
    """A tree with each of its strings replaced by ``change(key, string)``."""
    if isinstance(tree, dict):
        return {name: map_strings(value, change, (*key, str(name))) for name, value in tree.items()}
    if isinstance(tree, list):
        return [map_strings(value, change, (*key, index)) for index, value in enumerate(tree)]
    return change(key, tree) if isinstance(tree, str) else tree


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"the configuration file {path} does not exist") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the configuration file {path} is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"the configuration file {path} can't be read: {error.strerror}") from error
