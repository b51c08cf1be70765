"""The commands below ``pgsluice dlq``: rows that a target refused."""
