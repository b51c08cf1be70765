"""Tests of ``pgsluice.pipeline``."""
