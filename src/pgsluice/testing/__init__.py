"""Helpers for people who test their own sinks and pipelines."""
