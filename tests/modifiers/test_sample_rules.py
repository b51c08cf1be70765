"""The sample of rules, which has the form of pgstream's, from end to end; and rules that labels give."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pgsluice.cli.main import main
from pgsluice.errors import ConfigError
from pgsluice.pipeline.anon import rule_of_label
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from pgsluice.schema.table import PgType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

SAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "postgres-to-postgres-masked.yaml"
SHOP = (
    """CREATE TABLE customers (id int PRIMARY KEY, email text NOT NULL UNIQUE, first_name text, gender text,
       card varchar(19), phone text, born date, profile jsonb, note text, token text, score int)""",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_email text UNIQUE, address text, total numeric)",
)
CUSTOMER = """
    INSERT INTO customers SELECT n, 'canary' || n || '@shop.example', 'Canary', 'Female',
        '4111-' || lpad(n::text, 12, '0'), 'canary', '2020-05-17',
        '{"address": {"street": "Canary", "city": "X"}, "nickname": "canary", "history": ["canary"]}',
        'canary', 'abcanarycanaryz', n
    FROM generate_series(FIRST, LAST) n
"""
ORDER = """
    INSERT INTO orders SELECT n, 'canary' || n || '@shop.example', 'Canary', n
    FROM generate_series(FIRST, LAST) n
"""


def rows_of(statement: str, first: int, last: int) -> str:
    """A statement that inserts rows with these numbers."""
    return statement.replace("FIRST", str(first)).replace("LAST", str(last))


@pytest.mark.spark
def test_the_sample(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copied, streamed, updated and deleted rows: no canary gets through, and what should stay stays."""
    source, target = pair
    source.run(*SHOP, rows_of(CUSTOMER, 1, 50), rows_of(ORDER, 1, 50))
    environment = {
        "SOURCE_URL": source.url, "TARGET_URL": target.url, "RULES_SALT": "salt", "CARD_KEY": "ab" * 16,
    }  # fmt: skip

    def run(**flags: Any) -> None:
        config = load_config(SAMPLE, environment, {"state_dir": str(tmp_path), **flags})
        assert config.modifiers.transformations.on_error == "stop"  # its spelling is fail
        assert build_pipeline(config, init=True).run(once=True)

    run()
    source.run(rows_of(CUSTOMER, 51, 80), rows_of(ORDER, 51, 80))
    source.run(
        "UPDATE customers SET note = '', phone = NULL WHERE id <= 5", "DELETE FROM customers WHERE id = 80"
    )
    run()
    customers = target.rows("SELECT * FROM customers ORDER BY id")
    assert [row[0] for row in customers] == list(range(1, 80))
    assert "anary" not in str(customers + target.rows("SELECT * FROM orders"))
    for id_, mail, name, gender, card, phone, born, profile, note, token, score in customers:
        assert re.fullmatch(r"[0-9a-f]+@shop\.example", mail)
        assert name.isalpha()
        assert gender == "Female"
        assert re.fullmatch(r"4111-\d{12}", card)
        assert phone is None if id_ <= 5 else re.fullmatch(r"\+49\d{6,9}", phone)
        assert 1950 <= born.year <= 2005
        assert profile == {"address": {"street": "Main Street 1", "city": "X"}, "nickname": "C"}
        assert note == ("nothing" if id_ <= 5 else f"Female: {hashlib.sha256(b'canary').hexdigest()[:8]}")
        assert token == "ab" + "*" * 10 + "ryz"
        assert score is None
    assert len({row[4] for row in customers}) == len(customers)
    # The same address gives the same in both tables.
    joined = "SELECT count(*) FROM customers JOIN orders ON email = customer_email"
    assert target.rows(joined) == [(79,)]
    for way in (["--preview", "1"], ["--json"]):
        line = ["validate", "rules", "-f", str(SAMPLE.parent / "rules" / "shop.yaml"), *way]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CARD_KEY", "ab" * 16)
            assert main([*line, "--source-url", source.url]) == 0, capsys.readouterr().out


def test_validation_by_table(tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """Under table_level each table says whether all of its columns need a rule."""
    database.run("CREATE TABLE a (id int PRIMARY KEY, b text)", "CREATE TABLE c (id int PRIMARY KEY, d text)")
    rules: dict[str, Any] = {
        "validation_mode": "table_level",
        "table_transformers": [
            {"table": "a", "validation_mode": "strict", "column_transformers": {"b": {"name": "hash"}}},
            {"table": "c", "validation_mode": "relaxed"},
        ],
    }
    file = tmp_path / "rules.yaml"

    def problems() -> str:
        file.write_text(yaml.safe_dump({"transformations": rules}))
        assert main(["validate", "rules", "-f", str(file), "--source-url", database.url]) == 1
        return capsys.readouterr().out

    assert problems().count("error") == 1
    assert "public.a.id: has no rule, and validation is strict" in problems()
    del rules["table_transformers"][1]["validation_mode"]
    assert "public.c needs a validation_mode under table_level" in problems()


@pytest.mark.parametrize(
    ("label", "kind", "rule"),
    [
        ("MASKED WITH FUNCTION anon.fake_first_name()", "text", {"name": "neosync_firstname"}),
        ("masked with function anon.dummy_last_name ( )", "text", {"name": "neosync_lastname"}),
        ("MASKED WITH FUNCTION anon.fake_email()", "text",
         {"name": "neosync_email", "parameters": {"invalid_email_action": "generate"}}),
        ("MASKED WITH FUNCTION anon.hash(c)", "text", {"name": "hash"}),
        ("MASKED WITH FUNCTION anon.partial_email(c)", "text",
         {"name": "masking", "parameters": {"type": "email"}}),
        ("MASKED WITH FUNCTION anon.random_string(12)", "text",
         {"name": "greenmask_string", "parameters": {"min_length": 12, "max_length": 12}}),
        ("MASKED WITH FUNCTION anon.random_int_between(-1, 9)", "int4",
         {"name": "greenmask_integer", "parameters": {"min_value": -1, "max_value": 9}}),
        ("MASKED WITH FUNCTION anon.random_date_between('2020-01-01'::date, '2021-01-01')", "date",
         {"name": "greenmask_date", "parameters": {"min_value": "2020-01-01", "max_value": "2021-01-01"}}),
        ("MASKED WITH FUNCTION anon.random_date_between($$2020-01-01$$, $$2021-01-01$$)", "timestamp",
         {"name": "greenmask_utc_timestamp",
          "parameters": {"min_timestamp": "2020-01-01", "max_timestamp": "2021-01-01"}}),
        ("MASKED WITH FUNCTION anon.lorem_ipsum(words := 5)", "text", None),
        ("MASKED WITH FUNCTION anon.lorem_ipsum()", "text", {"name": "string"}),
        ("MASKED WITH VALUE NULL", "text", {"name": "null"}),
        ("MASKED WITH VALUE 'it''s'", "text", {"name": "literal_string", "parameters": {"literal": "it's"}}),
        ("MASKED WITH VALUE $$CONFIDENTIAL$$", "text",
         {"name": "literal_string", "parameters": {"literal": "CONFIDENTIAL"}}),
        ("MASKED WITH VALUE 7", "int4", {"name": "literal_string", "parameters": {"literal": "7"}}),
        ("NOT MASKED", "text", {"name": "noop"}),
        ("MASKED", "text", None),
        ("MASKED WITH FUNCTION anon.dnoise(c, '1 day')", "date", None),
        ("MASKED WITH FUNCTION pg_catalog.md5(c)", "text", None),
        ("MASKED WITH FUNCTION anon.random_string(now())", "text", None),
        ("MASKED WITH FUNCTION anon.partial(d, 1, 'x', 1)", "text", None),
        ("MASKED WITH VALUE 1 + 1", "int4", None),
    ],
)  # fmt: skip
def test_labels(label: str, kind: str, rule: dict[str, Any] | None) -> None:
    """Each becomes the rule that comes nearest, or is not understood."""
    if rule is not None:
        assert rule_of_label(label, "c", PgType(0, kind)) == rule
        return
    with pytest.raises(ValueError, match="its security label"):
        rule_of_label(label, "c", PgType(0, kind))


@pytest.mark.spark
def test_labels_of_a_source(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Rules that stand in the catalog, from where they are read; a rule of the configuration goes before them.

    The extension can't be had here, and SECURITY LABEL needs it: the rows of its catalog are made by hand.
    """
    source, target = pair
    source.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text, iban text, mail text, note text, plain text)",
        "CREATE TABLE beside (id int PRIMARY KEY, v text)",
        "INSERT INTO people VALUES (1, 'canary', 'DE0012345678', 'canary@x.y', 'canary', 'as it is'),"
        " (2, 'canary', 'DE00', 'canary@x.y', 'canary', 'as it is')",
    )

    def label(table: str, column: str, text: str) -> None:
        source.run(
            "SET allow_system_table_mods = on",
            "INSERT INTO pg_seclabel SELECT attrelid, 'pg_class'::regclass, attnum, 'anon', "
            f"$label${text}$label$ FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attname = '{column}'",
        )

    label("people", "name", "MASKED WITH VALUE $$HIDDEN$$")
    label("people", "iban", "MASKED WITH FUNCTION anon.partial(iban, 2, $$***$$, 2)")
    label("people", "mail", "MASKED WITH FUNCTION anon.fake_email()")
    label("people", "note", "MASKED WITH FUNCTION anon.dnoise(note, '1')")
    label("beside", "v", "MASKED WITH FUNCTION anon.nothing()")
    rules: dict[str, Any] = {
        "infer_from_security_labels": True,
        "dump_inferred_rules": True,
        "table_transformers": [{"table": "people", "column_transformers": {"mail": {"name": "masking"}}}],
    }
    flags = {
        "source.postgres.url": source.url,
        "target": {"postgres": {"url": target.url}},
        "state_dir": str(tmp_path / "state"),
        "modifiers": {"filter": {"exclude_tables": ["public.beside"]}, "transformations": rules},
    }
    with pytest.raises(
        ConfigError, match=r"public\.people\.note: its security label .* dnoise has no transformer"
    ):
        build_pipeline(load_config(None, {}, flags), init=True)
    config = tmp_path / "pipeline.yaml"
    config.write_text(yaml.safe_dump({"modifiers": flags["modifiers"]}))
    assert main(["validate", "rules", "-c", str(config), "--source-url", source.url]) == 1
    assert "public.people.note: its security label" in capsys.readouterr().out
    rules["table_transformers"][0]["column_transformers"]["note"] = {"name": "null"}
    assert build_pipeline(load_config(None, {}, flags), init=True).run(once=True)
    assert target.rows("SELECT * FROM people ORDER BY id") == [
        (1, "HIDDEN", "DE***78", "**********", None, "as it is"),
        (2, "HIDDEN", "***", "**********", None, "as it is"),
    ]
    dumped = yaml.safe_load((tmp_path / "state" / "inferred_rules.yaml").read_text())
    (table,) = dumped["transformations"]["table_transformers"]
    assert list(table["column_transformers"]) == ["name", "iban"]
