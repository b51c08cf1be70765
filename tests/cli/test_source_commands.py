"""``init``, ``check`` and ``destroy`` as people call them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pgsluice.cli.main import main
from pgsluice.source.names import default_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.fixture
def shop(database: Database) -> Database:
    """Two tables, one of them without a key."""
    database.run("CREATE TABLE customer (id int PRIMARY KEY)", "CREATE TABLE audit (what text)")
    return database


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_init_and_destroy(shop: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """The words of each step, once and again."""
    name = default_name("main", shop.name)
    url = ("--source-url", shop.url)
    code, out, _ = run(capsys, "init", *url, "--dry-run")
    assert code == 0
    assert f"would make publication {name}" in out
    assert shop.rows("SELECT FROM pg_publication") == []
    code, out, _ = run(capsys, "init", *url)
    assert code == 0
    assert f"make slot {name}" in out
    assert "left out: public.audit (no primary key)" in out
    code, out, _ = run(capsys, "init", *url, "--json")
    assert code == 0
    assert json.loads(out)["changed"] is False
    assert json.loads(out)["tables"] == ["public.customer"]
    code, out, _ = run(capsys, "init", *url, "--keyless", "full")
    assert "set REPLICA IDENTITY FULL on public.audit" in out
    assert run(capsys, "init", *url, "--quiet")[1] == ""
    code, out, _ = run(capsys, "destroy", *url, "--dry-run")
    assert f"would drop slot {name}" in out
    code, out, _ = run(capsys, "destroy", *url)
    assert (code, "drop schema pgsluice" in out) == (0, True)
    assert run(capsys, "destroy", *url)[1] == "nothing to remove\n"


def test_what_is_refused_is_one_line(shop: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """Code, remedy, exit code 3, no stack trace and no password."""
    code, out, err = run(capsys, "init", "--source-url", shop.url, "--all-tables")
    assert (code, out) == (3, "")
    assert "SLUICE-UNSAFE-PUBLICATION" in err
    assert "public.audit" in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    bad = shop.url.replace(shop.server.password, "other-secret")
    code, _, err = run(capsys, "destroy", "--source-url", bad)
    assert (code, "SLUICE-SOURCE-REFUSED" in err, "other-secret" in err) == (3, True, False)
    assert err.count("\n") == 1


def test_check_of_a_source(shop: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 with warnings, 1 with errors; JSON has the same findings."""
    code, out, _ = run(capsys, "check", "--source-url", shop.url)
    assert code == 0
    assert "identity: public.audit is left out" in out
    assert "nothing stands in the way" in out
    code, out, _ = run(capsys, "check", "--source-url", shop.url, "--all-tables", "--json")
    assert code == 1
    found = json.loads(out)
    assert found["ok"] is False
    assert "unsafe-publication" in {finding["code"] for finding in found["findings"]}


def test_check_of_this_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a URL only this machine is looked at, and a missing Java is an error with its remedy."""
    code, out, _ = run(capsys, "check", "--json")
    assert code == 0
    assert {finding["code"] for finding in json.loads(out)["findings"]} == {
        "python",
        "java",
        "pyspark",
        "space",
    }
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    code, out, _ = run(capsys, "check")
    assert code == 1
    assert "error    java: JAVA_HOME is /no/such/java" in out


def test_destroy_leaves_nothing_of_ours_here(
    shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state directory goes when nobody else has put something there; what others put there stays."""
    state = tmp_path / "state"
    flags = ("--source-url", shop.url, "--state-dir", str(state))
    target = ("--target", "duckdb", "--target-url", str(tmp_path / "shop.duckdb"))
    for left in ([], ["notes.txt"]):
        assert run(capsys, "run", *flags, *target, "--init", "--once")[0] == 0
        assert (state / "copies").is_dir()
        for name in left:
            (state / name).touch()
        assert run(capsys, "destroy", *flags)[0] == 0
        assert [path.name for path in state.rglob("*")] == left
        (tmp_path / "shop.duckdb").unlink()
    assert state.exists()


def test_check_looks_at_the_targets(
    database: Database, target_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that can't be reached stands in the way of a run; files are made by it."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    for url, code in ((target_database.url, 0), ("postgresql://x:y@127.0.0.1:1/z", 1)):
        config = tmp_path / "config.yaml"
        config.write_text(
            f"state_dir: {tmp_path}/state\nsource: {{postgres: {{url: '{database.url}'}}}}\n"
            f"targets: [{{postgres: {{url: '{url}'}}}}, {{duckdb: {{path: {tmp_path}/x.duckdb}}}}]\n"
        )
        assert main(["check", "-c", str(config)]) == code
        said = capsys.readouterr().out
        assert ("error    target: target postgres:" in said) == bool(code)
        assert ("info     target: target postgres: it can be reached" in said) == (not code)


def test_config_shows_names_of_the_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mapping of sections is a value, too."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "source: {postgres: {url: 'postgresql://x@y/z'}}\n"
        "target: {postgres: {url: 'postgresql://x@y/w', tables: {public.orders: {target: sales.orders}}}}\n"
    )
    assert main(["config", "show", "-c", str(config)]) == 0
    assert '{"public.orders": {"target": "sales.orders"}}' in capsys.readouterr().out
