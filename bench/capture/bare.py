"""
The bare loop, which everything is compared with: reading a slot and throwing away what comes.

It is the better of pg_recvlogical and of our own bulk reader (:mod:`bench.capture.bulk`).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.capture.scene import ROOT
from bench.harness import Sample, Usage, WrongResultError
from pgsluice.changelog.position import Lsn

if TYPE_CHECKING:
    from bench.capture.scene import DataSet, Scene


def bulk(scene: Scene, data: DataSet) -> Sample:
    """Rows per second of our own bulk reader."""
    found = _throw_away(scene, data)
    return Sample(
        data.changes / found["seconds"],
        Usage({"reader": found["cpu"]}, {"reader": found["peak"]}),
    )


def pg_recvlogical(scene: Scene, data: DataSet, end: Lsn) -> Sample:
    """Rows per second of pg_recvlogical into /dev/null, from its start to its exit."""
    with scene.slot_of(data) as slot:
        command = [
            str(scene.server.bin_dir / "pg_recvlogical"), "--start", "--no-loop", "--no-password",
            "-d", data.url, "-S", slot, "--endpos", str(end), "-f", "/dev/null",
            "-o", "proto_version=1", "-o", f"publication_names={data.publication}",
        ]  # fmt: skip
        before = _children()
        started = time.monotonic()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - started
        usage = Usage({"reader": _children() - before}, {})
        with scene.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
                (str(end), slot),
            ).fetchone()
    if row is None or not row[0]:
        raise WrongResultError(f"pg_recvlogical ended before {end}")
    return Sample(data.changes / seconds, usage)


def end_of(scene: Scene, data: DataSet) -> Lsn:
    """Where the last commit of a data set ends; reads it once, which also warms the server's files up."""
    return Lsn.parse(_throw_away(scene, data)["end"])


def _throw_away(scene: Scene, data: DataSet) -> dict[str, Any]:
    with scene.slot_of(data) as slot:
        wanted = {"url": data.url, "slot": slot, "publication": data.publication, "changes": data.changes}
        said = subprocess.run(
            [sys.executable, "-m", "bench.capture.bulk"],
            input=json.dumps(wanted) + "\n", stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(said.stdout)
    if found["changes"] != data.changes:
        raise WrongResultError(f"the bare loop saw {found['changes']} changes of {data.changes}")
    return found


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
