"""
The command ``pgsluice``: runs one command and turns what it raises into a line and an exit code.

Neighbours: ``commands.py`` lists the commands, ``settings.py`` has the options of all of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.main import get_command

from pgsluice import __version__
from pgsluice.cli.commands import Commands
from pgsluice.cli.failure import report_bug, report_error, report_usage
from pgsluice.cli.settings import Settings, add_shared_options
from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_USAGE: Final = 2
EXIT_BUG: Final = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it

# What typer raises for options that it can't read; it has no public name of its own.
_USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"pgsluice {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def pgsluice(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """PostgreSQL replication through a durable change log and Apache Spark."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    settings = Settings()
    command = add_shared_options(get_command(app), below=False)
    given = None if arguments is None else list(arguments)
    try:
        code = command.main(given, prog_name="pgsluice", standalone_mode=False, obj=settings)
    except SluiceError as error:
        report_error(error, settings)
        return error.exit_code
    except _USAGE_ERROR as error:
        report_usage(error, settings)
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place where anything can be caught
        report_bug(error, settings)
        return EXIT_BUG
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
