"""The bundled PostgreSQL server, for the demo and for tests."""
