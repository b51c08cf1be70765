"""
Typed columns from PostgreSQL's text, exactly, never silently changed.

Two engines with one result: :mod:`.spark_rows` in Catalyst expressions and :mod:`.arrow_rows` in Arrow.
The Spark half is imported by name, ``from pgsluice.schema.typed.spark_rows import typed_frame``, so that
whoever needs only Arrow does not load PySpark.
"""

from __future__ import annotations

from pgsluice.schema.typed.arrow_column import arrow_column
from pgsluice.schema.typed.arrow_rows import typed_arrow
from pgsluice.schema.typed.choices import Choice, SpecialValues, TimeChoice
from pgsluice.schema.typed.layout import typed_arrow_schema, typed_schema
from pgsluice.schema.typed.shape import Family, Shape, arrow_type, shape_of, spark_type

__all__ = [
    "Choice",
    "Family",
    "Shape",
    "SpecialValues",
    "TimeChoice",
    "arrow_column",
    "arrow_type",
    "shape_of",
    "spark_type",
    "typed_arrow",
    "typed_arrow_schema",
    "typed_schema",
]
