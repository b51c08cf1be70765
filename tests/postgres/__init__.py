"""Tests of what the driver remembers."""
