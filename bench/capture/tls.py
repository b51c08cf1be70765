"""
The listener over TLS, shown beside figure 1 without a bar.

The bundled PostgreSQL is built without TLS, so this takes a server of the system that can do it, with a
certificate made on the spot; the bare loop of the comparison runs on the same server, without TLS.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.capture import bare
from bench.capture.scene import scene as open_scene
from bench.harness import Figure, Sample, figure, median

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.capture.scene import Scene
    from bench.harness import Options

_SYSTEM_SERVERS: Final = "/usr/lib/postgresql"
_NAME: Final = "listener -> log, TLS"


def measure(options: Options) -> Iterator[Figure]:
    """Rate and CPU over TLS, or one line that says why there is none."""
    bin_dir = _server_with_tls()
    if bin_dir is None or shutil.which("openssl") is None:
        yield Figure(_NAME, float("nan"), "rows/s", note="skipped: needs openssl and a PostgreSQL with TLS")
        return
    with open_scene(options, bin_dir=bin_dir) as scene:
        _switch_on(scene)
        yield from _figures(scene)


def _figures(scene: Scene) -> Iterator[Figure]:
    from bench.capture.listener import listen

    data = scene.inserts
    end = bare.end_of(scene, data)
    url = scene.url.replace("sslmode=disable", "sslmode=require")
    bulk, listener = [], []
    for _ in range(scene.options.repetitions):
        bulk.append(bare.bulk(scene, data))
        listener.append(listen(scene, data, end, url=url))
    with scene.connect() as connection:
        version = connection.info.server_version // 10000
    note = f"PostgreSQL {version}; bare loop there, without TLS: {median(bulk):,.0f} rows/s"
    yield figure(_NAME, "rows/s", listener, reference=bulk, note=note)
    cpu = [Sample(sample.usage.cpu * 1_000_000 / data.changes) for sample in listener]
    yield figure(f"{_NAME}, CPU per 1 M rows", "s", cpu)


def _server_with_tls() -> Path | None:
    """The newest server of the system, as Debian lays them out, that was built with TLS."""
    found = sorted(Path(_SYSTEM_SERVERS).glob("*/bin/pg_config"), reverse=True)
    for program in found:
        said = subprocess.run([str(program), "--configure"], capture_output=True, text=True, check=False)
        if "ssl" in said.stdout:
            return program.parent
    return None


def _switch_on(scene: Scene) -> None:
    """A certificate of our own, for this server alone."""
    key, certificate = scene.directory / "server" / "server.key", scene.directory / "server" / "server.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    owner = scene.server.data_directory.stat()
    for path in (key, certificate):
        path.chmod(0o600)
        shutil.chown(path, owner.st_uid, owner.st_gid)
    with scene.connect() as connection:
        _set(connection, "ssl_key_file", str(key))
        _set(connection, "ssl_cert_file", str(certificate))
        _set(connection, "ssl", "on")
        connection.execute("SELECT pg_reload_conf()")
    _wait_for_tls(scene)


def _set(connection: Any, name: str, value: str) -> None:
    connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")


def _wait_for_tls(scene: Scene) -> None:
    with scene.connect() as connection:
        for _ in range(100):
            row = connection.execute("SELECT current_setting('ssl'), pg_sleep(0.05)").fetchone()
            if row is not None and row[0] == "on":
                return
    raise RuntimeError("the server did not switch TLS on")
