"""Log lines: levels, forms, and what never gets into them."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.observability.logs import LEVELS, configure, get_logger
from pgsluice.observability.redact import hide_secrets


def log_each() -> None:
    """A line of each level."""
    logger = get_logger("test")
    for level in LEVELS:
        getattr(logger, level)(f"{level} line")


@pytest.mark.parametrize("level", LEVELS)
def test_levels(capsys: pytest.CaptureFixture[str], level: str) -> None:
    """Lines of the level and above are written, to standard error only."""
    configure(level)  # type: ignore[arg-type]
    log_each()
    out, err = capsys.readouterr()
    wanted = [name for name in LEVELS if LEVELS[name] >= LEVELS[level]]
    assert out == ""
    assert [line.split()[2] for line in err.splitlines()] == wanted


def test_console_lines_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has time, level, event and fields, and no colour unless asked for."""
    configure()
    get_logger("test").bind(slot="main").info("slot created", lsn="0/1", note="two words", empty="")
    line = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info  slot created  slot=main lsn=0/1 note='two words' empty=''\n",
        line,
    )
    configure(color=True)
    get_logger("test").info("slot created")
    assert "\x1b[32minfo" in capsys.readouterr().err


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is one object; the time has a zone."""
    configure("trace", "json")
    get_logger("test").warning("odd\nline", table="a")
    record = json.loads(capsys.readouterr().err)
    assert re.fullmatch(r"\S+T\S+[+-]\d\d:\d\d", record.pop("time"))
    assert record == {"level": "warn", "event": "odd\nline", "table": "a"}


@pytest.mark.parametrize("form", ["console", "json"])
def test_one_event_is_one_line(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Text from outside can neither start a line of its own nor move the cursor."""
    configure("info", form)  # type: ignore[arg-type]
    get_logger("test").info("a\nb\x1b[2J", field="c\nd\r\x1b[31m")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert "\r" not in err


@pytest.mark.parametrize("form", ["console", "json"])
def test_rows_and_passwords_are_hidden(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Values of rows and passwords don't get into a line, should somebody log them."""
    configure("info", form)  # type: ignore[arg-type]
    get_logger("test").info("got postgresql://a:hunter2@h/d", values=["hunter2"], note="password=hunter2 x")
    err = capsys.readouterr().err
    assert "hunter2" not in err
    assert "a:***@h/d" in err


def test_traces_are_below_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception's trace follows its line, without passwords."""
    configure()
    try:
        raise ValueError("postgresql://a:hunter2@h/d")  # noqa: TRY301 - a trace is wanted
    except ValueError:
        get_logger("test").error("failed", exc_info=True)
    err = capsys.readouterr().err
    assert err.splitlines()[1].startswith("Traceback")
    assert "hunter2" not in err


def test_other_libraries_speak_in_our_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Records of the standard library are lines like ours; their chatter stays out unless wanted."""
    configure()
    logging.getLogger("other").info("chatter")
    logging.getLogger("other").warning("careful %s", "now")
    assert re.search(r" warn  careful now  logger=other\n$", capsys.readouterr().err)
    configure("debug")
    logging.getLogger("other").info("chatter")
    assert "chatter" in capsys.readouterr().err


def test_setting_up_twice_does_not_double_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line comes once, however often logs are set up."""
    configure()
    configure()
    logging.getLogger("other").warning("once")
    assert capsys.readouterr().err.count("once") == 1


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://app:hunter2@host/db",
        "postgresql://app:hun@ter2@host/db hunter2"[:38],
        "host=a password=hunter2 dbname=b",
        "password='hunter2' x",
        "PGPASSWORD=hunter2",
        "sslpassword=hunter2",
        "motherduck_token=hunter2&x=1",
        "fs.s3a.secret.key: hunter2",
    ],
)
def test_hiding(text: str) -> None:
    """Passwords and tokens are masked in every form they come in."""
    assert "hunter2" not in hide_secrets(text)
    assert "ter2" not in hide_secrets(text)


@pytest.mark.parametrize("text", ["a" * 200_000, "token" * 40_000, "a://" * 50_000, "x:" * 100_000])
def test_hiding_is_quick(text: str) -> None:
    """A long text takes no time to speak of: errors of other libraries can hold whole documents."""
    start = time.monotonic()
    hide_secrets(text)
    assert time.monotonic() - start < 2


@given(st.text(max_size=40))
def test_hiding_leaves_other_text_alone(text: str) -> None:
    """Text without a mark of a secret is not changed."""
    if "@" not in text and "=" not in text and ":" not in text:
        assert hide_secrets(text) == text


@given(
    st.text(
        alphabet=st.characters(codec="ascii", exclude_characters=" \t\n\r\f\v\"'", min_codepoint=33),
        min_size=8,
    )
)
def test_any_password_of_a_url_is_hidden(password: str) -> None:
    """Whatever characters a password has, it does not survive."""
    assert password not in hide_secrets(f"can't reach postgresql://app:{password}@host/db")
