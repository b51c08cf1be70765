"""Tests of ``pgsluice.schema``."""
