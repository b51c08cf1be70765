"""``pgsluice validate rules``: every fault by table and column, and rows before and after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pgsluice.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

TABLE = (
    "CREATE DOMAIN short AS varchar(10);"
    "CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, mail text UNIQUE, code short, small int2,"
    " UNIQUE (name, small));"
    "CREATE TABLE whole (a text, b text); ALTER TABLE whole REPLICA IDENTITY FULL;"
    "INSERT INTO people VALUES (1, 'Ada Lovelace', 'ada@x.org', 'c', 7), (2, 'Bob', NULL, NULL, NULL)"
)


def rules_file(place: Path, rules: dict[str, Any], table: str = "people", **more: Any) -> str:
    """A file with rules for one table."""
    path = place / "rules.yaml"
    tables = [{"table": table, "column_transformers": rules}]
    path.write_text(yaml.safe_dump({"transformations": {**more, "table_transformers": tables}}))
    return str(path)


def found(database: Database, capsys: pytest.CaptureFixture[str], file: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the problems by column."""
    code = main(["validate", "rules", "-f", file, "--source-url", database.url, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] == (not answer["problems"])
    assert all(each["remedy"] for each in answer["problems"])
    problems: dict[str, str] = {}
    for each in answer["problems"]:
        column = each["column"] or each["table"]
        problems[column] = problems.get(column, "") + each["problem"] + "; "
    return code, problems


@pytest.mark.parametrize(
    ("table", "rules", "column", "words"),
    [
        ("people", {"nam": {"name": "noop"}}, "nam", "no such column"),
        ("poeple", {"id": {"name": "noop"}}, "public.poeple", "no such table"),
        ("people", {"name": {"name": "greenmask_integer"}}, "name", "is for integer, and the column is text"),
        ("people", {"code": {"name": "hash"}}, "code", "64 digits have no room in 10 characters"),
        ("people", {"small": {"name": "greenmask_integer"}}, "small", "int2 does not hold all numbers"),
        ("people", {"name": {"name": "null"}}, "name", "takes no NULL"),
        ("people", {"id": {"name": "greenmask_integer"}}, "id", "is random, and UPDATE and DELETE find"),
        ("people", {"mail": {"name": "masking"}}, "mail", "may make two values one"),
        ("people", {"name": {"name": "masking"}}, "name", "may make two values one"),
        ("people", {"mail": {"name": "string"}}, "mail", "is random, and the column is in a unique index"),
        ("whole", {"a": {"name": "string"}}, "a", "is random, and UPDATE and DELETE find"),
        (
            "people",
            {"code": {"name": "phone_number", "dynamic_parameters": {"prefix": {"column": "x"}}}},
            "code",
            "comes from x, which is no column",
        ),
        ("people", {"mail": {"name": "emial"}}, "mail", "did you mean email?"),
        ("people", {"mail": {"name": "masking", "parameters": {"tipe": 1}}}, "mail", "no parameter tipe"),
    ],
)
def test_faults(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    table: str,
    rules: dict[str, Any],
    column: str,
    words: str,
) -> None:
    """One fault each, named by its column."""
    database.run(*TABLE.split(";"))
    code, problems = found(database, capsys, rules_file(tmp_path, rules, table))
    assert (code, list(problems)) == (1, [column])
    assert words in problems[column]


def test_allowed(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is allowed explicitly, what keeps values apart, and what is no key."""
    database.run(*TABLE.split(";"))
    rules = {
        "id": {"name": "greenmask_integer", "allow_uniqueness_loss": True},
        "mail": {"name": "email"},
        "code": {"name": "string"},
    }
    assert found(database, capsys, rules_file(tmp_path, rules)) == (0, {})
    deterministic = {"a": {"name": "masking"}}  # a row of many equal ones is as good as another
    assert found(database, capsys, rules_file(tmp_path, deterministic, "whole")) == (0, {})


def test_strict(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Every column without a rule, and every table."""
    database.run(*TABLE.split(";"))
    rules = {name: {"name": "noop"} for name in ("id", "name", "mail", "code")}
    code, problems = found(database, capsys, rules_file(tmp_path, rules, validation_mode="strict"))
    assert (code, set(problems)) == (1, {"small", "public.whole"})


@pytest.mark.spark
def test_preview(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path, spark: SparkSession
) -> None:
    """Rows side by side; nothing is kept."""
    database.run(*TABLE.split(";"))
    rules = {"mail": {"name": "email"}, "code": {"name": "masking"}}
    line = ["validate", "rules", "-f", rules_file(tmp_path, rules), "--source-url", database.url]
    state = ["--state-dir", str(tmp_path / "state")]
    assert main([*line, *state, "--preview", "2", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["preview"]
    before, after = table["rows"][0]["before"], table["rows"][0]["after"]
    assert (before["mail"], before["code"]) == ("ada@x.org", "c")
    assert after["mail"].endswith("@example.com")
    assert {**after, "mail": None} == {**before, "mail": None, "code": "*"}
    assert table["rows"][1]["after"] == table["rows"][1]["before"]
    assert not (tmp_path / "state").exists()
    assert main([*line, *state, "--preview", "1"]) == 0
    assert "Lovelace" not in capsys.readouterr().out  # a column without a rule is not shown
