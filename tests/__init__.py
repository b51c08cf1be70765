"""Tests of pgsluice."""
