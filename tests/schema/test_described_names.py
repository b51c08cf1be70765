"""Other names for tables, in descriptions: names are renamed, values are not."""

from __future__ import annotations

import pytest

from pgsluice.schema.described_names import DescribedNames
from pgsluice.schema.renames import Renames

NAMES = DescribedNames(Renames({"public": "shop"}, {("s", "it's"): ("t", "it''s")}), {})


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("'public.read'::text", "'public.read'::text"),
        ("'it''s public.x, \"public\".\"y\"'", "'it''s public.x, \"public\".\"y\"'"),
        ('nextval(\'"public"."n"\'::"regclass")', 'nextval(\'"shop"."n"\'::"regclass")'),
        ("nextval('public.n'::regclass) + 1", 'nextval(\'"shop"."n"\'::regclass) + 1'),
        ("nextval('\"s\".\"it''s\"'::regclass)", "nextval('\"t\".\"it''''s\"'::regclass)"),
        ('\'public.a\' || "public"."f"(1)', '\'public.a\' || "shop"."f"(1)'),
    ],
)
def test_expressions(text: str, renamed: str) -> None:
    """Names in a default; also in the text that is cast to a relation."""
    column = {
        "kind": "table",
        "schema": "s",
        "name": "t",
        "columns": [{"default": text, "missing": "public.x"}],
    }
    found = NAMES.with_texts_renamed(column)["columns"][0]
    assert found == {"default": renamed, "missing": "public.x"}
