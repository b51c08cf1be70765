"""Tests of ``pgsluice.source.pgoutput``."""
