"""The public names of the package are the ones it lists."""

from __future__ import annotations

import types

import pgsluice


def test_all_is_what_is_visible():
    """__all__ is sorted and equal to the public names; submodules that were imported don't count."""
    visible = [
        name
        for name, value in vars(pgsluice).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, types.ModuleType)
    ]
    lazy = [name for name in dir(pgsluice) if name in _listed() and name not in visible]
    assert sorted(_listed()) == sorted({*visible, *lazy, "__version__"})


def test_all_is_sorted_and_without_repetition():
    """The list is easy to read and to merge."""
    assert _listed() == sorted(set(_listed()))


def test_every_listed_name_can_be_had():
    """Each name resolves, also those that are imported only when asked for."""
    assert [name for name in _listed() if getattr(pgsluice, name, None) is None] == []


def _listed() -> list[str]:
    return list(getattr(pgsluice, "__all__", ["__version__"]))
