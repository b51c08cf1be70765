"""Results that are NULL or too long: where a column takes them, and what stands for them elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.pipeline.modify import transformers
from pgsluice.schema.table import PgType
from pgsluice.schema.table_facts import ColumnFacts, TableFacts, version_of
from tests.modifiers.test_functions import entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT, SHORT = PgType(25, "text"), PgType(1043, "varchar", typmod=4 + 30)


def facts(**columns: tuple[PgType, bool]) -> TableFacts:
    """A table with types of columns and whether they are NOT NULL."""
    made = tuple(
        ColumnFacts(name, type_, not_null, number, generated=False, made_from=frozenset())
        for number, (name, (type_, not_null)) in enumerate(columns.items(), start=1)
    )
    return TableFacts(7, "public", "t", "f", made, frozenset(), (), has_family=False)


def changed(
    spark: SparkSession, table: TableFacts, rules: dict[str, Any], row: list[str | None], **more: Any
) -> Any:
    """A row after the rules."""
    tables = [{"table": "t", "column_transformers": rules}]
    chain = Chain(
        transformers(Transformations.model_validate({"table_transformers": tables, **more}), lambda: b"salt")
    )
    for each in chain.of_kind(ArrowTransformer):
        each.reach.know([table])
    rows = entries([(1, row, None)])
    at = rows.schema.get_field_index("commit_lsn")
    rows = rows.set_column(at, rows.schema.field(at), pa.array([1], rows.schema.field(at).type))
    version = version_of(table)
    unnumbered = replace(version, columns=tuple(replace(each, number=0) for each in version.columns))
    first, found = (chain.of({1: each}).apply_local(rows, lambda: spark) for each in (version, unnumbered))
    assert [text is None for text in first["values"][0].as_py()] == [
        text is None for text in found["values"][0].as_py()
    ]
    return found["values"].to_pylist()[0]


@pytest.mark.spark
def test_null_as_a_result(spark: SparkSession) -> None:
    """Of an expression and of an address: kept where the column allows it, else what on_error says."""
    table = facts(a=(TEXT, False), b=(TEXT, True))
    expression = {"name": "sql", "parameters": {"expression": "nullif(a, a)"}}
    mail = {"name": "neosync_email", "parameters": {"invalid_email_action": "null"}}
    plain: dict[str, Any] = {"on_error": "pass_through", "allow_plain": True}
    for rule in (expression, mail):
        for more in ({}, plain, {"on_error": "null"}):
            assert changed(spark, table, {"a": rule}, ["canary", "x"], **more) == [None, "x"]
        assert changed(spark, table, {"b": rule}, ["canary", "x"], **plain) == ["canary", "x"]
        with pytest.raises(Exception, match=r"public\.t\.b has at .* a value that") as stopped:
            changed(spark, table, {"b": rule}, ["canary", "x"])
        assert "canary" not in str(stopped.value)


@pytest.mark.spark
def test_texts_that_are_too_long(spark: SparkSession) -> None:
    """Cut where values are lost anyway; else they can't be changed: what tells them apart is not lost."""
    table = facts(a=(SHORT, False), b=(SHORT, False))
    key = {"key_hex": "ab" * 64}
    names = {"name": "neosync_fullname", "parameters": {"max_length": 1000, "preserve_length": True}}
    made = changed(spark, table, {"a": names}, ["x" * 40, None])
    assert len(made[0]) == 30
    longer = {"name": "sql", "parameters": {"expression": "concat(a, a)"}}
    encrypted = {"name": "encrypted_aes_siv", "parameters": key}
    for rule in (longer, encrypted):
        assert len(changed(spark, table, {"a": rule}, ["abcde", None])[0]) in (10, 28)
        assert changed(spark, table, {"a": rule}, ["x" * 20, None], on_error="null") == [None, None]
        with pytest.raises(Exception, match=r"public\.t\.a has .*a value that"):
            changed(spark, table, {"a": rule}, ["x" * 20, None])


def test_plain_values_need_a_word() -> None:
    """passthrough of what is no address, and pass_through in every spelling, need allow_plain."""
    mail = {"name": "neosync_email", "parameters": {"invalid_email_action": "passthrough"}}
    tables = [{"table": "t", "column_transformers": {"a": mail}}]
    with pytest.raises(ValueError, match=r"neosync_email of public\.t\.a lets plain values leave"):
        Transformations.model_validate({"table_transformers": tables})
    assert Transformations.model_validate({"table_transformers": tables, "allow_plain": True})
    for spelling in ("pass_through", "pass-through"):
        with pytest.raises(ValueError, match="needs allow_plain: true"):
            Transformations.model_validate({"on_error": spelling})
        assert Transformations.model_validate({"on_error": spelling, "allow_plain": True}).on_error == (
            "pass_through"
        )
    assert Transformations.model_validate({"on_error": "fail"}).on_error == "stop"
