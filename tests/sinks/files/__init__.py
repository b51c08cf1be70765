"""Tests of the files sink beyond the contract."""
