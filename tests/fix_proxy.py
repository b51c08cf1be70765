"""A TCP proxy between a client and a server, to cut, delay, refuse and count."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fix_pg import Database


class Proxy:
    """Passes TCP on to ``target``, as long and as fast as the test says."""

    def __init__(self, target_port: int) -> None:
        self.delay = 0.0  # seconds before each piece from the server is passed on
        self.piece = 65536  # bytes passed on at once
        self.bytes_from_server = 0
        self.bytes_from_client = 0
        self.connections = 0
        self._target_port = target_port
        self._refusing = False
        self._left: int | None = None  # bytes from the server until the cut
        self._gather: tuple[bytes, bytes] | None = None
        self._gathering = False
        self.gathered: bytes | None = None  # the piece that was made of many
        self._lose: tuple[bytes, Callable[[int], bool]] | None = None
        self._losing = False
        self.said = 0  # how often the client has said what has its answers lost
        self.lost = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, reset: bool = False) -> None:
        """Close every connection now; with ``reset`` the peers see RST instead of an orderly end."""
        with self._lock:
            victims, self._open = self._open, set()
        for victim in victims:
            _close(victim, reset=reset)

    def cut_after(self, count: int) -> None:
        """Close every connection once the server has sent ``count`` more bytes, wherever that is."""
        with self._lock:
            self._left = count

    def gather(self, *, after: bytes, until: bytes) -> None:
        """Once the client has said ``after``, hold what the server sends until ``until``: one piece."""
        self._gather = after, until

    def lose_answers(self, to: bytes, when: Callable[[int], bool]) -> None:
        """Cut every connection instead of passing the answer on, at the n-th time that the client says so."""
        self._lose = to, when

    def refuse(self) -> None:
        """Cut every connection and close new ones at once."""
        self._refusing = True
        self.cut()

    def accept(self) -> None:
        """Let connections through again."""
        self._refusing = False

    def close(self) -> None:
        """Stop."""
        self._refusing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _close(client, reset=True)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                _close(client, reset=True)
                continue
            self.connections += 1
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, here: socket.socket, there: socket.socket, from_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(self.piece):
                if self._gather is not None:
                    data = self._gathered(here, data, from_server)
                if self._lose is not None and self._is_lost(data, from_server):
                    self.cut()
                    return
                if from_server and self.delay:
                    time.sleep(self.delay)
                data, last = self._count(data, from_server)
                there.sendall(data)
                if last:
                    self.cut()
                    return
        with self._lock:
            self._open -= {here, there}
        _close(here)
        _close(there)

    def _gathered(self, here: socket.socket, data: bytes, from_server: bool) -> bytes:
        assert self._gather is not None
        after, until = self._gather
        if not from_server:
            self._gathering |= after in data  # before it is passed on: the answer can only come later
        elif self._gathering:
            while until not in data:
                data += here.recv(self.piece)
            self.gathered, self._gather = data, None
        return data

    def _is_lost(self, data: bytes, from_server: bool) -> bool:
        assert self._lose is not None
        words, when = self._lose
        with self._lock:
            if from_server:
                lost, self._losing = self._losing, False
                self.lost += lost
                return lost
            if words in data:  # before it is passed on: the answer can only come later
                self.said += 1
                self._losing = when(self.said)
            return False

    def _count(self, data: bytes, from_server: bool) -> tuple[bytes, bool]:
        with self._lock:
            last = False
            if from_server and self._left is not None:
                data, self._left = data[: self._left], self._left - len(data)
                last = self._left <= 0
                self._left = None if last else self._left
            if from_server:
                self.bytes_from_server += len(data)
            else:
                self.bytes_from_client += len(data)
            return data, last


class DatabaseProxy(Proxy):
    """A proxy in front of a test's database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.server.port)
        self._database = database

    @property
    def url(self) -> str:
        """The database's URL, through the proxy."""
        return self._database.url.replace(f":{self._database.server.port}/", f":{self.port}/")


@pytest.fixture
def proxy(database: Database) -> Iterator[DatabaseProxy]:
    """A proxy in front of ``database``."""
    between = DatabaseProxy(database)
    yield between
    between.close()


def _close(victim: socket.socket, *, reset: bool = False) -> None:
    with contextlib.suppress(OSError):
        if reset:
            victim.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            victim.shutdown(socket.SHUT_RD)  # wakes the thread that reads: till then the peer is told nothing
        else:
            victim.shutdown(socket.SHUT_RDWR)
    victim.close()
