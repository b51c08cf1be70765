"""
The options that every command takes, before or after its name: ``pgsluice -c a.yaml run`` and
``pgsluice run -c a.yaml`` are the same.

Typer knows options of one command only, so the shared ones are added to each command when it is
loaded; see ``commands.py``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.pipeline.config import Config, Loaded

PANEL = "Options of every command"

# As in observability/logs.py, which is too slow to import for --version.
Level = Literal["trace", "debug", "info", "warn", "error"]
Format = Literal["console", "json"]


@dataclass(slots=True)
class Settings:
    """What the shared options say."""

    config: Path | None = None
    log_level: Level = "info"
    log_format: Format = "console"
    no_color: bool = False
    quiet: bool = False

    @property
    def debug(self) -> bool:
        """Whether stack traces are wanted."""
        return self.log_level in ("trace", "debug")

    def color(self, stream: Any) -> bool:
        """Whether to write colours to a stream."""
        return not self.no_color and "NO_COLOR" not in os.environ and stream.isatty()

    def configure_logs(self) -> None:
        """Set up log lines; with --quiet only warnings and errors are left."""
        from pgsluice.observability import logs

        level = "warn" if self.quiet and self.log_level == "info" else self.log_level
        logs.configure(level, self.log_format, self.color(sys.stderr))


def settings(context: typer.Context) -> Settings:
    """The shared options of a running command."""
    return context.ensure_object(Settings)


def load(
    context: typer.Context, flags: Mapping[str, Any] | None = None, without: tuple[str, ...] = ()
) -> Loaded:
    """The configuration from flags (dotted keys), environment and ``--config``, with origins."""
    from pgsluice.pipeline.config import load as load_layers

    return load_layers(settings(context).config, os.environ, flags or {}, without=without)


def load_config(context: typer.Context, flags: Mapping[str, Any] | None = None) -> Config:
    """The configuration from flags (dotted keys), environment and ``--config``."""
    return load(context, flags).config


def _remember(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    if value not in (None, False) and param.name is not None:
        setattr(settings(context), param.name, value)
    return value


def _option(*names: str, help: str, envvar: str | None = None) -> Any:  # noqa: A002 - as typer calls it
    return typer.Option(
        *names, help=help, envvar=envvar, callback=_remember, expose_value=False, rich_help_panel=PANEL
    )


def _shared(
    config: Annotated[
        Path | None,
        _option("--config", "-c", help="Configuration file: .yaml, .yml or .env.", envvar="PGSLUICE_CONFIG"),
    ] = None,
    log_level: Annotated[
        Level | None,
        _option(help="Least level of log lines; info if not given.", envvar="PGSLUICE_LOG_LEVEL"),
    ] = None,
    log_format: Annotated[
        Format | None,
        _option(help="Form of log lines and errors; console if not given.", envvar="PGSLUICE_LOG_FORMAT"),
    ] = None,
    no_color: Annotated[bool, _option("--no-color", help="No colours.")] = False,
    quiet: Annotated[bool, _option("--quiet", help="Only results, warnings and errors.")] = False,
) -> None:
    """Only its parameters are used."""


def add_shared_options(command: Any, *, below: bool) -> Any:
    """
    Add the shared options to a command, and to the commands below it; gives the command back.

    Only the first command looks at variables: one below would let a variable win over a flag that
    stands before its name.
    """
    template = typer.Typer(add_completion=False)
    template.command()(_shared)
    taken = {option for param in command.params for option in param.opts}
    shared = [param for param in get_command(template).params if not taken & set(param.opts)]
    if below:
        for param in shared:
            param.envvar = None
    command.params += shared
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            add_shared_options(child, below=True)
    else:
        _set_up_logs_first(command)
    return command


def _set_up_logs_first(command: Any) -> None:
    """Log lines are set up when the options of the last command are known, right before it runs."""
    invoke = command.invoke

    def run(context: typer.Context) -> Any:
        settings(context).configure_logs()
        return invoke(context)

    command.invoke = run
