"""The command `pgsluice config` and what is below it."""
