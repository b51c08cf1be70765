"""The stdout sink at the edges: a reader that goes away, large batches."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import OutputClosedError, TargetError
from pgsluice.sinks.stdout import StdoutSink
from pgsluice.testing.batches import Changes, LocalBatch, LocalStep, table

if TYPE_CHECKING:
    from pathlib import Path

ITEMS = table("public.items", {"id": "int8", "name": "text"}, key=["id"])

WRITER = """
import sys, types
from pgsluice.errors import OutputClosedError
from pgsluice.sinks import stdout
stdout._lines = lambda step, events: ("x" * 1000 for _ in range(10_000))
batch = types.SimpleNamespace(steps=[None])
try:
    stdout.StdoutSink().apply(batch)
except OutputClosedError as error:
    sys.exit(error.exit_code)
sys.exit(9)
"""


def test_reader_goes_away():
    """``| head -1`` ends the writer with exit code 0 and without a word, Python's own at its end included."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"x" * 1000 + b"\n"
    writer.stdout.close()
    _, complaints = writer.communicate(timeout=60)
    assert (complaints, writer.returncode) == (b"", 0)


def test_closed_output_is_a_clean_end():
    """The error is one of a target, with the exit code of success, and no reason to try again."""
    assert issubclass(OutputClosedError, TargetError)
    assert (OutputClosedError.exit_code, OutputClosedError.transient) == (0, False)


def test_output_that_is_no_file():
    """A reader that goes away is noticed also when the output has no descriptor."""

    class Closed(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    with pytest.raises(OutputClosedError):
        StdoutSink(Closed()).apply(LocalBatch(None, "one"))


@pytest.mark.spark
def test_large_batch_comes_in_order(spark, tmp_path: Path):
    """A batch of several partitions is written partition by partition."""
    changes = Changes()
    for number in range(2_000):
        changes.insert(ITEMS, str(number), "x")

    class Large(LocalStep):
        def frame(self):
            return super().frame().repartitionByRange(4, "seq").sortWithinPartitions("seq")

    output = io.BytesIO()
    StdoutSink(output).apply(LocalBatch(None, "one", [Large({1: ITEMS}, changes.rows(), small=False)]))
    assert [json.loads(line)["seq"] for line in output.getvalue().splitlines()] == list(range(1, 2_001))


@pytest.mark.spark
def test_bytes_are_utf8_whatever_the_locale(spark):
    """Lines are UTF-8 bytes; the locale of the terminal does not matter."""
    changes = Changes()
    changes.insert(ITEMS, "1", "€ 😀")
    output = io.BytesIO()
    StdoutSink(output).apply(changes.batch(start=None, end="one"))
    assert "€ 😀".encode() in output.getvalue()
    assert output.getvalue().endswith(b"}" + os.linesep.encode())
