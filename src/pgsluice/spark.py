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

Tables as they are now, all of them at one point, each read by several tasks:

    with pgsluice.spark.snapshot("postgresql://app@db.example/shop") as point:
        orders = point.table(spark, "public.orders", columns=["id", "customer_id", "total"])
        customers = point.table(spark, "public.customers")
        orders.join(customers, orders.customer_id == customers.id).write.parquet("lake/sales")
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from pgsluice.source.query.consumer import drop
from pgsluice.source.spark import ADMISSION_CONTROL, PgsluiceDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PgsluiceDataSource", "Snapshot", "drop_consumer", "register", "snapshot", "table"]

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
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(PgsluiceDataSource)
    except AnalysisException as exc:
        if exc.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark looks for the name in the session that is active in this thread, whichever one registers it.
        with _active(spark):
            spark.dataSource.register(PgsluiceDataSource)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread; each does so itself when it makes a frame."""
    before = type(spark).getActiveSession()
    spark.createDataFrame([], "nothing int")
    try:
        yield
    finally:
        if before is not None:
            before.createDataFrame([], "nothing int")


def drop_consumer(log: str | Path, consumer: str) -> None:
    """Forget a query that won't come back, so that it no longer keeps the change log from being cleared."""
    drop(Path(log).expanduser(), consumer)


def table(
    spark: SparkSession,
    url: str,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    where: str | None = None,
    **options: str,
) -> DataFrame:
    """
    A table as it is when an action reads it: one statement, and so one task.

    Args:
        spark: the session.
        url: the database, anything that libpq takes.
        name: the table, as in SQL: ``orders``, ``sales.orders``, ``sales."Orders"``.
        columns: what to read of it, under the names that the frame will have; all when left out.
        where: which rows, as a condition of PostgreSQL's; all when left out.
        options: further options of ``format("pgsluice")``.
    """
    register(spark)
    wanted = "*" if columns is None else ", ".join('"' + each.replace('"', '""') + '"' for each in columns)
    reader = spark.read.format("pgsluice").options(url=url, table=name, columns=wanted, **options)
    return (reader if where is None else reader.option("where", where)).load()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One point of a database, held for as long as the block of :func:`snapshot` runs."""

    url: str = field(repr=False)
    lsn: str  # where it stands in the stream: what is committed before is in the snapshot, no more
    token: str = field(repr=False)  # the option ``snapshot``

    @property
    def options(self) -> dict[str, str]:
        """For ``spark.read.format("pgsluice").options(...)``, beside the table."""
        return {"url": self.url, "snapshot": self.token}

    def table(
        self,
        spark: SparkSession,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        **options: str,
    ) -> DataFrame:
        """A table at this point, read by several tasks; the arguments are those of :func:`table`."""
        return table(spark, self.url, name, columns, where=where, snapshot=self.token, **options)


@contextmanager
def snapshot(url: str) -> Iterator[Snapshot]:
    """
    Hold one point of a database: every table that is read in the block is seen as it is at that point.

    Actions have to run inside the block; one that comes later fails. While it runs, VACUUM keeps the rows of
    that point.
    """
    from pgsluice.source.scan.held import hold_snapshot

    with hold_snapshot(url) as held:
        yield Snapshot(url, str(held.lsn), held.encode())
