"""Tests of the modifiers."""
