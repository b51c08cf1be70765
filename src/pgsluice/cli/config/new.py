"""``pgsluice config new``: asks a few questions and writes a commented configuration file."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import (
    Force,
    Name,
    SourceUrl,
    Tables,
    TargetKind,
    TargetUrl,
    split_list,
    target_flags,
)
from pgsluice.cli.output import print_text
from pgsluice.errors import ConfigError, MachineError

if TYPE_CHECKING:
    from pgsluice.sinks.base import SinkKind

URL_VARIABLE = "${SOURCE_URL}"  # keeps the password out of the file


def new(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("pgsluice.yaml"),
    name: Name = None,
    source_url: SourceUrl = None,
    tables: Tables = None,
    target: TargetKind = None,
    target_url: TargetUrl = None,
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="Ask nothing; take flags and defaults.")
    ] = False,
    all_keys: Annotated[
        bool, typer.Option("--all-keys", help="Write the whole template, with every key at its default.")
    ] = False,
    force: Force = False,
) -> None:
    """Ask what is needed and write a commented configuration file."""
    if path.exists() and not force:
        raise ConfigError(f"{path} exists already", remedy="Name another file, or give --force")
    if all_keys:
        _write(path, template())
        return
    ask = _defaults if non_interactive else _prompt
    answers: dict[str, Any] = {"name": name or ask("Name of the pipeline", "main")}
    url = source_url or ask("URL of the source, or a variable that holds it", URL_VARIABLE)
    chosen = split_list(tables or [ask("Tables", "*.*")])
    answers["source"] = {"postgres": {"url": url, "replication": {"tables": chosen}}}
    kind = _kind(target or ask("Kind of target", "duckdb"))
    options = target_flags(kind.name, target_url)["target"][kind.name]
    answers["target"] = {kind.name: _options(kind, options, ask)}
    _check(answers)
    _write(path, _rendered(answers))


def template() -> str:
    """The shipped file with every key."""
    return (files("pgsluice.cli") / "templates" / "config.template.yaml").read_text(encoding="utf-8")


def _prompt(question: str, default: str | None) -> str:
    return str(typer.prompt(question, default=default, err=True))


def _defaults(question: str, default: str | None) -> str:
    if default is None:
        raise ConfigError(f"not given: {question}", remedy="Give it as a flag, such as --target-url")
    return default


def _kind(name: str) -> SinkKind:
    from pgsluice.sinks import registry

    return registry.kind(name)


def _options(kind: SinkKind, given: dict[str, Any], ask: Any) -> dict[str, Any]:
    """What the target needs and was not given."""
    needed = [key for key, field in kind.config.model_fields.items() if field.is_required()]
    return {**given, **{key: ask(f"{kind.name}: {key}", None) for key in needed if key not in given}}


def _check(answers: dict[str, Any]) -> None:
    """Refuse answers that could not be loaded; a variable need not be set yet."""
    from pydantic import ValidationError

    from pgsluice.pipeline.config import config_model
    from pgsluice.pipeline.config.files import map_strings
    from pgsluice.pipeline.config.problems import as_error, from_validation

    def placeholder(key: tuple[str | int, ...], text: str) -> str:
        return "postgresql://" if key[-1] == "url" and "${" in text else text

    model = config_model()
    try:
        model.model_validate(map_strings(answers, placeholder))
    except ValidationError as error:
        problems = from_validation(error, model)
    else:
        return
    raise as_error(problems)


def _rendered(answers: dict[str, Any]) -> str:
    from pgsluice.pipeline.config import config_model
    from pgsluice.pipeline.config.template import render

    return render(config_model(), answers)


def _write(path: Path, text: str) -> None:
    try:
        # For its owner alone: the URL may have a password in it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise MachineError(f"{path} can't be written: {error.strerror}") from error
    print_text(f"wrote {path}; next: pgsluice validate config -c {path}")
