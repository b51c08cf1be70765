"""The commands ``config show``, ``config schema``, ``config new`` and ``validate config``."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import structlog
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from pgsluice.cli.config.app import app
from pgsluice.cli.main import main
from pgsluice.pipeline.config import load_config

URL = "postgresql://app:hunter2@db.example/shop"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An environment without settings, in a directory of its own, with the logs as they were afterwards."""
    import os

    for name in [name for name in os.environ if name.startswith(("PGSLUICE_", "PG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def write(text: str) -> str:
    """Write a configuration file; gives its name."""
    Path("a.yaml").write_text(text)
    return "a.yaml"


def test_show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value is shown with its origin, derived ones too, and no secret."""
    monkeypatch.setenv("PGSLUICE_BATCH__MAX_WAIT", "5s")
    path = write("log: {max_bytes: 1GiB}\nspark: {conf: {spark.my.secret: hunter2}}\ntarget: {stdout: }")
    code, out, err = run(capsys, "config", "show", "-c", path, "--source-url", URL, "--name", "shop")
    rows = {line.split()[0]: line.split(maxsplit=1)[1].rstrip() for line in out.splitlines()}
    assert (code, err) == (0, "")
    assert rows["name"].split(maxsplit=1) == ["shop", "command line"]
    assert rows["log.max_bytes"].split(maxsplit=1) == ["1GiB", "file a.yaml"]
    assert rows["batch.max_wait"].split(maxsplit=1) == ["5s", "variable PGSLUICE_BATCH__MAX_WAIT"]
    assert rows["source.postgres.replication.slot"].split() == ["null", "default"]
    assert rows["state_dir"].split() == [str(Path("~/.pgsluice/shop").expanduser()), "default"]
    assert rows["source.postgres.url"].startswith("**********")
    assert "hunter2" not in out
    assert "db.example" not in out
    assert "\x1b" not in out


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same as data; without a source there is nothing about one."""
    code, out, _ = run(capsys, "config", "show", "--json")
    rows = {row["key"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["log.confirm"] == {"key": "log.confirm", "value": "log", "origin": "default"}
    assert not any(key.startswith(("source", "target")) for key in rows)


def test_show_lists_the_items_of_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of several targets is shown by its place."""
    path = write("targets: [{name: one, duckdb: {path: x}}, {stdout: }]")
    out = run(capsys, "config", "show", "-c", path)[1]
    assert "targets[0].duckdb.path" in out
    assert "targets[1].stdout.batch.max_rows" in out


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """The schema is JSON, names every top key, and forbids others."""
    code, out, _ = run(capsys, "config", "schema")
    schema = json.loads(out)
    assert code == 0
    assert schema["additionalProperties"] is False
    assert {"name", "state_dir", "log", "spark", "batch", "on_error", "source", "target", "targets"} <= set(
        schema["properties"]
    )
    assert schema["$defs"]["LogConfig"]["properties"]["max_bytes"]["type"] == ["string", "integer"]
    assert "duckdb" in schema["$defs"]["Target"]["properties"]


def test_new_without_questions(capsys: pytest.CaptureFixture[str]) -> None:
    """With flags a file is written that loads, and that only its owner can read."""
    arguments = ["--non-interactive", "--name", "shop", "--source-url", URL, "--tables", 'shop.*,"A,B"']
    code, out, _ = run(capsys, "config", "new", *arguments, "--target", "duckdb", "--target-url", "x.duckdb")
    path = Path("pgsluice.yaml")
    assert (code, out) == (0, "wrote pgsluice.yaml; next: pgsluice validate config -c pgsluice.yaml\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = load_config(path, {}, {})
    assert (config.name, config.source_url) == ("shop", URL)
    assert config.postgres.replication.tables == ("shop.*", '"A,B"')
    assert config.sinks()[0].kind.name == "duckdb"
    assert "## Size at which capture pauses" in path.read_text()


def test_new_asks(tmp_path: Path) -> None:
    """Without flags it asks, with defaults, and asks for what the target needs."""
    answers = "shop\n\nshop.*\nduckdb\nshop.duckdb\n"
    result = CliRunner().invoke(app, ["new", "b.yaml"], input=answers)
    assert result.exit_code == 0, result.output
    config = load_config(Path("b.yaml"), {"SOURCE_URL": URL}, {})
    assert (config.name, config.source_url) == ("shop", URL)
    assert str(config.sinks()[0].options.path) == "shop.duckdb"  # type: ignore[attr-defined]


def test_new_keeps_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that exists is kept unless --force is given."""
    Path("pgsluice.yaml").write_text("mine")
    code, _, err = run(capsys, "config", "new", "--non-interactive", "--target", "stdout")
    assert (code, Path("pgsluice.yaml").read_text()) == (2, "mine")
    assert "pgsluice.yaml exists already" in err
    assert run(capsys, "config", "new", "--non-interactive", "--target", "stdout", "--force")[0] == 0
    assert "stdout" in yaml.safe_load(Path("pgsluice.yaml").read_text())["target"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "duckbd"], "there is no target kind 'duckbd'. Did you mean duckdb?"),
        (["--target", "duckdb"], "not given: duckdb: path"),
        (["--target", "stdout", "--target-url", "x"], "the stdout target takes no --target-url"),
        (["--target-url", "x", "--name", "A B"], "name: should match pattern"),
        (["--target", "stdout", "--source-url", "hunter2"], "source.postgres.url: "),
        (["--target", "stdout", "--tables", "a b"], "'a b' is not a table pattern"),
    ],
)
def test_new_refuses_bad_answers(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Answers that could not be loaded are refused, and no file is written."""
    code, _, err = run(capsys, "config", "new", "--non-interactive", *arguments)
    assert code == 2
    assert message in err
    assert "hunter2" not in err
    assert not Path("pgsluice.yaml").exists()


def test_new_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """A place that can't be written to is one line."""
    code, _, err = run(capsys, "config", "new", "--non-interactive", "--target", "stdout", "none/a.yaml")
    assert code == 2
    assert err == "error SLUICE-MACHINE: none/a.yaml can't be written: No such file or directory\n"


def test_new_with_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole template can be had from the wheel, and loads."""
    assert run(capsys, "config", "new", "--all-keys", "full.yaml")[0] == 0
    assert load_config(Path("full.yaml"), {"SOURCE_URL": URL}, {}).name == "main"


def test_validate(capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration that is whole is said to be valid."""
    path = write(f"name: shop\nsource: {{postgres: {{url: '{URL}'}}}}\ntarget: {{duckdb: {{path: x}}}}")
    assert run(capsys, "validate", "config", "-c", path) == (
        0,
        "shop: postgres, snapshot_and_replication -> duckdb (exactly once): the configuration is valid\n",
        "",
    )
    assert run(capsys, "validate", "config", "-c", path, "--quiet") == (0, "", "")


def test_validate_lists_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem is a line, and the exit code is 2."""
    path = write("nme: x\nlog: {confirm: never}\nsource: {postgres: {url: 'hunter2'}}")
    code, out, err = run(capsys, "validate", "config", "-c", path)
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "error SLUICE-CONFIG: 3 problems:"
    assert [line.split(":")[0].strip() for line in err.splitlines()[1:]] == [
        "log.confirm",
        "source.postgres.url",
        "nme",
    ]
    assert "hunter2" not in err
    assert "hunter2" not in run(capsys, "validate", "config", "-c", path, "--log-level", "debug")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target: {stdout: }", "no source is configured"),
        (f"source: {{postgres: {{url: '{URL}'}}}}", "no target is configured"),
        ("a: [", "a.yaml, line 1, column 5: not valid YAML"),
    ],
)
def test_validate_wants_a_whole_configuration(
    capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """No source, no target and bad YAML are each one line."""
    code, _, err = run(capsys, "validate", "config", "-c", write(text))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_the_commands_below_config() -> None:
    """All three are there."""
    assert list(get_command(app).commands) == ["show", "schema", "new"]  # type: ignore[attr-defined]
