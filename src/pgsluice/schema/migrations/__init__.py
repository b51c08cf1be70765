"""The numbered migrations of schema ``pgsluice`` on the source; run by :mod:`pgsluice.schema.migrate`."""
