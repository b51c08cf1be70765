"""The embedded server: starts, restarts, keeps to itself and does not outlive its owner."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from pgsluice.embedded import EmbeddedPostgres, binaries
from pgsluice.errors import MachineError, NotInstalledError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the server's system user can reach."""
    with tempfile.TemporaryDirectory(prefix="pgsluice-test-") as name:
        yield Path(name)


def test_life_of_a_server(directory: Path) -> None:
    """Data, port and password survive a crash, settings are applied, and nothing runs afterwards."""
    server = EmbeddedPostgres(directory, {"work_mem": "5MB", "application_name": "it's"})
    with server:
        url = server.url
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 1 AS n")
            assert conn.execute("SHOW work_mem").fetchone() == ("5MB",)
            assert conn.execute("SHOW wal_level").fetchone() == ("logical",)
            conn.execute("ALTER SYSTEM SET work_mem = '6MB'")
        server.restart("immediate")
        assert server.url == url
        with psycopg.connect(url) as conn:
            assert conn.execute("SELECT n, current_setting('work_mem') FROM kept").fetchone() == (1, "6MB")
            assert conn.info.server_version >= 180000
    assert not server.running
    again = EmbeddedPostgres(directory)
    with again, psycopg.connect(again.url) as conn:
        assert conn.execute("SELECT n FROM kept").fetchone() == (1,)


def test_it_listens_on_loopback_only_and_wants_the_password(pg18: EmbeddedPostgres) -> None:
    """No other address, no socket file, and no way in without the password."""
    pid = int((pg18.data_directory / "postmaster.pid").read_text().split()[0])
    listening = {c.laddr.ip for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(pg18.url.replace(pg18.password, "wrong"))


def test_it_does_not_outlive_a_killed_owner(directory: Path) -> None:
    """The guard stops the server when the owner is killed outright."""
    code = (
        "import sys, time; from pathlib import Path; from pgsluice.embedded import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(Path(sys.argv[1])); server.start()\n"
        "print('up', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        postmaster = psutil.Process(int((directory / "data" / "postmaster.pid").read_text().split()[0]))
        owner.send_signal(signal.SIGKILL)
    postmaster.wait(timeout=120)
    deadline = time.monotonic() + 120  # the guard's pg_ctl ends a moment after the server
    while EmbeddedPostgres(directory).running and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not postmaster.is_running()


def test_a_bad_setting_is_one_clear_error(directory: Path) -> None:
    """The server's own complaint is in the message, and nothing is left running."""
    server = EmbeddedPostgres(directory, {"no_such_setting": "1"})
    with pytest.raises(MachineError, match=r"no_such_setting|configuration file"):
        server.start()
    assert not server.running


def test_a_missing_wheel_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the remedy is the pip line."""
    monkeypatch.setattr(binaries, "_WHEEL", "no_such_wheel_here")
    with pytest.raises(NotInstalledError, match=r"pip install 'pgsluice\[demo\]'"):
        binaries.bundled_bin_dir()


def test_unreachable_programs_are_copied(tmp_path: Path) -> None:
    """Programs in a directory that the runner may not enter are used from a copy."""
    hidden = tmp_path / "hidden"
    (hidden / "bin").mkdir(parents=True)
    (hidden / "bin" / "postgres").write_text("x")
    hidden.chmod(0o700)
    stranger = binaries.Runner(uid=65533, gid=65533, foreign=True)
    spare = tmp_path / "spare"
    assert binaries.reachable_bin_dir(hidden / "bin", stranger, spare) == spare / "bin"
    assert (spare / "bin" / "postgres").read_text() == "x"
    ourselves = binaries.Runner(uid=0, gid=0, foreign=False)
    assert binaries.reachable_bin_dir(hidden / "bin", ourselves, spare) == hidden / "bin"


@pytest.mark.both_versions
def test_databases_are_fresh(database: Database) -> None:
    """Each test gets an empty database on the asked server."""
    assert database.rows("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


def test_the_proxy_counts_cuts_and_refuses(proxy: DatabaseProxy) -> None:
    """A query passes; a cut in mid-frame, a delay and a refusal do what they say."""
    with psycopg.connect(proxy.url) as conn:
        assert conn.execute("SELECT repeat('x', 1000)").fetchone() == ("x" * 1000,)
        assert proxy.bytes_from_server > 1000
        assert proxy.bytes_from_client > 0
        proxy.delay = 0.2
        began = time.monotonic()
        conn.execute("SELECT 1")
        assert time.monotonic() - began >= 0.2
        proxy.delay = 0
        before = proxy.bytes_from_server
        proxy.cut_after(500)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("SELECT repeat('x', 100000)")
        assert proxy.bytes_from_server == before + 500
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(proxy.url)
    proxy.accept()
    with psycopg.connect(proxy.url) as conn:
        proxy.cut(reset=True)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("SELECT 1")
