"""
Random workloads: tables of every shape, awkward values, transactions of every kind, and what they must leave.

``values`` has the types, ``shapes`` the tables, ``acts`` what is done to one, ``invariant`` two tables whose
sum never changes, ``script`` the transactions of a writer, ``writers`` those who carry them out, ``compare``
what source and target hold in the end, and ``trial`` the kills meanwhile. The same seed makes the same tables
and, for each writer, the same transactions in the same order; how they interleave is up to the machine.
"""
