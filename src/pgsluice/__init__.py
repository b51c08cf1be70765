"""PostgreSQL replication, data and schema changes, to anything, on Apache Spark."""

__version__ = "0.1.0"
