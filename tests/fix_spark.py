"""
The one Spark session of a test run; it starts when the first test asks for it, which takes some seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.pipeline.session import SparkOptions, start_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on this machine; failed tasks are tried again, as on a cluster (``local[2]`` never does)."""
    session = start_session(SparkOptions(master="local[2,4]"))
    yield session
    session.stop()
