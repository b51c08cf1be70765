"""What stops a run into PostgreSQL that refuses rows: the line that people see says where, and no value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pgsluice.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

SECRET = "secret4111"


@pytest.fixture
def url(target_database: Database) -> Iterator[str]:
    """The target as a role that is no superuser, and switches triggers off."""
    role = f"writer_{target_database.name}"
    target_database.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {target_database.name} TO {role}",
        f"GRANT CREATE ON SCHEMA public TO {role}",
        f"GRANT SET ON PARAMETER session_replication_role TO {role}",
    )
    yield target_database.url_as(role, "x")
    target_database.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


REFUSING = {
    "permission": (
        "REVOKE INSERT ON item FROM {role}",
        "GRANT INSERT ON item TO {role}",
        "Grant it the right",
    ),
    "type": (
        "ALTER TABLE item ALTER code TYPE int USING NULL",
        "ALTER TABLE item ALTER code TYPE text",
        "Make the target's table as the source's is",
    ),
    "check": (
        "ALTER TABLE item ADD CONSTRAINT luck CHECK (n <> 13) NOT VALID",
        "ALTER TABLE item DROP CONSTRAINT luck",
        "Make the target's table as the source's is",
    ),
}


def test_where_and_what_to_do(
    database: Database,
    target_database: Database,
    url: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A missing right, another type, a rule: table, position, column and remedy; mended, it goes on."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int, code text)", "INSERT INTO item VALUES (1, 1, NULL)"
    )
    where = ["--source-url", database.url, "--target", "postgres", "--target-url", url]
    run = ["run", *where, "--state-dir", str(tmp_path / "state"), "--init", "--once"]
    assert main(run) == 0
    role = f"writer_{target_database.name}"
    for number, (kind, (refuse, mend, remedy)) in enumerate(REFUSING.items(), 2):
        target_database.run(refuse.format(role=role))
        database.run(
            "BEGIN; UPDATE item SET n = n + 20 WHERE id = 1;"
            f" INSERT INTO item VALUES ({number}, 13, '{SECRET}'); COMMIT"
        )
        capfd.readouterr()
        assert main(run) == 4, kind
        said = capfd.readouterr().err
        print(said)
        (line,) = [each for each in said.splitlines() if each.startswith("error SLUICE-")]
        assert "public.item" in line
        assert remedy in line
        assert re.search(r"change \d+ of .*[0-9A-F]+/[0-9A-F]+", line), line
        assert SECRET not in said
        assert "Traceback" not in said
        if kind == "type":
            assert "column 'code'" in line
        if kind == "check":
            assert "luck" in line
        target_database.run(mend.format(role=role))
    assert main(run) == 0
    rows = "SELECT id, n, code FROM item ORDER BY id"
    assert target_database.rows(rows) == database.rows(rows)
