"""
pgsluice for Spark users: ``format("pgsluice")``.

    from pyspark.sql import SparkSession

    import pgsluice.spark

    spark = SparkSession.builder.getOrCreate()
    pgsluice.spark.register(spark)
    orders = (
        spark.readStream.format("pgsluice")
        .option("url", "postgresql://app@db.example/shop")  # prepared once by: pgsluice init
        .option("table", "public.orders")
        .load()
    )
    query = (
        orders.writeStream.format("parquet")
        .option("path", "lake/orders")
        .option("checkpointLocation", "lake/orders.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from pgsluice.source.query.consumer import drop
from pgsluice.source.spark import ADMISSION_CONTROL, PgsluiceDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PgsluiceDataSource", "drop_consumer", "register"]

logger = structlog.get_logger(__name__)


def register(spark: SparkSession) -> None:
    """Make ``format("pgsluice")`` known to a session."""
    if not ADMISSION_CONTROL:
        from pyspark import __version__

        logger.warning(
            "this PySpark reads all that there is in one micro-batch: "
            "maxBytesPerTrigger has no effect, and Trigger.AvailableNow is one batch",
            pyspark=__version__,
            remedy="pip install 'pyspark>=4.2'",
        )
    spark.dataSource.register(PgsluiceDataSource)


def drop_consumer(log: str | Path, consumer: str) -> None:
    """Forget a query that won't come back, so that it no longer keeps the change log from being cleared."""
    drop(Path(log).expanduser(), consumer)
