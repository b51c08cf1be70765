"""A Spark driver to be killed: streams into parquet files until it is."""

from __future__ import annotations

import json
import sys

import pgsluice.spark
from pgsluice.pipeline.session import SparkOptions, start_session


def main() -> None:
    """Run the query; the options and the path of the files come as arguments."""
    options, path = json.loads(sys.argv[1]), sys.argv[2]
    conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
    spark = start_session(SparkOptions(master="local[2]", conf=conf))
    pgsluice.spark.register(spark)
    stream = spark.readStream.format("pgsluice").options(**options).load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", f"{path}.checkpoint")
    sink.start(path).awaitTermination()


if __name__ == "__main__":
    main()
