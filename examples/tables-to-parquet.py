"""
Tables of a PostgreSQL database as Parquet files, all of them at one point.

    python examples/tables-to-parquet.py postgresql://app@db.example/shop lake public.orders public.customers

The last line says where in the replication stream that point is.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import pgsluice.spark


def main(url: str, directory: str, *tables: str) -> None:
    """Copy the tables."""
    spark = SparkSession.builder.getOrCreate()
    with pgsluice.spark.snapshot(url) as point:
        for name in tables:
            rows = point.table(spark, name)
            rows.write.mode("overwrite").parquet(f"{directory}/{name}")
            sys.stdout.write(f"{name}: {spark.read.parquet(f'{directory}/{name}').count()} rows\n")
    sys.stdout.write(f"everything that was committed before {point.lsn}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
