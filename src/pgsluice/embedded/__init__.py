"""The bundled PostgreSQL server, for the demo and for tests."""

from pgsluice.embedded.server import EmbeddedPostgres, StopMode

__all__ = ["EmbeddedPostgres", "StopMode"]
