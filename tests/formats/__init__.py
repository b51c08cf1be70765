"""Tests of the messages that other systems know."""
