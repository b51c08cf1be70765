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
    " pay numeric(6, 2), day date UNIQUE, mails varchar(20)[], UNIQUE (name, small));"
    "CREATE TABLE whole (a text, b text); ALTER TABLE whole REPLICA IDENTITY FULL;"
    "INSERT INTO people (id, name, mail, code, small)"
    " VALUES (1, 'Ada Lovelace', 'ada@x.org', 'c', 7), (2, 'Bob', NULL, NULL, NULL)"
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


def rule(name: str, **parameters: Any) -> dict[str, Any]:
    """A transformer with its parameters."""
    return {"name": name, "parameters": parameters}


@pytest.mark.parametrize(
    ("table", "rules", "column", "words"),
    [
        ("people", {"nam": {"name": "noop"}}, "nam", "no such column"),
        ("poeple", {"id": {"name": "noop"}}, "public.poeple", "no such table"),
        ("people", {"name": {"name": "greenmask_integer"}}, "name", "is for integer, and the column is text"),
        ("people", {"code": {"name": "hash"}}, "code", "hash gives 64 characters, and the column holds 10"),
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
        (
            "people",
            {"code": rule("encrypted_aes_siv", key_hex="ab" * 64)},
            "code",
            "gives 22 characters or more",
        ),
        ("people", {"code": rule("email")}, "code", "gives 44 characters or more, and the column holds 10"),
        ("people", {"mails": rule("email")}, "mails", "and the column holds 20"),
        ("people", {"code": rule("greenmask_string")}, "code", "gives up to 100 characters, and the column"),
        ("people", {"code": rule("literal_string", literal="x" * 11)}, "code", "gives 11 characters"),
        ("people", {"small": rule("literal_string", literal="40000")}, "small", "the literal is no smallint"),
        ("people", {"day": rule("literal_string", literal="soon")}, "day", "the literal is no date"),
        (
            "people",
            {"pay": rule("greenmask_choice", choices=["1", "1e5"])},
            "pay",
            "choice 2 is no numeric(6,2)",
        ),
        (
            "people",
            {"pay": rule("greenmask_float", min_value=0, max_value=9999.999)},
            "pay",
            "beyond numeric(6,2)",
        ),
        (
            "people",
            {"id": rule("greenmask_integer", generator="deterministic", min_value=1, max_value=3)},
            "id",
            "draws of 3 values alone",
        ),
        (
            "people",
            {
                "day": rule(
                    "greenmask_date",
                    generator="deterministic",
                    min_value="2020-01-01",
                    max_value="2020-12-31",
                )
            },
            "day",
            "draws of 366 values alone",
        ),
        ("people", {"mail": rule("neosync_email", seed=1, email_type="fullname")}, "mail", "draws of "),
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
    assert (code, set(problems)) == (1, {"small", "pay", "day", "mails", "public.whole"})


def test_all_faults_at_once(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those of the file and those by the catalog, of a file of rules and of a configuration."""
    database.run(*TABLE.split(";"))
    rules: dict[str, Any] = {
        "mail": {"name": "emial"},
        "name": {"name": "null"},
        "nam": {"name": "masking", "parameters": {"tipe": 1}},
        "pay": {"name": None},
        "small": rule("truncate", length=1),
        "code": rule("neosync_email", invalid_email_action="passthrough"),
    }
    faulty = {"table_transformers": [{"table": "people", "column_transformers": rules}, {"tabel": "x"}, 7]}
    wanted = {
        "mail": "there is no transformer 'emial'; did you mean email?",
        "name": "the column takes no NULL, which the rule gives",
        "nam": "masking has no parameter tipe",
        "small": "truncate is for",
        "table_transformers[1]": "table: Field required",
        "table_transformers[2]": "should be",
        "transformations": "neosync_email of public.people.code lets plain values leave",
    }
    file = tmp_path / "faulty.yaml"
    file.write_text(yaml.safe_dump({"transformations": {**faulty, "on_eror": "stop"}}))
    config = tmp_path / "pipeline.yaml"
    config.write_text(yaml.safe_dump({"modifiers": {"transformations": faulty}}))
    for options in (["-f", str(file)], ["-c", str(config)]):
        assert main(["validate", "rules", *options, "--source-url", database.url, "--json"]) == 1
        answer = json.loads(capsys.readouterr().out)
        problems: dict[str, str] = {}
        for each in answer["problems"]:
            place = each["column"] or each["table"]
            problems[place] = problems.get(place, "") + each["problem"] + "; "
        for place, words in wanted.items():
            assert words in problems[place], (options, place)
        assert ("on_eror: " in problems["transformations"]) == (options[0] == "-f")
        assert "no such column" in problems["nam"]
    assert main(["run", "-c", str(config), "--source-url", database.url]) == 2
    assert "did you mean email?" in capsys.readouterr().err


def test_null_on_errors(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A problem where a column takes no NULL and the transformer may fail; none where it can't."""
    database.run(
        "CREATE TABLE people (id int PRIMARY KEY, born date NOT NULL, name text NOT NULL, died date)"
    )
    year = rule("truncate", part="year")
    rules = {"born": year, "died": year, "name": rule("hash")}
    code, problems = found(database, capsys, rules_file(tmp_path, rules, on_error="null"))
    assert (code, list(problems)) == (1, ["born"])
    assert "on_error: null gives one where truncate can't change a value" in problems["born"]


@pytest.mark.spark
def test_expressions(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path, spark: SparkSession
) -> None:
    """Spark analyses them: names, types, what goes by chance, and what a DELETE does not have."""
    database.run(
        "CREATE TABLE keys (a int, b int, c text, d text, e date, f text, g text, h text UNIQUE, i text,"
        " j text, PRIMARY KEY (a, b))"
    )
    expressions = {
        "a": "a + length(c)",
        "b": "rand()",
        "c": "concat(c, op)",
        "d": "concat(D, 'x')",
        "e": "array(e)",
        "f": "nonsense(f)",
        "g": "max(g)",
        "h": "concat(h, current_timestamp)",
        "i": "array_join(transform(array(i), x -> concat(x, uuid())), '')",
        "j": "explode(array(j))",
    }
    rules = {name: rule("sql", expression=text) for name, text in expressions.items()}
    code, problems = found(database, capsys, rules_file(tmp_path, rules, "keys"))
    assert code == 1
    assert problems.pop("a") == (
        "sql may make two values one, and the column is in a unique index; "
        "the expression names c, and a DELETE has nothing beside the key; "
    )
    assert "sql is random, and UPDATE and DELETE find their row by this column" in problems.pop("b")
    assert "names op, which is no column of the table" in problems.pop("c")
    assert "names D, which is no column of the table" in problems.pop("d")
    assert "does not fit the table: DATATYPE_MISMATCH" in problems.pop("e")
    assert "does not fit the table: UNRESOLVED_ROUTINE" in problems.pop("f")
    assert "does not fit the table: MISSING_GROUP_BY" in problems.pop("g")
    assert "sql is random, and the column is in a unique index" in problems.pop("h")
    assert "does not fit the table: UNSUPPORTED_GENERATOR" in problems.pop("j")
    assert problems == {}


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
