"""
How a command that failed says so: one line on standard error, or one JSON object.

Neighbours: ``main.py`` decides the exit code; ``errors.py`` has the codes.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from pgsluice.observability.redact import hide_secrets, trace_of

if TYPE_CHECKING:
    from pgsluice.cli.settings import Settings
    from pgsluice.errors import SluiceError

USAGE_CODE: Final = "SLUICE-USAGE"
BUG_CODE: Final = "SLUICE-BUG"
_LONGEST: Final = 300  # of an unexpected error's own words: some libraries put whole documents there


def report_error(error: SluiceError, settings: Settings) -> None:
    """An error that we know."""
    _report(error.as_dict(), settings, error)


def report_usage(error: Any, settings: Settings) -> None:
    """Options or arguments that can't be understood."""
    context = getattr(error, "ctx", None)
    remedy = f"See `{context.command_path} --help`" if context is not None else "See `pgsluice --help`"
    message = str(error.format_message()).rstrip(".")
    _report({"code": USAGE_CODE, "message": message, "remedy": remedy}, settings, None)


def report_bug(error: Exception, settings: Settings) -> None:
    """An error that nobody expected."""
    first = (str(error).splitlines() or [""])[0][:_LONGEST]
    hint = "" if settings.debug else "run again with --log-level debug and "
    _report(
        {
            "code": BUG_CODE,
            "message": f"unexpected {type(error).__name__}" + (f": {first}" if first else ""),
            "remedy": f"This is a mistake in pgsluice: please {hint}report what it prints",
        },
        settings,
        error,
    )


def _report(fields: dict[str, Any], settings: Settings, error: Exception | None) -> None:
    trace = trace_of(error) if error and settings.debug else ""
    shown = {key: hide_secrets(value) if isinstance(value, str) else value for key, value in fields.items()}
    if settings.log_format == "json":
        record = {"level": "error", **shown, **({"trace": trace} if trace else {})}
        sys.stderr.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        return
    end = " " if shown["message"].endswith(("?", "!", ".")) else ". "
    remedy = f"{end}{shown['remedy']}" if shown["remedy"] else ""
    red, plain = ("\x1b[31m", "\x1b[0m") if settings.color(sys.stderr) else ("", "")
    sys.stderr.write(f"{red}error{plain} {shown['code']}: {shown['message']}{remedy}\n{trace}")
