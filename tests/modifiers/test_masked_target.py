"""Masked rows in a PostgreSQL target: copied and streamed, by the driver and by tasks."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.cli.main import main
from pgsluice.errors import ConfigError, TransformError, UntypedValueError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from tests.modifiers.ruled import WAYS, forced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.pipeline.run import Pipeline
    from tests.fix_pg import Database

SALT = "a salt of tests"
PEOPLE = (
    "CREATE TABLE people"
    " (login text PRIMARY KEY, name text NOT NULL, mail text, born date, pay int, note text);"
    "CREATE TABLE pairs (a text, b text); ALTER TABLE pairs REPLICA IDENTITY FULL;"
    "CREATE TABLE plain (id int PRIMARY KEY, v text)"
)
RULES: list[dict[str, Any]] = [
    {
        "schema": "public",
        "table": "people",
        "column_transformers": {
            "login": {"name": "hash"},
            "name": {"name": "masking", "parameters": {"type": "name"}},
            "mail": {"name": "email", "parameters": {"exclude_domain": "kept.example"}},
            "born": {"name": "truncate", "parameters": {"part": "year"}},
            "pay": {"name": "bucket", "parameters": {"size": 100}},
            "note": {"name": "null"},
        },
    },
    {
        "schema": "public",
        "table": "pairs",
        "column_transformers": {"a": {"name": "masking"}, "b": {"name": "noop"}},
    },
]


def pipeline(
    source: Database,
    target: Database,
    state: Path,
    rules: object,
    batch: dict[str, Any] | None = None,
    **more: object,
) -> Pipeline:
    """What a configuration with these rules makes."""
    transformations = {"salt": SALT, "table_transformers": rules, **more}
    config = load_config(
        None,
        {},
        {
            "source.postgres.url": source.url,
            "source.postgres.replication.keyless": "full",
            "target": {"postgres": {"url": target.url}},
            "state_dir": str(state),
            "batch": batch or {},
            "modifiers": {"transformations": transformations},
        },
    )
    return build_pipeline(config, init=True)


def masked(login: str, name: str, mail: str | None, born: str, pay: int) -> tuple[Any, ...]:
    """A row as the target should have it, reckoned in Python."""

    def digest(text: str) -> str:
        return hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()

    words = [word[0] + "*" * (len(word) - 2) + word[-1] for word in name.split()]
    address = mail if mail and mail.endswith("@kept.example") else digest(mail or "")[:32] + "@example.com"
    return (
        digest(login),
        " ".join(words),
        None if mail is None else address,
        f"{born[:4]}-01-01",
        pay // 100 * 100,
        None,
    )


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_rows_are_masked_and_found_again(
    pair: tuple[Database, Database],
    tmp_path: Path,
    spark: SparkSession,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copied, inserted, updated (keys too) and deleted rows are those of a target that masks in Python."""
    source, target = pair
    source.run(*PEOPLE.split(";"))
    source.run(
        "INSERT INTO people SELECT 'canary' || n, 'Canary Bird' || n, 'canary' || n || '@sing.example',"
        " date '1990-05-17' + n, n * 37, 'canary note' FROM generate_series(1, 300) n",
        "INSERT INTO pairs SELECT 'canary' || n % 3, 'x' FROM generate_series(1, 9) n",
        "INSERT INTO plain VALUES (1, 'as it is')",
    )
    monkeypatch.setattr("pgsluice.pipeline.copy.SMALL_BYTES", WAYS[way])
    assert forced(pipeline(source, target, tmp_path, RULES), way).run(once=True)
    source.run(
        "UPDATE people SET login = 'moved-canary' || login WHERE pay % 2 = 0",
        "DELETE FROM people WHERE pay % 3 = 0",
        "UPDATE people SET name = 'Other Canary', mail = 'canary@kept.example', pay = 7 WHERE pay % 5 = 0",
        "INSERT INTO people SELECT 'late-canary' || n, 'Late Canary', NULL, date '2000-12-31', -1, NULL"
        " FROM generate_series(1, 50) n",
        "DELETE FROM pairs WHERE ctid IN (SELECT ctid FROM pairs WHERE a = 'canary1' LIMIT 2)",
        "UPDATE pairs SET a = 'longer canary' WHERE a = 'canary2'",
        "UPDATE plain SET v = 'still'",
    )
    assert forced(pipeline(source, target, tmp_path, RULES), way).run(once=True)

    plain = source.rows("SELECT login, name, mail, born::text, pay FROM people")
    found = target.rows("SELECT login, name, mail, born::text, pay, note FROM people")
    assert sorted(found, key=repr) == sorted((masked(*row) for row in plain), key=repr)
    pairs = [("*" * len(a), b) for a, b in source.rows("SELECT a, b FROM pairs")]
    assert sorted(target.rows("SELECT a, b FROM pairs")) == sorted(pairs)
    assert target.rows("SELECT * FROM plain") == [(1, "still")]
    print(f"\ncompared {len(found)} and {len(pairs)} rows")


@pytest.mark.spark
def test_faulty_rules_stop_before_anything_is_made(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """A random key: nothing is installed on the source, and nothing is made in the target."""
    source, target = pair
    source.run(*PEOPLE.split(";"))
    rules = [{"table": "people", "column_transformers": {"login": {"name": "string"}}}]
    with pytest.raises(ConfigError, match=r"public\.people\.login: string is random"):
        pipeline(source, target, tmp_path / "state", rules).run(once=True)
    schemas = "SELECT FROM pg_namespace WHERE nspname = 'pgsluice'"
    assert source.rows(schemas) == target.rows(schemas) == []
    assert not (tmp_path / "state").exists()


@pytest.mark.spark
def test_a_column_without_a_rule_stops_a_strict_run(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """Added while the pipeline is down: no value of it leaves."""
    source, target = pair
    source.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text)", "INSERT INTO people VALUES (1, 'canary')"
    )
    rules = [
        {"table": "people", "column_transformers": {"id": {"name": "noop"}, "name": {"name": "masking"}}}
    ]
    strict = {"validation_mode": "strict"}
    assert pipeline(source, target, tmp_path, rules, **strict).run(once=True)
    run = pipeline(source, target, tmp_path, rules, **strict)
    source.run("ALTER TABLE people ADD secret text", "INSERT INTO people VALUES (2, 'canary', 'canary too')")
    with pytest.raises(ConfigError, match=r"public\.people\.secret: has no rule, and validation is strict"):
        run.run(once=True)
    run._check = None  # as if it had come a moment later
    with pytest.raises(TransformError, match=r"public\.people has columns without a rule.*: secret"):
        run.run(once=True)
    assert "canary" not in str(target.rows("SELECT * FROM people"))


@pytest.mark.spark
def test_a_value_that_cannot_be_changed(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """It stops the run, without a word of the value; or becomes NULL where that is asked for."""
    source, target = pair
    source.run("CREATE TABLE people (id int PRIMARY KEY, born date)")
    rules = [
        {
            "table": "people",
            "column_transformers": {"born": {"name": "truncate", "parameters": {"part": "year"}}},
        }
    ]
    assert pipeline(source, target, tmp_path, rules).run(once=True)
    source.run("INSERT INTO people VALUES (1, '2000-05-05'), (2, '0044-03-15 BC')")
    with pytest.raises(
        TransformError, match=r"public\.people\.born has at .* change 2 a value that truncate"
    ) as stopped:
        pipeline(source, target, tmp_path, rules).run(once=True)
    assert "0044" not in str(stopped.value)
    assert target.rows("SELECT * FROM people") == []
    assert pipeline(source, target, tmp_path, rules, on_error="null").run(once=True)
    assert target.rows("SELECT id, born::text FROM people ORDER BY id") == [(1, "2000-01-01"), (2, None)]


@pytest.mark.spark
def test_what_commands_show(
    pair: tuple[Database, Database],
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``tail`` shows what targets get, and refuses a configuration without the rules."""
    source, target = pair
    source.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text); ALTER TABLE people REPLICA IDENTITY FULL"
    )
    rules = [{"table": "people", "column_transformers": {"name": {"name": "masking"}}}]
    state = tmp_path / "state"
    assert pipeline(source, target, state, rules).run(once=True)
    source.run("INSERT INTO people VALUES (1, 'canary')", "DELETE FROM people")
    assert pipeline(source, target, state, rules).run(once=True)
    tail = ["tail", "--state-dir", str(state), "--from", "earliest", "--limit", "2", "--json"]
    assert main(tail) == 2
    shown = capsys.readouterr()
    assert "changes values, and this configuration has no rules" in shown.err
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps({"modifiers": {"transformations": {"table_transformers": rules}}}))
    assert main([*tail, "-c", str(file)]) == 0
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["values"] or line["old"] for line in lines] == [{"id": "1", "name": "******"}] * 2
    assert "canary" not in shown.out + shown.err


@pytest.mark.spark
def test_rules_stay_with_what_is_renamed(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession
) -> None:
    """Columns and tables that get other names while the pipeline is down, or others that take theirs."""
    source, target = pair
    source.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text)", "INSERT INTO people VALUES (1, 'canary')"
    )
    rules = [{"table": "people", "column_transformers": {"name": {"name": "masking"}}}]
    first = pipeline(source, target, tmp_path, rules)
    assert first.run(once=True)
    source.run("INSERT INTO people VALUES (2, 'canary')", "ALTER TABLE people RENAME name TO title")
    with pytest.raises(ConfigError, match=r"public\.people\.name: the table has no such column"):
        pipeline(source, target, tmp_path, rules).run(once=True)
    first._check = None  # it goes on as if the change had come while it ran, with what it learnt
    source.run(
        "INSERT INTO people VALUES (3, 'canary')",
        "ALTER TABLE people RENAME TO folk",
        "INSERT INTO folk VALUES (4, 'canary')",
        "CREATE TABLE people (id int PRIMARY KEY, name text)",
        "INSERT INTO people VALUES (5, 'canary')",
    )
    assert first.run(once=True)
    source.run("UPDATE folk SET title = 'canary birds'", "INSERT INTO people VALUES (6, 'canary')")
    assert first.run(once=True)
    assert target.rows("SELECT * FROM folk ORDER BY id") == [(n, "*" * 12) for n in (1, 2, 3, 4)]
    assert target.rows("SELECT * FROM people ORDER BY id") == [(n, "*" * 6) for n in (5, 6)]
    # The state directory has the numbers. Without them nobody can tell: it stops.
    late = [{"table": "folk", "column_transformers": {"name": {"name": "masking"}}}]
    known = pipeline(source, target, tmp_path, late)
    known._check = None
    source.run("INSERT INTO folk VALUES (7, 'canary')")
    assert known.run(once=True)
    assert target.rows("SELECT title FROM folk WHERE id = 7") == [("*" * 6,)]
    (tmp_path / "rules.json").unlink()
    blind = pipeline(source, target, tmp_path, late)
    blind._check = None
    source.run("INSERT INTO folk VALUES (8, 'canary')")
    with pytest.raises(TransformError, match=r"public\.folk has no column name, which a rule is for"):
        blind.run(once=True)
    assert "canary" not in str(target.rows("SELECT * FROM folk"))


@pytest.mark.spark
def test_expressions_of_users(pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession) -> None:
    """Over typed columns of the row, new and old; large values that did not change."""
    source, target = pair
    source.run(
        "CREATE TABLE things (id int PRIMARY KEY, n int, price numeric, part numeric(10, 2), b boolean,"
        ' d date, t timestamptz, "Odd ""name" text, raw bytea, large text)',
        "ALTER TABLE things REPLICA IDENTITY FULL",
        "CREATE TABLE wide (id int PRIMARY KEY, large text, short text)",
    )
    expressions = {
        "n": "n + id",
        "price": "price * 2",
        "part": "case when b then part else 0 end",
        "b": "not b",
        "d": "date_add(d, id)",
        "t": "t + interval 1 hour",
        'Odd "name': "concat(upper(`Odd \"name`), '-', id, '$')",
        "raw": "substring(raw, 1, 1)",
        "large": "concat(left(large, 2), length(large))",
    }
    rules = [
        {
            "table": "things",
            "column_transformers": {
                name: {"name": "sql", "parameters": {"expression": text}}
                for name, text in expressions.items()
            },
        },
        {
            "table": "wide",
            "column_transformers": {
                "large": {"name": "sql", "parameters": {"expression": "left(large, 3)"}},
                "short": {"name": "sql", "parameters": {"expression": "coalesce(short, large)"}},
            },
        },
    ]
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
    row = f"2, 1.5, 3.25, true, '2024-02-28', '2024-02-28 23:30:00+00', 'green', '\\x0a0b', {large}"
    source.run(f"INSERT INTO things VALUES (1, {row})", f"INSERT INTO wide VALUES (1, {large}, 'x')")
    assert pipeline(source, target, tmp_path, rules).run(once=True)
    source.run(
        f"INSERT INTO things VALUES (2, {row})",
        "INSERT INTO things VALUES (3)",
        "UPDATE things SET n = 7 WHERE id = 1",
        "DELETE FROM things WHERE id = 3",
    )
    assert pipeline(source, target, tmp_path, rules).run(once=True)
    wanted = (
        "SELECT id, n + id, price * 2, part, NOT b, d + id, t + interval '1 hour',"
        " upper(\"Odd \"\"name\") || '-' || id || '$', substring(raw, 1, 1),"
        " left(large, 2) || length(large) FROM things ORDER BY id"
    )
    assert target.rows("SELECT * FROM things ORDER BY id") == source.rows(wanted)
    assert target.rows("SELECT large FROM wide") == [("c4c",)]
    # What an expression needs was not sent, and nobody knows it: it stops rather than guess.
    source.run("UPDATE wide SET id = 2")
    with pytest.raises(UntypedValueError, match=r"public\.wide names a large value that did not change"):
        pipeline(source, target, tmp_path, rules).run(once=True)


def test_secrets_of_rules_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by ``config show`` nor in the words of a configuration as Python prints it."""
    rules = {
        "a": {"name": "encrypted_aes_siv", "parameters": {"key_hex": "ca" * 64}},
        "b": {"name": "neosync_firstname", "parameters": {"seed": "canary"}},
        "c": {"name": "email", "parameters": {"salt": "canary", "replacement_domain": "@shown.example"}},
        "d": {"name": "python", "parameters": {"function": "os.path:join", "arguments": {"x": "canary"}}},
    }
    file = tmp_path / "pipeline.yaml"
    tables = [{"schema": "shop", "table": "people", "column_transformers": rules}]
    file.write_text(
        json.dumps({"modifiers": {"transformations": {"salt": "canary", "table_transformers": tables}}})
    )
    for options in ([], ["--json"]):
        assert main(["config", "show", "-c", str(file), *options]) == 0
        shown = capsys.readouterr().out
        assert "@shown.example" in shown
        assert "canary" not in shown
        assert "caca" not in shown
    config = load_config(file, {}, {})
    assert "canary" not in repr(config)
    assert "caca" not in repr(config)
