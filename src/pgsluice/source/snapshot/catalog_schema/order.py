"""What has to be made before what: the server's own notes on what needs what, and an order that obeys."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from pgsluice.source.snapshot.catalog_schema.found import ObjectId, rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.source.snapshot.catalog_schema.found import Found

# Where nothing else decides, in this order.
_KINDS: Final = (
    *("SCHEMA", "EXTENSION", "TYPE", "DOMAIN", "SEQUENCE", "FUNCTION", "PROCEDURE", "TABLE", "TABLE ATTACH"),
    *(
        "DEFAULT",
        "SEQUENCE OWNED BY",
        "CONSTRAINT",
        "CHECK CONSTRAINT",
        "INDEX",
        "INDEX ATTACH",
        "STATISTICS",
    ),
    *("VIEW", "MATERIALIZED VIEW", "RULE", "FK CONSTRAINT", "TRIGGER", "POLICY", "ROW SECURITY"),
)
_ROWS_NEED: Final = (
    *("SCHEMA", "EXTENSION", "TYPE", "DOMAIN", "SEQUENCE", "TABLE", "TABLE ATTACH", "DEFAULT"),
    "SEQUENCE OWNED BY",
)
_ROUTINES: Final = ("FUNCTION", "PROCEDURE")


class Needs:
    """What objects need, by what stands for them: for an array its element, for a view's rule the view."""

    def __init__(self, conn: Connection, without: Mapping[int, Collection[int]]) -> None:
        self._without = without  # columns that are not made, by table
        defaults = rows(conn, _DEFAULTS)
        no_defaults = {
            ObjectId(row.catalog, row.oid) for row in defaults if row.column in without.get(row.table, ())
        }
        self._stands_for: dict[ObjectId, ObjectId] = {}
        self._edges: list[tuple[ObjectId, ObjectId]] = []
        for row in rows(conn, _DEPENDENCIES):
            here, there = ObjectId(row.classid, row.objid), ObjectId(row.refclassid, row.refobjid)
            if row.is_part:
                self._stands_for[here] = there
            elif here not in no_defaults:
                self._edges.append((here, there))
        self._of_columns = rows(conn, _OF_COLUMNS)
        self.members = {ObjectId(row.classid, row.objid) for row in rows(conn, _MEMBERS)}
        self._defaults = {ObjectId(row.catalog, row.oid): ObjectId(row.of, row.table) for row in defaults}

    def made_with_them(self) -> set[ObjectId]:
        """The objects that are made with columns that are left out; not their tables."""
        found = set()
        for row in self._of_columns:
            if row.refobjsubid in self._without.get(row.refobjid, ()):
                whole = self._whole(ObjectId(row.classid, row.objid))
                if whole != ObjectId(row.refclassid, row.refobjid):
                    found.add(whole)
        return found

    def is_part(self, each: ObjectId) -> bool:
        """Whether it is made with another object: a member of an extension, a range's cast."""
        return each in self._stands_for

    def late_defaults(self) -> set[ObjectId]:
        """Defaults that need their own table, by way of a function; all others become a part of it."""
        graph = self.graph(())
        late = {each for each, table in self._defaults.items() if table in _closure([each], graph)}
        self._stands_for |= {each: table for each, table in self._defaults.items() if each not in late}
        return late

    def graph(self, objects: Iterable[Found]) -> dict[ObjectId, set[ObjectId]]:
        """By object: what it needs."""
        found: dict[ObjectId, set[ObjectId]] = {}
        further = ((each.id, needed) for each in objects for needed in each.needs)
        for here, there in (*self._edges, *further):
            ends = self._whole(here), self._whole(there)
            if ends[0] != ends[1]:
                found.setdefault(ends[0], set()).add(ends[1])
        for each, table in self._defaults.items():  # of itself a default needs its table in any case
            found.get(each, set()).discard(table)
        return found

    def _whole(self, part: ObjectId) -> ObjectId:
        seen = set()
        while part in self._stands_for and part not in seen:
            seen.add(part)
            part = self._stands_for[part]
        return part


def in_order(objects: Sequence[Found], graph: Mapping[ObjectId, set[ObjectId]]) -> list[Found]:
    """The objects, each after what it needs; where they need each other, the kind decides."""
    by_id = {each.id: each for each in objects}
    waits = {each: set(graph.get(each, ())) & by_id.keys() for each in by_id}
    needed_by: dict[ObjectId, list[ObjectId]] = {}
    for each, needed in waits.items():
        for other in needed:
            needed_by.setdefault(other, []).append(each)
    rank = {each.id: (_KINDS.index(each.kind), each.name, each.id) for each in objects}
    ready = [rank[each] for each, needed in waits.items() if not needed]
    heapify(ready)
    ordered: list[Found] = []
    while waits:
        chosen = heappop(ready)[2] if ready else min(rank[each] for each in waits)[2]
        if waits.pop(chosen, None) is None:
            continue
        ordered.append(by_id[chosen])
        for other in needed_by.get(chosen, ()):
            if other in waits:
                waits[other].discard(chosen)
                if not waits[other]:
                    heappush(ready, rank[other])
    return ordered


def without_needing(
    objects: Sequence[Found], gone: set[ObjectId], graph: Mapping[ObjectId, set[ObjectId]]
) -> tuple[list[Found], list[Found]]:
    """The objects that can be made without others, and those that need them, by any number of steps."""
    left = [each for each in objects if each.id not in gone]
    while True:
        needing = {each.id for each in left if ({*graph.get(each.id, ())} | {*each.needs}) & gone}
        if not needing:
            made = {each.id for each in left}
            return left, [each for each in objects if each.id not in made]
        gone = gone | needing
        left = [each for each in left if each.id not in needing]


def before_rows(ordered: Sequence[Found], graph: Mapping[ObjectId, set[ObjectId]]) -> set[ObjectId]:
    """What tables need, and functions that need nothing else."""
    before = _closure([each.id for each in ordered if each.kind in _ROWS_NEED], graph)
    made = {each.id for each in ordered}
    for each in ordered:
        if each.kind in _ROUTINES and graph.get(each.id, set()) & made <= before:
            before.add(each.id)
    return before


def _closure(begin: Sequence[ObjectId], graph: Mapping[ObjectId, set[ObjectId]]) -> set[ObjectId]:
    found, left = set(begin), list(begin)
    while left:
        new = graph.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


# A sequence that a column owns is made before its table, whose default names it. Rules of a domain are a part
# of it, and a NOT NULL of its table.
_DEPENDENCIES: Final = """
SELECT d.classid, d.objid, d.refclassid, d.refobjid,
       d.deptype IN ('i', 'e') OR (d.deptype = 'a' AND r.oid IS NOT NULL) AS is_part
  FROM pg_depend d
  LEFT JOIN pg_class s ON s.tableoid = d.classid AND s.oid = d.objid AND s.relkind = 'S'
  LEFT JOIN pg_constraint r ON r.tableoid = d.classid AND r.oid = d.objid
       AND (r.contype = 'n' AND r.convalidated OR r.contypid <> 0)
 WHERE d.classid <> 0 AND d.objid >= 16384 AND d.refobjid >= 16384
   AND NOT (s.oid IS NOT NULL AND d.deptype = 'a')"""

# Defaults go with their columns.
_OF_COLUMNS: Final = """
SELECT classid, objid, refclassid, refobjid, refobjsubid
  FROM pg_depend
 WHERE refclassid = 'pg_class'::regclass AND refobjsubid > 0 AND classid <> 'pg_attrdef'::regclass"""

_MEMBERS: Final = "SELECT classid, objid FROM pg_depend WHERE deptype = 'e'"

_DEFAULTS: Final = """
SELECT d.tableoid AS catalog, d.oid, c.tableoid AS of, c.oid AS table, d.adnum AS column
  FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid WHERE c.relkind IN ('r', 'p')"""
