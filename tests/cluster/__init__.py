"""Tests on a Spark cluster of its own processes."""
