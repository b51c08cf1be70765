"""Connections: the same session settings everywhere, and one clear error for each refusal."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import (
    ConfigError,
    MissingRightError,
    PoolerError,
    SourceError,
    SourceRefusedError,
    SourceUnreachableError,
)
from pgsluice.postgres.address import parse_url, safe_url
from pgsluice.source.connect import connect, identify, source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy

PINNED = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",
    "quote_all_identifiers": "off",
    "client_min_messages": "warning",
}
AWKWARD = "-c DateStyle=German -c IntervalStyle=iso_8601 -c work_mem=7MB"


@pytest.fixture
def joe(database: Database) -> Iterator[str]:
    """A role that may log in and nothing else."""
    name = f"joe_{database.name}"
    database.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret-of-joe'")
    yield name
    database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.mark.both_versions
@pytest.mark.parametrize("replication", [False, True])
def test_settings_are_pinned_over_everybody_elses(
    database: Database, monkeypatch: pytest.MonkeyPatch, replication: bool
) -> None:
    """Settings of role, database, PGOPTIONS and URL lose against ours, and other settings are kept."""
    database.run(
        f"ALTER DATABASE {database.name} SET TimeZone = 'Asia/Tokyo'",
        f"ALTER ROLE postgres IN DATABASE {database.name} SET bytea_output = 'escape'",
        f"ALTER ROLE postgres IN DATABASE {database.name} SET extra_float_digits = -5",
        f"ALTER DATABASE {database.name} SET quote_all_identifiers = on",
        f"ALTER DATABASE {database.name} SET lc_monetary = 'C.UTF-8'",
        f"ALTER DATABASE {database.name} SET search_path = public",
        f"ALTER DATABASE {database.name} SET client_min_messages = error",
    )
    urls = [f"{database.url}?options={quote(AWKWARD)}", database.url]
    monkeypatch.setenv("PGOPTIONS", AWKWARD)
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    for url in urls:
        with connect(url, replication=replication) as conn:
            shown = {name: conn.execute(f"SHOW {name}").fetchone() for name in PINNED}
            assert shown == {name: (value,) for name, value in PINNED.items()}
            assert conn.execute("SHOW work_mem").fetchone() == ("7MB",)
            assert conn.execute("SHOW client_encoding").fetchone() == ("UTF8",)
            assert conn.autocommit


@pytest.mark.both_versions
def test_both_kinds_of_connection_identify_the_same_server(database: Database) -> None:
    """System, timeline, version and database agree."""
    with connect(database.url) as plain, connect(database.url, replication=True) as sender:
        assert identify(plain) == identify(sender)
        assert identify(plain).timeline == 1
        assert identify(plain).database == database.name


def test_libpq_variables_and_password_file(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An empty URL means the PG* variables, with the password from .pgpass, and a service works too."""
    passfile, services = tmp_path / "pgpass", tmp_path / "services"
    passfile.write_text(f"127.0.0.1:*:*:postgres:{database.server.password}\n")
    passfile.chmod(0o600)
    services.write_text(
        f"[shop]\nhost=127.0.0.1\nport={database.server.port}\ndbname={database.name}\nuser=postgres\n"
    )
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with connect("service=shop") as conn:
        assert conn.info.dbname == database.name
    values = {"PGHOST": "127.0.0.1", "PGPORT": str(database.server.port), "PGUSER": "postgres"}
    for name, value in {**values, "PGDATABASE": database.name}.items():
        monkeypatch.setenv(name, value)
    with connect("") as conn:
        assert conn.info.dbname == database.name
    assert database.name in safe_url("")


def test_refusals_are_distinct_and_keep_the_password(database: Database, joe: str) -> None:
    """Each refusal has its class, a remedy, and no password in it."""
    url = database.url_as(joe, "secret-of-joe")
    closed = _closed_port()
    cases: list[tuple[str, bool, type[SourceError], str]] = [
        (
            url.replace("secret-of-joe", "other-secret"),
            False,
            SourceRefusedError,
            "wrong or missing password",
        ),
        (url.replace(":secret-of-joe", ""), False, SourceRefusedError, "wrong or missing password"),
        (database.server.url_of("no_such_db"), False, SourceRefusedError, "no such database"),
        (url, True, MissingRightError, f"ALTER ROLE {joe} REPLICATION"),
        (
            f"postgresql://u:other-secret@127.0.0.1:{closed}/x",
            False,
            SourceUnreachableError,
            "Connection refused",
        ),
        ("postgresql://u:other-secret@no.such.host.invalid/x", False, SourceUnreachableError, "unknown"),
        (f"{url}?sslmode=require", False, SourceRefusedError, "TLS with"),
        (f"{url}?sslmode=verify-full&sslrootcert=/no/such.crt", False, SourceRefusedError, "TLS with"),
    ]
    for address, replication, kind, words in cases:
        with pytest.raises(kind) as caught:
            connect(address, replication=replication)
        assert type(caught.value) is kind
        assert words in str(caught.value)
        assert caught.value.remedy
        assert "\n" not in str(caught.value)
        assert "secret-of-joe" not in str(caught.value)
        assert "other-secret" not in str(caught.value)


def test_pg_hba_and_connection_limits_are_named(database: Database, joe: str) -> None:
    """A missing pg_hba.conf line and a full server are told from a wrong password."""
    hba = database.server.data_directory / "pg_hba.conf"
    before = hba.read_text()
    try:
        hba.write_text(f"host {database.name} {joe} 127.0.0.1/32 reject\n" + before)
        database.run("SELECT pg_reload_conf()")
        with pytest.raises(SourceRefusedError, match=r"pg_hba\.conf") as caught:
            _until_refused(database.url_as(joe, "secret-of-joe"))
        assert f"host {database.name} {joe}" in caught.value.remedy
    finally:
        hba.write_text(before)
        database.run("SELECT pg_reload_conf()")


def test_a_pooler_is_recognized(database: Database) -> None:
    """What PgBouncer answers to a replication connection is an error of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answer = b"SFATAL\0C08P01\0Munsupported startup parameter: replication\0\0"
        thread = threading.Thread(target=_answer, args=(listener, answer))
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(PoolerError, match="pooler"):
            connect(
                f"postgresql://u:p@127.0.0.1:{port}/x?sslmode=disable&gssencmode=disable", replication=True
            )
        thread.join()


def test_a_broken_connection_is_transient(proxy: DatabaseProxy) -> None:
    """A connection cut in mid-statement is SourceUnreachableError, which says that trying again may help."""
    with connect(proxy.url) as conn:
        proxy.cut()
        with (
            pytest.raises(SourceUnreachableError, match="broke") as caught,
            source_errors(proxy.url, "count"),
        ):
            conn.execute("SELECT 1")
    assert caught.value.transient


def test_a_connection_that_dies_while_being_opened_may_be_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the login and the session settings is a moment too, and a restart can fall into it."""
    opens = psycopg.connect

    def opens_and_dies(**parameters: object) -> psycopg.Connection[tuple[object, ...]]:
        monkeypatch.undo()
        conn = opens(**parameters)  # type: ignore[arg-type]
        database.run(f"SELECT pg_terminate_backend({conn.info.backend_pid}, 5000)")
        return conn

    monkeypatch.setattr(psycopg, "connect", opens_and_dies)
    with pytest.raises(SourceUnreachableError) as caught:
        connect(database.url)
    assert caught.value.transient
    assert "\n" not in str(caught.value)


def test_a_timeout_is_short(proxy: DatabaseProxy) -> None:
    """A server that accepts and says nothing is given up after connect_timeout."""
    proxy.delay = 30
    with pytest.raises(SourceUnreachableError):
        connect(proxy.url, connect_timeout=2)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:pa@ss@h/d",
        "postgresql://u:pa/ss@h/d",
        "postgresql://u:p@h:x/d",
        "postgresql://u:p@h/d?no=1",
        "nonsense",
    ],
)
def test_unreadable_urls_are_refused_without_their_secrets(url: str) -> None:
    """Libpq's own message would quote parts of the password."""
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert "ss" not in caught.value.message.replace("password", "")
    assert caught.value.remedy
    assert safe_url(url) == "the source"


@given(st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=6, max_size=20))
def test_safe_url_never_shows_the_password(password: str) -> None:
    """Whatever the password is, in both forms of connection strings."""
    password = f"<{password}>"
    uri = f"postgresql://app:{quote(password, safe='')}@db.example:5432/shop"
    escaped = password.replace("\\", "\\\\").replace("'", "\\'")
    pairs = f"user=app password='{escaped}' host=db.example port=5432 dbname=shop"
    assert psycopg.conninfo.conninfo_to_dict(uri)["password"] == password
    for url in (uri, pairs):
        assert safe_url(url) == "postgresql://app:***@db.example:5432/shop"


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until_refused(url: str) -> None:
    for _ in range(100):  # the server reads pg_hba.conf again a moment after the signal
        connect(url).close()


def _answer(listener: socket.socket, body: bytes) -> None:
    client, _ = listener.accept()
    with client:
        client.recv(4096)
        client.sendall(b"E" + (len(body) + 4).to_bytes(4) + body)
