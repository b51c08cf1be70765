"""libpq's own ways to name a server, through a whole run: its catalog and its replication connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice.cli.main import main
from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fix_pg import Database

    Way = Callable[[Database, Path], tuple[str | None, dict[str, str]]]
    # Sets files up; gives a URL, or none, and variables.


def by_variables(database: Database, home: Path) -> tuple[str | None, dict[str, str]]:
    """PG* variables alone."""
    server = {"PGHOST": "127.0.0.1", "PGPORT": str(database.server.port), "PGDATABASE": database.name}
    return None, server | {"PGUSER": "postgres", "PGPASSWORD": database.server.password}


def by_password_file(database: Database, home: Path) -> tuple[str | None, dict[str, str]]:
    """A URL without a password, which is in .pgpass."""
    file = home / ".pgpass"
    file.write_text(f"127.0.0.1:{database.server.port}:*:postgres:{database.server.password}\n")
    file.chmod(0o600)
    return f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}", {}


def by_service(database: Database, home: Path) -> tuple[str | None, dict[str, str]]:
    """A name of the service file."""
    (home / ".pg_service.conf").write_text(
        f"[shop]\nhost=127.0.0.1\nport={database.server.port}\ndbname={database.name}\n"
        f"user=postgres\npassword={database.server.password}\n"
    )
    return "service=shop", {}


@pytest.mark.parametrize("way", [by_variables, by_password_file, by_service], ids=lambda way: way.__name__)
def test_a_run_finds_its_server(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """Prepared, listened to and applied, with nothing but what libpq finds by itself."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    monkeypatch.setenv("HOME", str(tmp_path))
    url, variables = way(database, tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main([*to_duckdb(tmp_path, url), "--once"]) == 0
    database.run("INSERT INTO item VALUES (1)")
    assert main([*to_duckdb(tmp_path, url), "--once"]) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb")) as target:
        assert target.execute("FROM public.item").fetchall() == [(1,)]
