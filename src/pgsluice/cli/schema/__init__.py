"""The commands below ``pgsluice schema``."""
