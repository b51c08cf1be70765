"""
Write the options of every command into ``docs/cli.md``.

    python tools/generate_cli_page.py            write the page
    python tools/generate_cli_page.py --check    exit 1 when the committed page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from pgsluice.cli.commands import COMMANDS
from pgsluice.cli.main import app
from pgsluice.cli.settings import PANEL, add_shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
START, END = "<!-- generated: start -->\n", "<!-- generated: end -->\n"


def render() -> str:
    """The whole page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    lines = [
        "## Options of every command\n",
        *_options(add_shared_options(get_command(app), below=False)),
        "",
    ]
    for name, entry in COMMANDS.items():
        lines += _command(name, entry.load(name), entry.alias)
    return before + START + "\n".join(lines) + "\n" + END + rest.partition(END)[2]


def _command(name: str, command: Any, alias: str | None = None) -> Iterator[str]:
    below = getattr(command, "commands", {})
    for child, child_command in below.items():
        yield from _command(f"{name} {child}", child_command)
    if below:
        return
    yield f"## `pgsluice {name}`\n"
    yield _text(command.help or "") + (f" Also: `pgsluice {alias}`." if alias else "") + "\n"
    own = [param for param in command.params if getattr(param, "rich_help_panel", None) != PANEL]
    if own:
        yield from _options(command, own)
        yield ""


def _options(command: Any, params: list[Any] | None = None) -> Iterator[str]:
    yield "| option | meaning |\n|---|---|"
    for param in command.params if params is None else params:
        names = ", ".join(f"`{name}`" for name in param.opts)
        if param.param_type_name == "argument":
            names = f"`{param.name.upper()}`"
        yield f"| {names} | {_text(param.help or '')} |"


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    if "--check" not in arguments:
        PAGE.write_text(render(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != render():
        print("docs/cli.md is out of date: run make format", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
