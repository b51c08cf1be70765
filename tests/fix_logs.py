"""Every test begins with logs as the first one found them: commands that run in this process set them up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    was_set_up, before, root = structlog.is_configured(), structlog.get_config(), logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    if was_set_up:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers
