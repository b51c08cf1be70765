"""Tests of ``pgsluice.source``."""
