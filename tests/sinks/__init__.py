"""Tests of ``pgsluice.sinks``."""
