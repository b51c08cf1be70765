"""
Materialized views that are filled while a table is copied anew, which they may read from.

The target's rows are not those of the source then. So such a view is filled when the copy is in place; till
then it has the rows of before, or none. The progress names those that wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.changelog.plan import LogRange
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry

Views = tuple[tuple[str, str], ...]
"""By schema and name, as the target calls them."""


def with_late_views(
    entries: Mapping[LogRange, SchemaEntry], waiting: Views, *, late: bool
) -> tuple[dict[LogRange, SchemaEntry], Views]:
    """The entries without what has to wait, and all that waits after them; ``late``: something has to."""
    views = dict.fromkeys(waiting)
    changed = {}
    for range_, entry in entries.items():
        changes = []
        for change in entry.changes:
            views = _renamed(views, change)
            if late and _fills(change):
                assert change.after is not None
                views[_name(change.after)] = None
                change = replace(change, refreshed=False, after={**change.after, "filled": False})  # noqa: PLW2901
            changes.append(change)
        changed[range_] = replace(entry, changes=tuple(changes))
    return changed, tuple(views)


def _fills(change: ObjectChange) -> bool:
    if change.after is None or change.after["kind"] != "materialized view":
        return False
    return bool(change.after.get("filled")) and (change.refreshed or change.before is None)


def _renamed(views: dict[tuple[str, str], None], change: ObjectChange) -> dict[tuple[str, str], None]:
    """The views that wait, as they are called after a change; without those that are gone."""
    before, after = change.before, change.after
    if before is None or not views:
        return views
    if before["kind"] == "schema" and after is not None:
        renamed = {before["name"]: after["name"]}
        return dict.fromkeys((renamed.get(schema, schema), name) for schema, name in views)
    if before["kind"] == "materialized view" and _name(before) in views:
        others = {each: None for each in views if each != _name(before)}
        return others | ({_name(after): None} if after else {})
    return views


def _name(of: Definition) -> tuple[str, str]:
    return of["schema"], of["name"]
