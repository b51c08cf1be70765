"""Templates: what they give, by SQL and by Python alike, and what is refused when they are read."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest

from pgsluice.modifiers.transforms.gotemplate.evaluate import as_sql, in_python
from pgsluice.modifiers.transforms.gotemplate.nodes import names_in
from pgsluice.modifiers.transforms.gotemplate.parse import parse
from pgsluice.modifiers.transforms.registry import make
from pgsluice.modifiers.transforms.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IF = '{{- if eq .GetValue "hello" -}} first {{- else -}} second {{- end -}}'
CHAINED = (
    '{{ if eq .GetValue "a" "b" }}AB{{ else if hasPrefix "hel" .GetValue }}H{{ else }}'
    "{{ if .GetValue }}?{{ else }}empty{{ end }}{{ end }}!"
)
# A template, a value, and what comes of it.
CASES = [
    ("hello world", "x", "hello world"),
    (IF, "hello", "first"),
    (IF, "world", "second"),
    (CHAINED, "b", "AB!"),
    (CHAINED, "help", "H!"),
    (CHAINED, "x", "?!"),
    (CHAINED, "", "empty!"),
    ("{{ .GetValue }}", "it's ${spark.app.name}", "it's ${spark.app.name}"),
    ("<{{ .GetValue | trim | upper }}>", " \t grüße\n", "<GRÜSSE>"),
    ("{{ lower (trunc 3 .GetValue) }}", "ABCDE", "abc"),
    ("{{ trunc -3 .GetValue }}{{/* a comment */}}", "ABCDE", "CDE"),
    ("{{ trunc -9 .GetValue }}", "ABCDE", "ABCDE"),
    ("{{ .GetValue | substr 1 3 }}", "ABCDE", "BC"),
    ("{{ .GetValue | substr 2 -1 }}", "ABCDE", "CDE"),
    ('{{ .GetValue | replace "$1" "\\\\" }}', "a$1b", "a\\b"),
    ('{{ .GetValue | default "none" }}', "", "none"),
    ('{{ .GetValue | default "none" }}', "x", "x"),
    ('{{ printf "%s is %d%% of %v" .GetValue 5 "it" }}', "x", "x is 5% of it"),
    ("{{ sha256sum .GetValue }}", "ä", hashlib.sha256("ä".encode()).hexdigest()),
    ("{{ .GetValue | quote }}", 'say "ä\\"\n', '"say \\"ä\\\\\\"\\n"'),
    ("{{ repeat 3 `-` }}{{ len .GetValue }}{{ true }}", "ä", "---2true"),
    ('{{ .GetValue | trimPrefix "a" | trimSuffix "." }}', "aab.", "ab"),
    ('{{ if and (contains "b" .GetValue) (not (ne .GetValue "abc")) }}y{{ end }}', "abc", "y"),
    ('{{ if or (hasSuffix "z" .GetValue) false }}y{{ end }}', "abc", ""),
]


@pytest.mark.spark
def test_what_they_give(spark: SparkSession) -> None:
    """By SQL, all in one query, and by Python."""
    nodes = [parse(template) for template, _, _ in CASES]
    columns = [
        f"transform(array({quoted(value)}), v -> {as_sql(node, 'v', {})})[0] as c{number}"
        for number, (node, (_, value, _)) in enumerate(zip(nodes, CASES, strict=True))
    ]
    made = list(spark.range(1).selectExpr(*columns).collect()[0])
    for node, found, (template, value, wanted) in zip(nodes, made, CASES, strict=True):
        assert in_python(node, value) == wanted, template
        assert found == wanted, template


def test_other_columns() -> None:
    """They are named, wherever they stand."""
    node = parse('{{ if eq (.GetDynamicValue "a") "x" }}{{ .GetDynamicValue `b c` | lower }}{{ end }}')
    assert set(names_in(node)) == {"a", "b c"}
    assert as_sql(node, "v", {"a": "A", "b c": "B"}) == "if((A = 'x'), lower(B), '')"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ .GetValue | shuffle }}", "the function shuffle is not known in templates here"),
        ("{{ masking .GetValue }}", "the function masking is not known"),
        ("{{ $x := .GetValue }}", "$x is not known"),
        ("{{ .Other }}", ".Other is not known"),
        ("{{ range .GetValue }}{{ end }}", "the function range is not known"),
        ("{{ if .GetValue }}", "an if has no end"),
        ("{{ end }}", "end stands without an if"),
        ("{{ else }}", "else stands without an if"),
        ("{{ if eq syntaxerror", "{{ has no }}"),
        ("{{ }}", "an action is empty"),
        ("{{ trunc .GetValue 3 }}", "trunc needs a literal"),
        ("{{ trunc `3` .GetValue }}", "trunc takes a number, and a text is given"),
        ("{{ upper 3 }}", "upper takes a text, and a number is given"),
        ("{{ upper }}", "upper takes 1 values, and 0 are given"),
        ('{{ printf "%x" .GetValue }}', "not %x"),
        ('{{ printf "%d" .GetValue }}', "printf %d takes a number, and a text is given"),
        ('{{ printf "%s" }}', "more verbs than values"),
        ("{{ .GetDynamicValue }}", "needs the name of a column"),
        ('{{ .GetValue | "x" }}', "is no function"),
        ("{{ (upper .GetValue }}", "( has no )"),
        ('{{ "\\x41" }}', "an escape that is not known"),
    ],
)
def test_what_is_refused(template: str, words: str) -> None:
    """By its name, when the rules are read."""
    with pytest.raises(ValueError, match=re.escape(words)):
        make("template", {"template": template})
