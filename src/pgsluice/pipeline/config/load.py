"""
From file, environment and flags to one :class:`~pgsluice.pipeline.config.model.Config`.

A flag wins over the environment, which wins over the file. Every problem of all three is reported at
once, with the key and where its value came from. Settings libraries have no notion of where a value
came from, nor of targets that other packages add, so the layers are merged here by hand.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from pgsluice.pipeline.config.describe import Key, is_container, item_section_of, section_of
from pgsluice.pipeline.config.files import (
    expand,
    is_env_file,
    map_strings,
    read_env,
    read_yaml,
    rules_section,
)
from pgsluice.pipeline.config.model import Config, config_model
from pgsluice.pipeline.config.problems import Problem, as_error, from_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

PREFIX: Final = "PGSLUICE_"
RULES: Final = ("modifiers", "transformations")
# Any of these says enough for libpq to find a server without a URL.
LIBPQ_VARIABLES: Final = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and where its values came from."""

    config: Config
    origins: Mapping[Key, str]
    left_out: Any = None  # of the tree, by :func:`load`

    def origin(self, key: Key) -> str:
        """Where the value of a key came from: a file, a variable, a flag, or the default."""
        return origin_of(key, self.origins) or "default"


def load_config(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """The configuration of a pipeline; ``flags`` has dotted keys, and None for flags not given."""
    return load(path, environment, flags).config


def load(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any], *, without: Key = ()
) -> Loaded:
    """Like :func:`load_config`, and keeps where values came from; a section may be left out, unchecked."""
    layers = _Layers(config_model())
    if path is not None and is_env_file(path):
        layers.add_env_file(path, environment)
    elif path is not None:
        layers.add_yaml(path, environment)
    layers.add_environment(environment)
    layers.add_flags(flags)
    return layers.resolve(environment, without)


def origin_of(key: Key, origins: Mapping[Key, str]) -> str:
    """The origin of a key or of the nearest key above it; empty when there is none."""
    return next((origins[key[:end]] for end in range(len(key), 0, -1) if key[:end] in origins), "")


@dataclass(slots=True)
class _Layers:
    """What has been read so far, from the weakest layer to the strongest."""

    model: type[Config]
    tree: Tree = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    place: Path = Path()  # of the file, from where other files are named

    def add_yaml(self, path: Path, environment: Mapping[str, str]) -> None:
        self.place = path.parent
        read = map_strings(read_yaml(path), self._expanding(path, environment))
        tree = _without_empty_sections(read, self.model)
        self._add(tree, dict.fromkeys(_leaves(tree), f"file {path}"))

    def _expanding(self, path: Path, environment: Mapping[str, str]) -> Callable[[Key, str], str | None]:
        def expanded(key: Key, text: str) -> str | None:
            try:
                return expand(text, environment)
            except ValueError as error:
                self.problems.append(Problem(key, str(error), f"file {path}"))
                return None

        return expanded

    def add_env_file(self, path: Path, environment: Mapping[str, str]) -> None:
        variables: dict[str, str] = {}
        for name, text in read_env(path).items():
            try:
                variables[name] = expand(text, {**variables, **environment})
            except ValueError as error:
                self.problems.append(Problem((name,), str(error), f"file {path}"))
        self._add_variables(variables, f" in {path}", strict=True)

    def add_environment(self, environment: Mapping[str, str]) -> None:
        self._add_variables(environment, "", strict=False)

    def add_flags(self, flags: Mapping[str, Any]) -> None:
        for name, value in flags.items():
            if value is not None:
                key = tuple(name.split("."))
                self._add(_nested(key, value), {key: "command line"})

    def resolve(self, environment: Mapping[str, str], without: Key) -> Loaded:
        config: Config | None = None
        self._take_libpq(environment)
        self._take_rules(environment)
        left_out = self._leave_out(without)
        try:
            config = self.model.model_validate(self.tree)
        except ValidationError as error:
            self._keep(from_validation(error, self.model))
        if config is not None and config.source is not None and config.postgres.url is None:
            self._check_libpq(environment)
        if config is None or self.problems:
            raise as_error(self.problems)
        return Loaded(config, self.origins, left_out)

    def _leave_out(self, key: Key) -> Any:
        below: Any = self.tree
        for part in key[:-1]:
            below = below.get(part) if isinstance(below, dict) else None
        return below.pop(key[-1], None) if key and isinstance(below, dict) else None

    def _take_rules(self, environment: Mapping[str, str]) -> None:
        """The rules of the file that modifiers.transformations names, below what else stands there."""
        section: Any = self.tree
        for part in RULES:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict) and isinstance(section.get("file"), str):
            path = Path(self.place, Path(section["file"]).expanduser())
            read = rules_section(map_strings(read_yaml(path), self._expanding(path, environment)))
            own: dict[Key, str] = {RULES: origin_of((*RULES, "file"), self.origins)}
            self._add({RULES[0]: {RULES[1]: {**read, **section}}}, own)

    def _take_libpq(self, environment: Mapping[str, str]) -> None:
        """libpq's own variables are a source where nothing else names one."""
        named = [name for name in LIBPQ_VARIABLES if environment.get(name)]
        if named and "source" not in self.tree:
            self._add({"source": {"postgres": {}}}, {("source",): f"variable {named[0]}"})

    def _check_libpq(self, environment: Mapping[str, str]) -> None:
        if not any(environment.get(name) for name in LIBPQ_VARIABLES):
            text = f"is required, since none of {', '.join(LIBPQ_VARIABLES)} is set"
            self._keep([Problem(("source", "postgres", "url"), text)])

    def _keep(self, found: list[Problem]) -> None:
        """Add problems with their origins, except for keys that are known to be wrong already."""
        known = {problem.key for problem in self.problems}
        self.problems += [
            Problem(problem.key, problem.text, origin_of(problem.key, self.origins))
            for problem in found
            if problem.key not in known
        ]

    def _add_variables(self, variables: Mapping[str, str], place: str, *, strict: bool) -> None:
        for name, text in sorted(variables.items()):
            if not name.startswith(PREFIX) or not text:  # an empty variable is one that is not set
                continue
            key: Key = tuple(name.removeprefix(PREFIX).lower().split("__"))
            origin = f"variable {name}{place}"
            if not strict and _is_foreign(key, self.model):
                continue
            try:
                value = _typed(key, text, self.model)
            except ValueError as error:
                self.problems.append(Problem(key, str(error), origin))
            else:
                self._add(_nested(key, value), {key: origin})

    def _add(self, tree: Tree, origins: Mapping[Key, str]) -> None:
        self.tree = _merged(self.tree, tree)
        for key, origin in origins.items():
            for below in [known for known in self.origins if known[: len(key)] == key]:
                del self.origins[below]
            self.origins[key] = origin


def _merged(below: Tree, above: Tree) -> Tree:
    """Two trees; the second wins. A kind of source or target that it names replaces another kind."""
    result = dict(below)
    if "target" in above:
        result.pop("targets", None)
    if "targets" in above:
        result.pop("target", None)
    for name, value in above.items():
        old = result.get(name)
        if not isinstance(value, dict) or not isinstance(old, dict):
            result[name] = value
        elif name in ("source", "target"):
            result[name] = _merged({kind: old[kind] for kind in old if kind in value}, value)
        else:
            result[name] = _merged(old, value)
    return result


def _typed(key: Key, text: str, model: type[BaseModel]) -> Any:
    """The value of a variable: JSON for lists and sections, text for the rest."""
    annotation: Any = model
    for part in key:
        section = section_of(annotation)
        if section is None or part not in section.model_fields:
            return text  # validation names the unknown key
        annotation = section.model_fields[str(part)].annotation
    if not is_container(annotation):
        return text
    example = '{"key": "value"}' if section_of(annotation) else '["a", "b"]'
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"write it as JSON, such as {example}") from None


def _is_foreign(key: Key, model: type[BaseModel]) -> bool:
    """
    Whether a variable of the environment with our prefix is not configuration.

    The prefix is also used for other things (log level, tests). What has ``__`` in it, or is nearly a
    key, is meant for us: then a mistake in it must not pass in silence.
    """
    if len(key) > 1 or key[0] in model.model_fields:
        return False
    return not difflib.get_close_matches(str(key[0]), model.model_fields, n=1, cutoff=0.8)


def _nested(key: Key, value: Any) -> Tree:
    for part in reversed(key):
        value = {part: value}
    return dict(value)


def _leaves(tree: Any, key: Key = ()) -> list[Key]:
    if not isinstance(tree, dict) or not tree:
        return [key] if key else []
    return [leaf for name, value in tree.items() for leaf in _leaves(value, (*key, str(name)))]


def _without_empty_sections(tree: Any, model: type[BaseModel]) -> Any:
    """In YAML ``stdout:`` with nothing below it is null; for a section that means no settings."""
    if not isinstance(tree, dict):
        return tree
    return {str(name): _filled(value, model.model_fields.get(str(name))) for name, value in tree.items()}


def _filled(value: Any, setting: FieldInfo | None) -> Any:
    section = section_of(setting.annotation) if setting else None
    item = item_section_of(setting.annotation) if setting else None
    if section is not None:
        return _without_empty_sections({} if value is None else value, section)
    if item is not None and isinstance(value, list):
        return [_without_empty_sections(entry, item) for entry in value]
    return value
