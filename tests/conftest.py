"""Fixtures live in ``fix_*.py`` beside this file, each a plugin of its own; all are loaded here."""

from __future__ import annotations

from pathlib import Path

pytest_plugins = [f"tests.{path.stem}" for path in sorted(Path(__file__).parent.glob("fix_*.py"))]
