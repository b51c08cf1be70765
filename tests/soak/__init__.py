"""Long runs; not part of ``make test``."""
