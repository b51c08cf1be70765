"""Tests of ``pgsluice.embedded``."""
