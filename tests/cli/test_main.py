"""The frame of the command line: speed, errors, exit codes, and the options of every command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import structlog
import typer

import pgsluice
from pgsluice.cli import commands
from pgsluice.cli.commands import COMMANDS, Entry
from pgsluice.cli.main import main
from pgsluice.cli.settings import settings
from pgsluice.errors import SlotTakenError

HEAVY = ("pyspark", "numba", "duckdb", "pyarrow", "pandas", "psycopg", "pydantic", "yaml", "structlog")


def fail() -> None:
    """Fail in a way that has a name."""
    raise SlotTakenError("the slot is in use", remedy="Stop the other run", slot="main")


def break_down(secret: bool = False) -> None:
    """Fail in a way that nobody expected."""
    raise RuntimeError("lost postgresql://app:hunter2@h/d\nand more" if secret else "lost")


def be_interrupted() -> None:
    """Stop as if somebody had pressed Ctrl-C."""
    raise KeyboardInterrupt


def give_code() -> None:
    """End with an exit code of its own."""
    raise typer.Exit(1)


def say(context: typer.Context) -> None:
    """Say what the shared options are, and log a line of each level."""
    given = settings(context)
    sys.stdout.write(f"{given.config} {given.log_level} {given.log_format} {given.no_color} {given.quiet}\n")
    logger = structlog.get_logger()
    logger.debug("a debug line")
    logger.info("an info line", table="a")
    logger.warning("a warning")


@pytest.fixture(autouse=True)
def commands_of_this_file(monkeypatch: pytest.MonkeyPatch):
    """Put the functions above in the place of the real commands, with the logs as they were afterwards."""
    before = structlog.get_config()
    entries = {
        "fail": Entry(f"{__name__}:fail", alias="flop"),
        "break": Entry(f"{__name__}:break_down"),
        "interrupt": Entry(f"{__name__}:be_interrupted"),
        "code": Entry(f"{__name__}:give_code"),
        "say": Entry(f"{__name__}:say"),
    }
    monkeypatch.setattr(commands, "COMMANDS", entries)
    yield
    structlog.configure(**before)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_version_is_quick_and_imports_little() -> None:
    """--version takes well under half a second, and none of the heavy libraries."""
    code = (
        "import sys; from pgsluice.cli.main import main; main(['--version']);"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    took = time.monotonic() - start
    assert done.stdout.splitlines() == [f"pgsluice {pgsluice.__version__}", "[]"]
    assert took < 1.5  # 0.2 s on an idle machine; the imports are the real check


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is printed, with every command."""
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in ("fail", "say", "--log-level"))
    assert "flop" not in out


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A known error is one line with code, message and remedy, and its own exit code."""
    assert run(capsys, "fail") == (
        3,
        "",
        "error SLUICE-SLOT-TAKEN: the slot is in use. Stop the other run\n",
    )


def test_an_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With JSON the error is one object with its fields."""
    code, _, err = run(capsys, "--log-format", "json", "fail")
    assert code == 3
    assert json.loads(err) == {
        "level": "error",
        "code": "SLUICE-SLOT-TAKEN",
        "message": "the slot is in use",
        "remedy": "Stop the other run",
        "slot": "main",
    }


def test_a_stack_trace_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    """The trace is there with --log-level debug only."""
    assert "Traceback" in run(capsys, "--log-level", "debug", "fail")[2]
    assert (
        "Traceback"
        in json.loads(run(capsys, "fail", "--log-level", "trace", "--log-format", "json")[2])["trace"]
    )


def test_an_alias_works(capsys: pytest.CaptureFixture[str]) -> None:
    """A command answers to its other name."""
    assert run(capsys, "flop")[0] == 3


def test_an_unexpected_error_asks_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody expected is one line with its class, a hint, and an exit code of its own."""
    code, out, err = run(capsys, "break")
    assert (code, out) == (70, "")
    assert err == (
        "error SLUICE-BUG: unexpected RuntimeError: lost. This is a mistake in pgsluice: "
        "please run again with --log-level debug and report what it prints\n"
    )


def test_an_unexpected_error_hides_passwords(capsys: pytest.CaptureFixture[str]) -> None:
    """Passwords in messages of other libraries are masked, in the trace too; only one line is shown."""
    _, _, short = run(capsys, "break", "--secret")
    _, _, long = run(capsys, "break", "--secret", "--log-level", "debug")
    assert "hunter2" not in short + long
    assert "and more" not in short
    assert "Traceback" in long


def test_interrupts_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is 130 without a trace; a command's own exit code is kept."""
    assert run(capsys, "interrupt") == (130, "", "")
    assert run(capsys, "code") == (1, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no command 'nothing'"),
        (["flail"], "there is no command 'flail', did you mean fail?"),
        (["fail", "--what"], "No such option: --what"),
        (["--log-level", "loud", "fail"], "'loud'"),
        (["fail", "extra"], "extra"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """A wrong command, option or value is one line and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error SLUICE-USAGE: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "a.yaml", "--log-level", "warn", "--log-format", "json", "--no-color", "--quiet", "say"],
        ["say", "-c", "a.yaml", "--log-level", "warn", "--log-format", "json", "--no-color", "--quiet"],
        ["--log-level", "warn", "--quiet", "say", "--config", "a.yaml", "--log-format", "json", "--no-color"],
    ],
)
def test_shared_options_stand_anywhere(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """The options of every command may stand before or after its name."""
    code, out, _ = run(capsys, *arguments)
    assert (code, out) == (0, "a.yaml warn json True True\n")


def test_variables_for_shared_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables give shared options too, and a flag wins over them wherever it stands."""
    monkeypatch.setenv("PGSLUICE_LOG_LEVEL", "error")
    monkeypatch.setenv("PGSLUICE_CONFIG", "variable.yaml")
    assert run(capsys, "say")[1].startswith("variable.yaml error")
    assert run(capsys, "-c", "flag.yaml", "say")[1].startswith("flag.yaml error")
    assert run(capsys, "say", "-c", "flag.yaml", "--log-level", "debug")[1].startswith("flag.yaml debug")


def test_log_lines_follow_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Level, form and --quiet decide what goes to standard error; results are not touched."""
    plain = run(capsys, "say")[2]
    assert [line.split()[2:] for line in plain.splitlines()] == [
        ["info", "an", "info", "line", "table=a"],
        ["warn", "a", "warning"],
    ]
    assert len(run(capsys, "say", "--log-level", "debug")[2].splitlines()) == 3
    assert len(run(capsys, "say", "--quiet")[2].splitlines()) == 1
    objects = [json.loads(line) for line in run(capsys, "say", "--log-format", "json")[2].splitlines()]
    assert [(line["level"], line["event"]) for line in objects] == [
        ("info", "an info line"),
        ("warn", "a warning"),
    ]


def test_the_table_of_commands_has_no_dead_ends() -> None:
    """Every entry leads to something, and every module with a command is in the table."""
    for name, entry in COMMANDS.items():
        assert entry.load(name).name == name
    listed = {entry.place.partition(":")[0] for entry in COMMANDS.values()}
    frame = {"commands", "failure", "main", "options", "output", "settings"}
    folder = Path(pgsluice.__file__).parent / "cli"
    for path in folder.glob("*.py"):
        if path.stem in frame or path.stem.startswith("_"):
            continue
        module = import_module(f"pgsluice.cli.{path.stem}")
        is_command = callable(getattr(module, path.stem.removesuffix("_"), None)) or hasattr(module, "app")
        assert not is_command or module.__name__ in listed, (
            f"{module.__name__} is not in the table of commands"
        )


def test_every_command_has_help() -> None:
    """Every command, and every option of it, says what it is for."""

    def check(name: str, command) -> None:
        assert command.help, name
        for param in command.params:
            assert param.help, f"{name}: {param.name}"
        for child_name, child in getattr(command, "commands", {}).items():
            check(f"{name} {child_name}", child)

    for name, entry in COMMANDS.items():
        check(name, entry.load(name))
