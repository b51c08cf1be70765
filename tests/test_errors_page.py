"""The errors: documented, drawn, distinct, and able to travel between processes."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgsluice import errors
from pgsluice.errors import SluiceError

ROOT = Path(__file__).resolve().parent.parent
CLASSES = [getattr(errors, name) for name in errors.__all__]
TREE_LINE = re.compile(
    r"^(?P<lead>[ │├└─]*)(?P<name>\w+Error)\b *(?P<exit>\d)? *(?P<transient>\(transient\))?$"
)


def test_the_committed_page_is_up_to_date():
    """docs/errors.md is what the generator writes today."""
    command = [sys.executable, "tools/generate_errors_page.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_all_lists_every_error_class_in_order():
    """__all__ is sorted and names every class of the module."""
    defined = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert errors.__all__ == sorted(defined)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_says_what_it_is(kind: type[SluiceError]):
    """Each class has a docstring of its own that begins with a whole sentence."""
    first_paragraph = (vars(kind)["__doc__"] or "").strip().split("\n\n")[0]
    assert first_paragraph.endswith(".")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_a_code_of_its_own(kind: type[SluiceError]):
    """Codes are stable words in capitals, and no two classes share one."""
    assert re.fullmatch(r"SLUICE(-[A-Z]+)+", vars(kind)["code"])
    assert [other for other in CLASSES if other.code == kind.code] == [kind]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_survives_pickling(kind: type[SluiceError]):
    """Class, message, remedy and fields arrive on the other side, also along a chain of subclasses."""
    sent = kind("slot 'a' is gone", remedy="Make it again", slot="a", lsn="0/16B3748")
    got = pickle.loads(pickle.dumps(sent))
    assert type(got) is kind
    assert got.as_dict() == sent.as_dict()
    assert str(got) == "slot 'a' is gone. Make it again"


def test_the_drawing_is_the_tree():
    """The module's docstring draws every class under its parent, with exit code and retry as they are."""
    assert _drawn() == {kind.__name__: _facts(kind) for kind in CLASSES}


def _facts(kind: type[SluiceError]) -> tuple[str, int, bool]:
    parent = kind.__bases__[0].__name__
    return parent, kind.exit_code, kind.transient


def _drawn() -> dict[str, tuple[str, int, bool]]:
    """Read the drawing: class -> parent, exit code (drawn where it changes) and transient."""
    drawn: dict[str, tuple[str, int, bool]] = {}
    path: list[tuple[str, int]] = [("Exception", SluiceError.exit_code)]
    for line in (errors.__doc__ or "").splitlines():
        match = TREE_LINE.match(line)
        if match is None:
            continue
        depth = len(match["lead"]) // 4  # the drawing itself is indented by 4
        del path[depth:]
        parent, inherited = path[-1]
        exit_code = int(match["exit"] or inherited)
        drawn[match["name"]] = (parent, exit_code, bool(match["transient"]))
        path.append((match["name"], exit_code))
    return drawn
