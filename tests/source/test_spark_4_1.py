"""PySpark 4.1, which lacks the control over batches that 4.2 has: it works, and what is missing is said."""

from __future__ import annotations

import json
import subprocess
import sys

from pgsluice.changelog.envelope import ENVELOPE

PROGRAM = """
import json
import sys
import pyspark.sql.datasource  # needs the module itself
sys.modules["pyspark.sql.streaming.datasource"] = None  # as in 4.1: there is no such module
import pgsluice.spark
from pgsluice.observability.logs import configure
from pgsluice.pipeline.session import SparkOptions, start_session
from pgsluice.source.spark import ADMISSION_CONTROL

configure("info", "json")
spark = start_session(SparkOptions(master="local[1]"))
pgsluice.spark.register(spark)
print(json.dumps([ADMISSION_CONTROL, spark.read.format("pgsluice").option("log", "x").load().columns]))
spark.stop()
"""


def test_what_is_lacking_is_said() -> None:
    """Registering works, and the warning names what has no effect and how to get it."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [False, ENVELOPE.names]
    (line,) = [json.loads(line) for line in done.stderr.splitlines() if '"level": "warn"' in line]
    assert "maxBytesPerTrigger has no effect" in line["event"]
    assert "Trigger.AvailableNow is one batch" in line["event"]
    assert line["remedy"] == "pip install 'pyspark>=4.2'"
