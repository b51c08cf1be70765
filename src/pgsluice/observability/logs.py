"""
Log lines: an event in plain words, and fields. Set up once, by the command line or by a library's user.

Lines go to standard error: standard output belongs to data. Row values are never logged; fields that
are named like them are hidden should one slip in, and so are passwords.
"""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import structlog

from pgsluice.observability.redact import hide_secrets

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

Level = Literal["trace", "debug", "info", "warn", "error"]
Format = Literal["console", "json"]

LEVELS: Final[dict[str, int]] = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "error": 40}
ROW_FIELDS: Final = frozenset({"row", "values", "old", "content", "record"})

_COLORS: Final = {"trace": "2", "debug": "2", "info": "32", "warn": "33", "error": "31"}
_NAMES: Final = {"warning": "warn", "critical": "error", "exception": "error"}


class _Lines(structlog.PrintLogger):
    """Writes a line; knows the level that structlog lacks."""

    trace = structlog.PrintLogger.msg


class Logger(structlog.BoundLogger):
    """A logger with the five levels; ``bind`` adds fields to all that follow."""

    def trace(self, event: str, **fields: Any) -> None:
        """Log what only somebody who looks at the protocol wants to see."""
        self._proxy_to_logger("trace", event, **fields)


def get_logger(name: str) -> Logger:
    """A logger; ``name`` is the module's."""
    return cast("Logger", structlog.get_logger(name))


def configure(level: Level = "info", format: Format = "console", color: bool = False) -> None:  # noqa: A002
    """Send log lines of this level and above to standard error."""
    _configure_structlog(level, format, color)
    _take_over_stdlib(level)


def configure_for_library() -> None:
    """The same for our own lines, where the program that uses us has not set structlog up itself."""
    if not structlog.is_configured():
        _configure_structlog("info", "console", color=False)


def _configure_structlog(level: Level, format: Format, color: bool) -> None:  # noqa: A002
    renderer: Processor = structlog.processors.JSONRenderer() if format == "json" else _Console(color)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _at_least(LEVELS[level]),
            _stamp,
            structlog.processors.format_exc_info,
            _hide,
            renderer,
        ],
        wrapper_class=Logger,
        logger_factory=lambda *_: _Lines(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _at_least(threshold: int) -> Processor:
    def check(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if LEVELS.get(_NAMES.get(method, method), LEVELS["error"]) < threshold:
            raise structlog.DropEvent
        return event

    return check


def _stamp(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    now = datetime.now().astimezone()
    return {"time": now.isoformat(timespec="milliseconds"), "level": _NAMES.get(method, method), **event}


def _hide(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        key: "(hidden)" if key in ROW_FIELDS else hide_secrets(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


class _Console:
    """``12:30:05 info  slot created  slot=pgsluice_main lsn=0/16B3748``."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> str:
        fields = dict(event)
        time, level = str(fields.pop("time"))[:19].replace("T", " "), str(fields.pop("level"))
        text, trace = _one_line(str(fields.pop("event", ""))), fields.pop("exception", None)
        pairs = " ".join(f"{self._paint(key + '=', '2')}{_shown(value)}" for key, value in fields.items())
        line = f"{self._paint(time, '2')} {self._paint(f'{level:<5}', _COLORS.get(level, '31'))} {text}"
        return "\n".join(part for part in (f"{line}  {pairs}".rstrip(), trace) if part)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color else text


def _shown(value: Any) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c.isspace() or c in "\"'=" for c in text)
    return text if text and plain else repr(text)


def _one_line(text: str) -> str:
    """Nothing from outside may start a line of its own or move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class _Forward(logging.Handler):
    """Other libraries' log records, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        name = logging.getLevelName(record.levelno).lower()
        method = _NAMES.get(name, name) if _NAMES.get(name, name) in LEVELS else "info"
        fields = {"exc_info": record.exc_info} if record.exc_info else {}
        getattr(get_logger(record.name), method)(record.getMessage(), logger=record.name, **fields)


def _take_over_stdlib(level: Level) -> None:
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Forward)]:
        root.removeHandler(handler)
    root.addHandler(_Forward())
    # Libraries chat at info; what they say matters to us one step above our own level.
    quieter = {"trace": logging.DEBUG, "debug": logging.INFO}
    root.setLevel(quieter.get(level, logging.WARNING))
