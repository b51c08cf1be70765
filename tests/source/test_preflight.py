"""Every finding of ``check``, provoked on real servers, and the errors that init makes of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.embedded import EmbeddedPostgres
from pgsluice.errors import (
    MissingRightError,
    SourceError,
    SourceUnreachableError,
    UnsupportedServerError,
    WalLevelError,
)
from pgsluice.source.connect import connect
from pgsluice.source.install import InitOptions, init
from pgsluice.source.preflight import check_source
from pgsluice.source.selection import Selection
from tests.fix_pg import Database, drop_database
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.source.finding import Finding


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may replicate and prepare this database, and owns nothing."""
    name = f"r_{database.name}"
    database.run(
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {database.name} TO {name}",
    )
    yield name
    database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def by_code(findings: list[Finding]) -> dict[str, Finding]:
    """Findings by their code."""
    return {finding.code: finding for finding in findings}


@pytest.mark.both_versions
def test_a_good_source_has_no_errors(database: Database) -> None:
    """Nothing worse than advice about a limit on WAL."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    assert {f.code for f in check_source(database.url)} == {"wal-keep"}


def test_what_is_never_in_the_stream(database: Database) -> None:
    """Large objects, unlogged and foreign tables, materialized views and sequences are named."""
    database.run(
        "SELECT lo_create(0)",
        "CREATE UNLOGGED TABLE cache (id int PRIMARY KEY)",
        "CREATE FOREIGN DATA WRAPPER fdw",
        "CREATE SERVER far FOREIGN DATA WRAPPER fdw",
        "CREATE FOREIGN TABLE abroad (id int) SERVER far",
        "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one",
        "CREATE TABLE t (id serial PRIMARY KEY)",
        "CREATE TABLE keyless (id int)",
    )
    found = by_code(check_source(database.url))
    assert found["unlogged-tables"].fields == {"tables": ["public.cache"]}
    assert found["foreign-tables"].fields == {"tables": ["public.abroad"]}
    assert found["materialized-views"].fields == {"views": ["public.mv"]}
    assert found["sequences"].fields == {"count": 1}
    assert found["identity"].fields == {"table": "public.keyless"}
    assert found["large-objects"].severity == "warning"
    database.run(found["identity"].remedy[found["identity"].remedy.index("ALTER TABLE") :])
    assert "identity" not in by_code(check_source(database.url))


def test_roles_are_never_in_the_stream(database: Database, role: str) -> None:
    """Roles that own something here are named, but not the one that connects."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    assert "roles" not in by_code(check_source(database.url))
    database.run(f"ALTER TABLE t OWNER TO {role}")
    found = by_code(check_source(database.url))["roles"]
    assert (found.severity, found.fields) == ("info", {"roles": [role]})
    assert "pg_dumpall --roles-only" in found.remedy
    assert "roles" not in by_code(check_source(database.url_as(role, "x")))


def test_patterns_without_tables(database: Database) -> None:
    """A pattern that matches nothing, and nothing to publish at all."""
    found = by_code(check_source(database.url, Selection(include=("nosuch",))))
    assert {"pattern", "no-tables"} <= found.keys()
    database.run("CREATE TABLE keyless (id int)")
    assert (
        by_code(check_source(database.url, Selection(scope="all")))["unsafe-publication"].severity == "error"
    )


def test_rights_one_by_one(database: Database, role: str) -> None:
    """Each missing right is named, and the SQL of its remedy mends it, until init works."""
    database.run(
        "CREATE SCHEMA app",
        "CREATE TABLE app.t (id int PRIMARY KEY)",
        f"REVOKE CREATE ON DATABASE {database.name} FROM {role}",
    )
    url = database.url_as(role, "x")
    for code in ("create-right", "select-right"):
        found = by_code(check_source(url))
        assert found[code].severity == "error"
        with pytest.raises(MissingRightError):
            init(url)
        database.run(found[code].remedy)
        assert code not in by_code(check_source(url))
    assert by_code(check_source(url))["ownership"].fields == {"tables": ["app.t"]}
    with pytest.raises(MissingRightError, match=r"does not own app\.t"):
        init(url)
    database.run(f"ALTER TABLE app.t OWNER TO {role}")
    assert init(url).tables == ("app.t",)
    database.run(f"ALTER ROLE {role} NOREPLICATION")
    finding = by_code(check_source(url))["replication-connection"]
    assert finding.remedy.endswith(f"ALTER ROLE {role} REPLICATION;")
    with pytest.raises(MissingRightError, match="may not replicate"):
        init(url)


def test_row_security_that_hides_rows(database: Database, role: str) -> None:
    """Tables whose policies would filter a copy are named, and BYPASSRLS mends it."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        f"GRANT SELECT ON t TO {role}",
        "CREATE PUBLICATION given FOR TABLE t",
    )
    url = database.url_as(role, "x")
    found = by_code(check_source(url, publication="given"))
    assert found["row-security"].fields == {"tables": ["public.t"]}
    database.run(found["row-security"].remedy)
    assert "row-security" not in by_code(check_source(url, publication="given"))
    assert init(url, InitOptions(publication="given")).tables == ("public.t",)


def test_a_given_publication_that_is_unsafe(database: Database) -> None:
    """It is used as it is, and the tables whose UPDATE fails already are named."""
    database.run("CREATE TABLE keyless (id int)", "CREATE PUBLICATION given FOR TABLE keyless")
    assert "its UPDATE fails" in by_code(check_source(database.url, publication="given"))["identity"].what


def test_prepared_transactions(database: Database) -> None:
    """An open prepared transaction would make the slot's creation wait."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    with database.connect() as conn:
        conn.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'old-one'")
        try:
            assert by_code(check_source(database.url))["prepared-transactions"].fields == {
                "transactions": ["old-one"]
            }
        finally:
            conn.execute("ROLLBACK PREPARED 'old-one'")


def test_sql_ascii(pg18: EmbeddedPostgres) -> None:
    """A warning while all text is ASCII, an error that names the table once it is not."""
    ascii_database = Database(f"ascii_{os.getpid()}", pg18)
    with psycopg.connect(pg18.url, autocommit=True) as admin:
        admin.execute(
            f"CREATE DATABASE {ascii_database.name} ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'"
        )
    try:
        ascii_database.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'plain')")
        assert by_code(check_source(ascii_database.url))["encoding"].severity == "warning"
        ascii_database.run(r"INSERT INTO t VALUES (2, E'caf\xe9')")
        found = by_code(check_source(ascii_database.url))["encoding"]
        assert (found.severity, found.fields) == ("error", {"tables": ["public.t"]})
    finally:
        drop_database(ascii_database)


def test_server_settings(reachable: Path) -> None:
    """wal_level, slots, senders, WAL limits, idle timeout and synchronous standbys, on one bad server."""
    settings = {
        "wal_level": "replica",
        "max_replication_slots": "0",
        "max_wal_senders": "0",
        "max_slot_wal_keep_size": "64MB",
        "idle_replication_slot_timeout": "1h",
        "synchronous_standby_names": "*",
    }
    with EmbeddedPostgres(reachable, settings) as server:
        found = by_code(check_source(server.url, failover=True))
        assert found["wal-level"].fields == {"wal_level": "replica"}
        assert {"slots", "senders", "replication-connection"} <= found.keys()
        assert found["wal-keep"].fields == {"megabytes": 64}
        assert found["idle-slot-timeout"].fields == {"seconds": 3600}
        assert found["synchronous-standby"].severity == "warning"
        assert found["failover"].severity == "warning"
        with pytest.raises(WalLevelError, match="wal_level is replica") as caught:
            init(server.url)
        assert "ALTER SYSTEM SET wal_level = logical" in caught.value.remedy


def test_slots_and_senders_that_are_used_up(reachable: Path) -> None:
    """The last slot or sender is somebody else's: named with the number, and init says so too."""
    settings = {"max_replication_slots": "1", "max_wal_senders": "1", "fsync": "off"}
    with EmbeddedPostgres(reachable, settings) as server:
        source = Database("postgres", server)
        source.run("CREATE TABLE t (id int PRIMARY KEY)")
        assert not {"slots", "senders"} & by_code(check_source(server.url)).keys()
        source.run("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
        with connect(server.url, replication=True):  # their sender
            found = by_code(check_source(server.url))
        assert (found["slots"].severity, found["slots"].fields) == ("error", {"used": 1})
        assert "max_replication_slots = 6" in found["slots"].remedy
        assert (found["senders"].severity, found["senders"].fields) == ("error", {"used": 1})
        assert "max_wal_senders = 6" in found["senders"].remedy
        with pytest.raises(SourceError, match="all 1 replication slots are in use"):
            init(server.url)
        assert "slots" not in by_code(check_source(server.url, slot="theirs"))  # it would be used


def test_failover_with_standbys_that_are_waited_for(database: Database) -> None:
    """With synchronized_standby_slots nothing stands in the way of a failover slot; without, it is said."""
    assert by_code(check_source(database.url, failover=True))["failover"].severity == "warning"
    slot = f"standby_{database.name}"
    database.run(
        f"SELECT pg_create_physical_replication_slot('{slot}')",
        f"ALTER SYSTEM SET synchronized_standby_slots = '{slot}'",
        "SELECT pg_reload_conf()",
    )
    try:
        wait_until(lambda: database.rows("SHOW synchronized_standby_slots") == [(slot,)])
        assert "failover" not in by_code(check_source(database.url, failover=True))
    finally:
        database.run(
            "ALTER SYSTEM RESET synchronized_standby_slots",
            "SELECT pg_reload_conf()",
            f"SELECT pg_drop_replication_slot('{slot}')",
        )


def test_a_standby(pg18: EmbeddedPostgres, reachable: Path) -> None:
    """A hot standby is refused, in which nothing can be made."""
    standby = EmbeddedPostgres(
        reachable, {"hot_standby": "on", "max_connections": "60", "max_prepared_transactions": "4"}
    )
    copy = [
        pg18.bin_dir / "pg_basebackup",
        "-d",
        pg18.url,
        "-D",
        standby.data_directory,
        "-R",
        "-X",
        "stream",
        "-c",
        "fast",
    ]
    subprocess.run(copy, check=True, capture_output=True)
    shutil.copy(pg18.directory / "password", reachable / "password")
    owner = pg18.data_directory.stat()
    for path in (reachable, *reachable.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    with standby:
        assert by_code(check_source(standby.url))["standby"].severity == "error"
        with pytest.raises(UnsupportedServerError, match="standby"):
            init(standby.url)


def test_failover_on_15(pg15: EmbeddedPostgres) -> None:
    """Asked for on a server that has none, it is an error."""
    assert by_code(check_source(pg15.url, failover=True))["failover"].severity == "error"


def test_an_unreachable_source_is_a_finding() -> None:
    """Check never raises for what it finds; init does."""
    url = "postgresql://u:secret@127.0.0.1:1/x"
    (finding,) = check_source(url)
    assert (finding.code, finding.severity) == ("connection", "error")
    assert "secret" not in str(finding.as_dict())
    with pytest.raises(SourceUnreachableError):
        init(url)
