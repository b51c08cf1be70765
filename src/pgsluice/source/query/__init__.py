"""One Spark query's view of a change log; :mod:`pgsluice.source.spark` shows it to Spark."""
