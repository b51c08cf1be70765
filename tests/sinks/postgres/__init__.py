"""Tests of the PostgreSQL sink beyond the contract."""
