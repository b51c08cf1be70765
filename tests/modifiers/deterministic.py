"""
What every deterministic transformer makes of some values, in two tables; as a program it prints that as JSON.

Another process has to come to the same.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.modifiers.transforms.registry import BUILT_IN, make
from pgsluice.pipeline.modify import transformers
from pgsluice.schema.table import Column, PgType, TableVersion
from tests.modifiers.test_functions import REVERSED, entries
from tests.modifiers.test_transforms import CASES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "encrypted_aes_siv": ("text", ("abc", "ü"), {"key_hex": "ab" * 64}),
    "fpe_ff1": ("text", ("1234-5678", "abcdefgh"), {"key_hex": "ab" * 16}),
    "hstore": (
        "hstore",
        ('"a"=>"1"', '"b"=>"2"'),
        {"operations": [{"operation": "set", "key": "a", "value_template": "{{ sha256sum .GetValue }}"}]},
    ),
    "json": (
        "jsonb",
        ('{"a": "x"}', "{}"),
        {"operations": [{"operation": "set", "path": "a", "value_template": '"{{ sha256sum .GetValue }}"'}]},
    ),
    "python": ("text", ("abc", "def"), {"function": REVERSED, "deterministic": True}),
}


class Names:
    """What is chosen from."""

    def values(self, choice: object) -> tuple[str, ...]:
        """A hundred texts."""
        return tuple(f"v{number}" for number in range(100))


def columns() -> dict[str, tuple[str, tuple[str, ...], dict[str, Any]]]:
    """By transformer: the type, values and parameters under which it is deterministic."""
    found = dict(_ARROW)
    for case in CASES:
        if case.name in found or not case.name or case.others:
            continue
        fields = BUILT_IN[case.name].model_fields
        more = (
            {"generator": "deterministic"}
            if "generator" in fields
            else {"seed": 7}
            if "seed" in fields
            else {}
        )
        parameters = {**case.parameters, **more}
        if case.name == "template":
            parameters = {"template": "{{ .GetValue | sha256sum }}"}
        if case.name == "sql":
            parameters = {"expression": f"sha2({case.name}, 256)"}
        if make(case.name, parameters).is_deterministic:
            found[case.name] = case.type, tuple(map(str, case.values)), parameters
    found["template"] = "text", ("a", "b"), {"template": "{{ .GetValue | sha256sum }}"}
    return found


def changed(spark: SparkSession) -> dict[str, dict[str, list[Any]]]:
    """By table and transformer: the values after the rules, as new ones and as old ones."""
    given = columns()
    rules = {name: {"name": name, "parameters": parameters} for name, (_, _, parameters) in given.items()}
    tables = {
        number: TableVersion(
            number, number, "public", f"t{number}", "f",
            tuple(
                Column(name, PgType(0, kind), in_identity=False, number=i)
                for i, (name, (kind, _, _)) in enumerate(given.items(), start=1)
            ),
        )
        for number in (1, 2)
    }  # fmt: skip
    ruled = [{"table": table.name, "column_transformers": rules} for table in tables.values()]
    parsed = Transformations.model_validate({"table_transformers": ruled, "on_error": "null"})
    chain = Chain(transformers(parsed, lambda: b"a salt", Names()))
    rows = [[values[i % len(values)] for _, values, _ in given.values()] for i in range(2)]
    table = entries([(number, row, row) for number in tables for row in rows])
    made = chain.of(tables).apply_local(table, lambda: spark)
    found: dict[str, dict[str, list[Any]]] = {}
    for relation, new, old in zip(
        made["relation"].to_pylist(), made["values"].to_pylist(), made["old"].to_pylist(), strict=True
    ):
        for name, value, before in zip(given, new, old, strict=True):
            found.setdefault(f"t{relation}", {}).setdefault(name, []).extend([value, before])
    return found


if __name__ == "__main__":
    from pgsluice.pipeline.session import SparkOptions, start_session

    session = start_session(SparkOptions(master="local[1]"))
    json.dump(changed(session), sys.stdout)
    session.stop()
