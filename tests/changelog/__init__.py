"""Tests of ``pgsluice.changelog``."""
