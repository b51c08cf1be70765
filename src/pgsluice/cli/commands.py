"""
Which commands there are. To add one: write its file, and add its line here.

A command's module is imported when the command is used or help is asked for, never for ``--version``.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from pgsluice.cli.settings import add_shared_options


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is."""

    place: str  # module:name of a function, or of a Typer for a command with commands of its own
    alias: str | None = None  # another name that works too, and is not shown in help

    def load(self, name: str) -> Any:
        """The command, with the options that every command takes."""
        module, _, attribute = self.place.partition(":")
        target = getattr(import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(target)
            target = single
        command = get_command(target)
        command.name = name
        return add_shared_options(command, below=True)


COMMANDS: Final = {
    "init": Entry("pgsluice.cli.init:init"),
    "run": Entry("pgsluice.cli.run:run", alias="start"),
    "snapshot": Entry("pgsluice.cli.snapshot:snapshot"),
    "reload": Entry("pgsluice.cli.reload:reload"),
    "verify": Entry("pgsluice.cli.verify:verify"),
    "resync": Entry("pgsluice.cli.resync:resync"),
    "dlq": Entry("pgsluice.cli.dlq.app:app"),
    "schema": Entry("pgsluice.cli.schema.app:app"),
    "status": Entry("pgsluice.cli.status:status"),
    "tail": Entry("pgsluice.cli.tail:tail"),
    "demo": Entry("pgsluice.cli.demo:demo"),
    "check": Entry("pgsluice.cli.check:check"),
    "validate": Entry("pgsluice.cli.validate:app"),
    "targets": Entry("pgsluice.cli.targets:targets"),
    "config": Entry("pgsluice.cli.config.app:app"),
    "destroy": Entry("pgsluice.cli.destroy:destroy", alias="tear-down"),
}
"""In the order of the help."""


class Commands(TyperGroup):
    """Loads the commands of the table above when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names that help shows."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name or of an alias."""
        for name, entry in COMMANDS.items():
            if cmd_name in (name, entry.alias):
                return entry.load(name)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Like the base class, and names the nearest command for one that there isn't."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = [*COMMANDS, *(entry.alias for entry in COMMANDS.values() if entry.alias)]
            nearest = difflib.get_close_matches(args[0], known, n=1)
            hint = f", did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)
