"""
A process of its own for command lines, one after the other, with statements between them.

It reads a plan: a list of steps, each with ``sql`` and ``url``, or with ``line``, ``code`` and where standard
output goes. At its end it writes down what memory sinks hold.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psycopg

from pgsluice.cli.main import main
from pgsluice.sinks.memory import MemoryStore


def run(line: list[str], output: str) -> int:
    """Run a command line; its standard output goes to a file."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(output).open("ab") as file:
        os.dup2(file.fileno(), 1)
        try:
            return main(line)
        except SystemExit as exc:
            return int(exc.code or 0)
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


def drive(plan: Path) -> None:
    """All steps."""
    for step in json.loads(plan.read_text()):
        if "sql" in step:
            with psycopg.connect(step["url"], autocommit=True) as conn:
                for statement in step["sql"]:
                    conn.execute(statement)
            continue
        code = run(step["line"], step["output"])
        if code != step["code"]:
            sys.exit(f"{step['line']} ended with {code}")
    store = MemoryStore.named("driven")
    held = {name: [list(row) for row in state.rows] for name, state in store.tables.items()}
    rows = store.rows().to_pylist()
    plan.with_name("memory.json").write_text(json.dumps({"tables": held, "rows": rows}, default=str))


if __name__ == "__main__":
    drive(Path(sys.argv[1]))
