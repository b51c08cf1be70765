"""Tests of ``pgsluice.cli``."""
