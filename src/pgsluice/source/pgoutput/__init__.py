"""The replication protocol's messages, from bytes to columns."""
