"""Over TLS: the server's certificate is verified, the client's own is sent, and the same rows arrive."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.changelog.position import Lsn
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.errors import SourceError
from pgsluice.source.connect import connect
from pgsluice.source.listener import ListenerOptions
from pgsluice.source.replication import _LibpqStream, start
from tests.fix_pg import DEBIAN_15
from tests.source.listening import listening
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Secured:
    """A server that takes TLS with a client's certificate only."""

    def __init__(self, server: EmbeddedPostgres, certificates: Path) -> None:
        self.server = server
        self.certificates = certificates

    def url(self, host: str = "127.0.0.1") -> str:
        """Verified both ways, without a password."""
        files = self.certificates
        return (
            f"postgresql://postgres@{host}:{self.server.port}/postgres?sslmode=verify-full"
            f"&sslrootcert={files}/ca.crt&sslcert={files}/client.crt&sslkey={files}/client.key"
        )


def openssl(*arguments: str) -> None:
    """Run openssl."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(place: Path) -> None:
    """An authority, a server for 127.0.0.1 only, and a client named postgres."""
    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority",
        "-keyout", str(place / "ca.key"), "-out", str(place / "ca.crt"),
    )  # fmt: skip
    (place / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name, subject in (("server", "/CN=server"), ("client", "/CN=postgres")):
        openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject,
            "-keyout", str(place / f"{name}.key"), "-out", str(place / f"{name}.csr"),
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", str(place / f"{name}.csr"), "-CA", str(place / "ca.crt"),
            "-CAkey", str(place / "ca.key"), "-CAcreateserial", "-days", "2",
            "-extfile", str(place / "names"), "-out", str(place / f"{name}.crt"),
        )  # fmt: skip
        (place / f"{name}.key").chmod(0o600)


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Debian's server: the bundled one is built without TLS."""
    place = Path(tempfile.mkdtemp(prefix="pgsluice-tls-"))
    place.chmod(0o755)
    certificates = place / "certificates"
    certificates.mkdir()
    make_certificates(certificates)
    with EmbeddedPostgres(place / "pg", bin_dir=DEBIAN_15) as server:
        owner = server.data_directory.stat()
        for name in ("server.key", "server.crt", "ca.crt"):
            shutil.copy(certificates / name, server.data_directory / name)
            shutil.chown(server.data_directory / name, owner.st_uid, owner.st_gid)
            (server.data_directory / name).chmod(0o600)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
        (server.data_directory / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 cert\n")
        server.restart("fast")
        yield Secured(server, certificates)
    shutil.rmtree(place, ignore_errors=True)


def test_rows_arrive_over_tls(secured: Secured, tmp_path: Path) -> None:
    """verify-full and a client certificate, in the plain connection and in the replication one."""
    with connect(secured.url()) as connection:
        assert connection.pgconn.ssl_in_use
        connection.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
        connection.execute("CREATE PUBLICATION p FOR TABLE public.t")
        connection.execute("SELECT pg_create_logical_replication_slot('tls', 'pgoutput')")
        with listening(ListenerOptions(secured.url(), "tls", ("p",), tmp_path / "log", 1 << 30)) as live:
            many = "generate_series(1, 20000) g"
            connection.execute(f"INSERT INTO public.t SELECT g, repeat('v', 300) FROM {many}")
            connection.execute("INSERT INTO public.t VALUES (0, repeat('large', 1000000))")
            end = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            assert end is not None
            found = rows_of(live.wait_for(Lsn.parse(end[0])))
    assert [row["values"][0] for row in found] == [*map(str, range(1, 20001)), "0"]
    assert len(found[-1]["values"][1]) == 5_000_000
    print(f"compared {len(found)} rows over TLS")


def test_an_encrypted_connection_is_left_to_libpq(secured: Secured) -> None:
    """The socket is read in bulk only without encryption: what it carries with TLS is not ours to read."""
    with connect(secured.url()) as connection:
        connection.execute("CREATE PUBLICATION q")
        connection.execute("SELECT pg_create_logical_replication_slot('left', 'pgoutput')")
    stream = start(connect(secured.url(), replication=True), "left", ("q",), Lsn(0))
    try:
        assert isinstance(stream, _LibpqStream)
    finally:
        stream.close()


def test_a_server_by_another_name_is_refused(secured: Secured) -> None:
    """The certificate names an address; a name that it does not have is an error with a remedy."""
    with pytest.raises(SourceError, match=r"(?i)certificate"):
        connect(secured.url("localhost"))
