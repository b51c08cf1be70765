"""Tests of the DuckDB sink beyond the contract."""
