"""
The statements that make a change of the source's schema in a PostgreSQL target.

They are made from what the source says an object was and is, not from what somebody typed: so a DO block, a
function that runs DDL or an unqualified name come out right. ``tables`` has tables, ``types`` what columns
are made of, ``others`` everything that is made anew when it changes; ``words`` what all of them share.
"""

from pgsluice.sinks.postgres.alter.others import Drop, drops, last_statements_for, statements_for

__all__ = ["Drop", "drops", "last_statements_for", "statements_for"]
