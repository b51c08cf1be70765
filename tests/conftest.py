"""Fixtures live in ``fix_*.py`` beside this file, each a plugin of its own; all are loaded here."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings

# No test is about time: a busy machine must not fail one.
settings.register_profile(
    "pgsluice", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("pgsluice")

pytest_plugins = [f"tests.{path.stem}" for path in sorted(Path(__file__).parent.glob("fix_*.py"))]
