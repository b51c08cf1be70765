"""
A private PostgreSQL server in a directory, for the demo and for tests.

It listens on 127.0.0.1 only, with a random password, and never outlives the process that started it:
it is stopped at exit, and a guard process stops it when we are killed. The programs come from the
wheel (:mod:`pgsluice.embedded.binaries`) or from any other installation.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
from typing import TYPE_CHECKING, Literal

from pgsluice.embedded.binaries import bundled_bin_dir, find_runner, reachable_bin_dir
from pgsluice.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

StopMode = Literal["smart", "fast", "immediate"]
"""As in pg_ctl: wait for clients, roll them back, or crash."""

DEFAULT_SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "fsync": "on",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # TCP only: paths of sockets are limited to about 100 characters
}

_START_TIMEOUT = 60  # seconds; crash recovery included
_PORT_ATTEMPTS = 5  # another process may take the free port between finding and using it

_GUARD = 'read -r _; exec "$0" stop -D "$1" -m immediate -s'
"""Waits on a pipe from us, which ends when we do, however that happens."""


class EmbeddedPostgres:
    """A PostgreSQL server of our own, whose data, log and password live in one directory."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        bin_dir: Path | None = None,
    ) -> None:
        self.directory = directory
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._given_bin_dir = bin_dir
        self._bin_dir: Path | None = None
        self._runner = find_runner()
        self._port = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._owner = 0  # pid of the process that started the server

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop("fast" if kind is None else "immediate")

    @property
    def data_directory(self) -> Path:
        """PGDATA."""
        return self.directory / "data"

    @property
    def server_log(self) -> Path:
        """What the server writes about itself."""
        return self.directory / "server.log"

    @property
    def bin_dir(self) -> Path:
        """The programs of this server's version: psql, pg_dump, pg_recvlogical, pgbench…"""
        if self._bin_dir is None:
            wanted = self._given_bin_dir or bundled_bin_dir()
            if not (wanted / "pg_ctl").exists():
                raise MachineError(
                    f"no PostgreSQL programs in {wanted}", remedy="Name the directory that has pg_ctl"
                )
            self._bin_dir = reachable_bin_dir(wanted, self._runner, self.directory / "installation")
        return self._bin_dir

    @property
    def port(self) -> int:
        """The TCP port; it stays the same over restarts."""
        if not self._port:
            raise MachineError("the embedded PostgreSQL has not been started")
        return self._port

    @property
    def password(self) -> str:
        """The password of the role ``postgres``."""
        return (self.directory / "password").read_text(encoding="ascii").strip()

    @property
    def url(self) -> str:
        """The connection URL of the database ``postgres``."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The connection URL of another database of this server."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        """Whether the server runs."""
        return self._pg("pg_ctl", "status", "-D", str(self.data_directory), check=False).returncode == 0

    def start(self) -> None:
        """Start the server, after making its data directory when there is none."""
        self._prepare()
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            port = self._port or _free_port()
            try:
                self._launch(port)
            except MachineError as exc:
                if self._port or not attempts_left or "port_taken" not in exc.fields:
                    raise
                continue
            self._port = port
            break
        self._owner = os.getpid()
        self._start_guard()
        atexit.register(self._stop_at_exit)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until it has; nothing happens when it does not run."""
        atexit.unregister(self._stop_at_exit)
        try:
            if self.data_directory.exists() and self.running:
                self._pg("pg_ctl", "stop", "-D", str(self.data_directory), "-m", mode, "-w", "-s")
        finally:
            self._end_guard()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again, on the same port."""
        self.stop(mode)
        self.start()

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._runner.can_reach(self.data_directory):
            if not self._runner.can_reach(self.directory):
                raise MachineError(
                    f"the server's system user can't reach {self.directory}",
                    remedy="Choose a directory that others than root may enter, below the temporary one",
                )
            self._runner.own(self.directory)
        if not (self.data_directory / "PG_VERSION").exists():
            self._make_cluster()
        lines = [
            f"{name} = '{value.replace(chr(39), 2 * chr(39))}'\n" for name, value in self.settings.items()
        ]
        (self.data_directory / "embedded.conf").write_text("".join(lines), encoding="utf-8")

    def _make_cluster(self) -> None:
        self._runner.own(self.directory)
        password = self.directory / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(18), encoding="ascii")
        self._runner.own(password)
        self._pg(
            "initdb", "-D", str(self.data_directory), "-U", "postgres", "--auth=scram-sha-256",
            f"--pwfile={password}", "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        # An included file, not command line options: ALTER SYSTEM wins over it, as people expect.
        with (self.data_directory / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write("\ninclude_if_exists 'embedded.conf'\n")

    def _launch(self, port: int) -> None:
        log = self.server_log
        log.touch(mode=0o600)
        self._runner.own(log)
        before = log.stat().st_size
        started = self._pg(
            "pg_ctl", "start", "-D", str(self.data_directory), "-l", str(log), "-w", "-s",
            "-t", str(_START_TIMEOUT), "-o", f"-p {port}", check=False,
        )  # fmt: skip
        if started.returncode != 0:
            with log.open(encoding="utf-8", errors="replace") as lines:
                lines.seek(before)
                said = lines.read()
            taken = {"port_taken": port} if "could not bind" in said else {}
            raise MachineError(
                f"the embedded PostgreSQL did not start: {_last_problem(said)}",
                remedy=f"See {log}",
                **taken,
            )

    def _pg(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        try:
            # Output goes to a file, not a pipe: the server inherits it and would keep a pipe open.
            with (self.directory / f"{program}.out").open("w+", encoding="utf-8", errors="replace") as out:
                done = subprocess.run(
                    [str(self.bin_dir / program), *arguments],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=_environment(),
                    check=False,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for us: the pipeline stops before its source does
                    **self._runner.popen_options(),
                )
                out.seek(0)
                said = out.read()
        except OSError as exc:
            raise MachineError(f"{program} could not be run: {exc.strerror}") from exc
        if check and done.returncode != 0:
            raise MachineError(f"{program} failed: {_last_problem(said)}", remedy=f"See {self.server_log}")
        return done

    def _start_guard(self) -> None:
        self._end_guard()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(self.bin_dir / "pg_ctl"), str(self.data_directory)],
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
            **self._runner.popen_options(),
        )

    def _end_guard(self) -> None:
        if self._guard is None:
            return
        guard, self._guard = self._guard, None
        guard.kill()
        guard.wait()
        if guard.stdin:
            guard.stdin.close()

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner:  # a forked child ends without taking the server along
            with contextlib.suppress(MachineError):
                self.stop("fast")


def _environment() -> dict[str, str]:
    """Ours without libpq's variables, and with messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _last_problem(said: str) -> str:
    """The line that tells most: the last fatal one, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "PANIC" in line or "error:" in line]
    return (telling or lines or ["it said nothing"])[-1]
