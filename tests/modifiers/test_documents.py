"""Values inside of JSON and hstore, set and deleted; the rest of a document stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pgsluice.modifiers.transforms.registry import make
from pgsluice.schema.table import PgType

if TYPE_CHECKING:
    from tests.fix_pg import Database

JSON, JSONB, HSTORE = PgType(114, "json"), PgType(3802, "jsonb"), PgType(0, "hstore")
CREATE = {"skip_not_exist": False}


def put(path: str, value: Any = "x", **more: Any) -> dict[str, Any]:
    """An operation that sets."""
    return {"operation": "set", "path": path, "value": value, **more}


def by(path: str, template: str, **more: Any) -> dict[str, Any]:
    """An operation that sets by a template."""
    return {"operation": "set", "path": path, "value_template": template, **more}


def drop(path: str, **more: Any) -> dict[str, Any]:
    """An operation that deletes."""
    return {"operation": "delete", "path": path, **more}


def changed(name: str, type_: PgType, operations: list[Any], *texts: str) -> list[Any]:
    """What becomes of texts."""
    transform = make(name, {"operations": operations})
    made: list[Any] = transform.change(pa.array(texts), b"", type_).to_pylist()  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("text", "operations", "wanted"),
    [
        ('{"a": 1.10, "b":  "é"}', [put("a", 2)], '{"a": 2, "b":  "é"}'),
        ('{"a": {"b": [1, {"c": 1e400}]}}', [put("a.b.1.c")], '{"a": {"b": [1, {"c": "x"}]}}'),
        ('{"a.b": 1, "a": {"b": 2}}', [put("a\\.b")], '{"a.b": "x", "a": {"b": 2}}'),
        ('{"1": 1, "2": [5]}', [put(":1"), put("2.0")], '{"1": "x", "2": ["x"]}'),
        ('{"t": [1]}', [put("t.-1", {"bb": None, "a": [True]})], '{"t": [1, {"a": [true], "bb": null}]}'),
        ('{"t": []}', [put("t.-1")], '{"t": ["x"]}'),
        ('{"a": 1}', [put("b"), put("t.-1"), drop("c")], '{"a": 1}'),
        ('{"a": 1}', [put("b", **CREATE)], '{"a": 1, "b": "x"}'),
        ("{}", [put("a.b.1", **CREATE)], '{"a": {"b": [null, "x"]}}'),
        ('{"a": 5}', [put("a.b", **CREATE)], '{"a": {"b": "x"}}'),
        ('{"a": [1]}', [put("a.3", **CREATE)], '{"a": [1, null, null, "x"]}'),
        ('{"a": 1, "b": 2, "c": 3}', [drop("b")], '{"a": 1, "c": 3}'),
        ('{"a": [1, 2, 3]}', [drop("a.0"), drop("a.-1")], '{"a": [2]}'),
        ('{"a": 1, "a": {"b": 1}}', [put("a")], '{"a": "x", "a": "x"}'),
        ('{"a": 1, "b": 0, "a": 2}', [drop("a")], '{"b": 0}'),
        ('{"n": "Ada", "i": 7}', [by("n", '"{{ .GetValue | upper }}"'), by("i", "{{ .GetValue }}0")],
         '{"n": "ADA", "i": 70}'),
        ('{"n": null}', [by("n", '"x"'), by("m", '"x"', **CREATE)], '{"n": null}'),
        ('{"n": "a\\"b"}', [by("n", "{{ .GetValue | quote }}")], '{"n": "a\\"b"}'),
        ('{"a": 1}', [put("b", error_not_exist=True)], None),
        ('{"a": 1}', [drop("b", error_not_exist=True)], None),
        ('{"a": {}}', [by("a", '"x"')], None),
        ('{"a": "y"}', [by("a", "{{ .GetValue }}")], None),
        ('{"a": [1]}', [put("a.b", **CREATE)], None),
        ("[1, 2]", [put("1")], '[1, "x"]'),
        ("7", [put("a")], "7"),
    ],
)  # fmt: skip
def test_json(text: str, operations: list[Any], wanted: str | None) -> None:
    """One document after some operations; None where a value can't be changed."""
    assert changed("json", JSON, operations, text) == [wanted]


def test_jsonb_is_as_postgresql_writes_it(database: Database) -> None:
    """New keys stand where PostgreSQL puts them, so that targets hold the same text."""
    document = '{"b": 1, "aa": {"z": "ü"}, "long": [1, 2]}'
    (made,) = changed("json", JSONB, [put("a", **CREATE), put("lonf", {"bb": 1, "c": 2}, **CREATE)], document)
    assert made == '{"a": "x", "b": 1, "aa": {"z": "ü"}, "lonf": {"c": 2, "bb": 1}, "long": [1, 2]}'
    assert database.rows("SELECT $json$" + made + "$json$::jsonb::text") == [(made,)]


def test_hstore() -> None:
    """Keys set and deleted, in the order in which the extension, which servers of tests lack, writes them."""
    operations = [
        {"operation": "set", "key": "b", "value": None},
        {"operation": "set", "key": 'q"\\', "value_template": "{{ .GetValue | replace `\\` `/` }}"},
        {"operation": "set", "key": "new", "value": "", **CREATE},
        {"operation": "set", "key": "not there", "value": "x"},
        {"operation": "delete", "key": "gone"},
    ]
    stored = '"b"=>"1", "gone"=>"x, \\"y\\"=>", "long"=>NULL, "q\\"\\\\"=>"a\\\\b\\""'
    (made,) = changed("hstore", HSTORE, operations, stored)
    assert made == '"b"=>NULL, "new"=>"", "q\\"\\\\"=>"a/b\\"", "long"=>NULL'
    assert changed("hstore", HSTORE, operations, "nonsense", "") == [None, '"new"=>""']
    must = [{"operation": "delete", "key": "a", "error_not_exist": True}]
    assert changed("hstore", HSTORE, must, '"a"=>"1"', '"b"=>"1"') == ["", None]


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([], "operations: "),
        ([{"operation": "set", "path": "a"}], "set needs either value or value_template"),
        ([put("a", value_template="x")], "set needs either value or value_template"),
        ([drop("a", value=1)], "delete takes no value"),
        ([put("a.*.b")], "a path has no patterns: write \\* for the character itself"),
        ([put("")], "a path needs keys or indexes"),
        ([{"operation": "change", "path": "a"}], "should be 'set' or 'delete'"),
        ([{"operation": "delete"}], "json needs the parameter operations.0.path"),
        ([by("a", "{{ shuffle .GetValue }}")], "the function shuffle is not known"),
        ([by("a", '{{ .GetDynamicValue "b" }}')], "value_template can't take b of another column"),
    ],
)
def test_faulty_operations(operations: list[Any], words: str) -> None:
    """Each says what is wrong when the rules are read."""
    with pytest.raises(ValueError, match=re.escape(words)):
        make("json", {"operations": operations})
