"""
Ways of changing a value: one class each, whose fields are its parameters.

:mod:`~pgsluice.modifiers.transforms.base` says what a way is, :mod:`~pgsluice.modifiers.transforms.registry`
which there are. Each gives Spark SQL, which the JVM runs: no value passes through Python.
"""
