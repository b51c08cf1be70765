"""What each transform makes of values, in Spark; digests and draws are checked against Python's own."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.modifiers.transforms.base import ArrowTransform, Cell
from pgsluice.modifiers.transforms.people import first_names, last_names
from pgsluice.modifiers.transforms.registry import BUILT_IN, make
from pgsluice.modifiers.transforms.sql import hmac_sha256, quoted
from pgsluice.schema.table import PgType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = b"a key of tests"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
RANGE = {"min_timestamp": "2020-01-01T00:00:00Z", "max_timestamp": "2020-12-31T00:00:00Z"}
SAME = {"generator": "deterministic"}


def digest(text: str) -> str:
    """HMAC-SHA256, by Python."""
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()


def address(text: str, domain: str = "example.com") -> str:
    """What stands in an address's place."""
    return f"{digest(text)[:32]}@{domain}"


QUOTES = 'a"b\\,@c'


@dataclass(frozen=True)
class Case:
    """A transform of some values, and what comes out: texts, or a pattern that all match."""

    name: str
    type: str
    values: tuple[str, ...]
    gives: tuple[str | None, ...] | str
    parameters: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    def sql(self, value: str = "v", key: bytes = KEY) -> str:
        """The expression."""
        element = PgType(0, self.type.removesuffix("[]")) if self.type.endswith("[]") else None
        type_ = PgType(0, self.type, element=element)
        cell = Cell(value, type_, key, self.others, lookup=lambda _: ("x", "", "it's $1", "\ue000"))
        return make(self.name, self.parameters).sql(cell)


CASES = [
    Case("", "text", ("a",), ("a",)),
    Case("noop", "text", ("a",), ("a",)),
    Case("null", "text", ("a",), (None,)),
    Case("literal_string", "text", ("a",), ("it's $5 ${spark.app.name} \\ \n",),
         {"literal": "it's $5 ${spark.app.name} \\ \n"}),
    Case("hash", "text", ("a", "Grüße", ""), (digest("a"), digest("Grüße"), digest(""))),
    Case("hash", "bytea", ("\\x00",), ("\\x" + digest("\\x00"),)),
    Case("hash", "text", ("a",), (digest("a")[:32],), {"length": 32}),
    Case("truncate", "text", ("abcd", "a"), ("ab", "a"), {"length": 2}),
    Case("truncate", "date", ("2024-05-17", "infinity", "0044-03-15 BC"), ("2024-05-01", None, None),
         {"part": "month"}),
    Case("truncate", "timestamptz", ("2024-05-17 10:11:12.345+00",), ("2024-05-17 10:00:00+00",),
         {"part": "hour"}),
    Case("truncate", "timestamp", ("2024-05-17 10:11:12.345",), ("2024-01-01 00:00:00",), {"part": "year"}),
    Case("bucket", "int8", ("37", "-3", "30", str(-(2**63))), ("30", "-10", "30", None), {"size": 10}),
    Case("bucket", "numeric", ("3.7", "-0.1", "NaN"), ("3.500000", "-0.500000", None), {"size": "0.5"}),
    Case("shift", "date", ("infinity",), (None,)),
    Case("shift", "date", ("2024-05-17",), ("2024-05-20",), {"min_days": 3, "max_days": 3}),
    Case("shift", "timestamptz", ("2024-02-28 10:11:12.345+00",), ("2024-02-29 10:11:12.345+00",),
         {"min_days": 1, "max_days": 1}),
    Case("sql", "text", ("a",), ("a!",), {"expression": "concat(v, '!')"}),
    Case("template", "text", ("Ab",), ("ab-DE",),
         {"template": '{{ .GetValue | lower }}-{{ .GetDynamicValue "land" }}'}, {"land": "'DE'"}),
    Case("lookup_choice", "text", tuple("abcdefgh"), "x||it's \\$1|\ue000",
         {"lookup_table": "t", "lookup_column": "c"}),
    Case("masking", "text", ("abc", "", "äöü"), ("***", "", "***")),
    Case("masking", "text", ("abc",), ("************",), {"type": "password"}),
    Case("masking", "text", ("John Robert Doe", "Al B"), ("J**n R****t D*e", "A* *"), {"type": "name"}),
    Case("masking", "text", ("jane.doe@example.com", "j@x.y", "none"), ("j*******@example.com", "*@x.y", "*"),
         {"type": "email"}),
    Case("masking", "text", ("4111111111111111", "411"), ("411111******1111", "***"),
         {"type": "credit_card"}),
    Case("masking", "text", ("0987654321",), ("0987***321",), {"type": "mobile"}),
    Case("masking", "text", ("0227993078",), ("******3078",), {"type": "tel"}),
    Case("masking", "text", ("A123456789",), ("A12345****",), {"type": "id"}),
    Case("masking", "text", ("https://u:p@host/x",), ("https://*@host/x",), {"type": "url"}),
    Case("masking", "text", ("12 Long Street", "1"), ("12 Lon********", "1******"), {"type": "address"}),
    Case("masking", "text", ("abcdefgh",), ("ab**efgh",),
         {"type": "custom", "mask_begin": 2, "mask_end": "4"}),
    Case("masking", "text", ("abcdefgh",), ("**cdef**",),
         {"type": "custom", "unmask_begin": "25%", "unmask_end": "75%"}),
    Case("masking", "text", ("ab", "abc"), ("**", "ab*"),
         {"type": "custom", "mask_begin": 2, "mask_end": "4"}),
    Case("masking", "text", ("abc", "abcde"), ("***", "abcd*"), {"type": "custom", "unmask_end": 4}),
    Case("literal_string", "bool", ("t",), ("f",), {"literal": "no"}),
    Case("literal_string", "timestamptz", ("x",), ("2024-01-31 22:30:00.5+00",),
         {"literal": "2024-02-01T00:30:00.500+02:00"}),
    Case("greenmask_choice", "int4", ("1",), ("7",), {"choices": ["+07"]}),
    Case("sql", "bool", ("t",), ("f",), {"expression": "v = 'f'"}),
    Case("email", "text", ("A@b.c", "a@b.c", "z@kept.io"),
         (digest("a@b.c")[:32] + "@example.com",) * 2 + ("z@kept.io",),
         {"exclude_domain": "kept.io"}),
    Case("email", "text[]",
         ("{}", '{A@b.c,NULL,"x y@b.c",z@kept.io}', '{"a\\"b\\\\,@c"}', "{{a},{b}}", "[0:0]={a@b.c}"),
         ("{}", f"{{{address('a@b.c', 'e.f')},NULL,{address('x y@b.c', 'e.f')},z@kept.io}}",
          f"{{{address(QUOTES, 'e.f')}}}", None, None),
         {"replacement_domain": "e.f", "exclude_domain": "@kept.io"}),
    Case("email", "text", ("{a@b.c,d@b.c}",),
         (f"{{{address('a@b.c')},{address('d@b.c')}}}",)),
    Case("neosync_email", "text", ("a@b.c",), r"[0-9a-f]{32}@example\.(com|net|org)"),
    Case("neosync_email", "text", ("john.doe@acme.com",), r"[a-z0-9]{5}@example\.(com|net|org)",
         {"preserve_length": True, "seed": 42}),
    Case("neosync_email", "text", ("a@b.c",), r"[a-z']+\.[a-z']+@b\.c",
         {"preserve_domain": True, "email_type": "fullname"}),
    Case("neosync_email", "text", ("nonsense",), (None,)),
    Case("neosync_email", "text", ("nonsense",), ("nonsense",), {"invalid_email_action": "passthrough"}),
    Case("phone_number", "text", ("1", "2"), r"\+49[0-9]{3,7}", {"prefix": "+49"}),
    Case("phone_number", "text", ("1",), r"\+1[0-9]{4,8}", {}, {"prefix": "'+1'"}),
    Case("string", "text", ("hello",), r"[a-zA-Z]{5}"),
    Case("string", "text", ("",), ("",)),
    Case("greenmask_string", "text", ("a", "b"), r"[xyz]{3,5}",
         {"symbols": "xyz", "min_length": 3, "max_length": 5}),
    Case("neosync_string", "text", ("abcdefg",), r"[a-zA-Z0-9]{7}", {"preserve_length": True}),
    Case("greenmask_choice", "text", tuple("abcdefgh"), r"x'y|\$\{spark.app.name\}|z",
         {"choices": ["x'y", "${spark.app.name}", "z"]}),
    Case("greenmask_boolean", "bool", ("t", "f"), "[tf]"),
    Case("greenmask_integer", "int4", tuple("12345678"), "[1-3]", {"min_value": 1, "max_value": 3}),
    Case("greenmask_integer", "int2", ("1",), r"-?[0-9]{1,5}", {"size": 2}),
    Case("greenmask_float", "float8", ("1", "2"), r"[1-9]\.[0-9]{1,2}", {"min_value": 1, "max_value": 9.9}),
    Case("greenmask_unix_timestamp", "int8", ("1",), "1[01]", {"min_value": 10, "max_value": 11}),
    Case("greenmask_date", "date", ("2024-01-01",), "2020-(0[1-9]|1[0-2])-[0-3][0-9]",
         {"min_value": "2020-01-01", "max_value": "2020-12-31"}),
    Case("greenmask_utc_timestamp", "timestamptz", ("2024-01-01 00:00:00+00",),
         r"2020-[01][0-9]-[0-3][0-9] [0-2][0-9]:00:00\+00", {**RANGE, "truncate_part": "hour"}),
    Case("greenmask_utc_timestamp", "timestamp", ("2024-01-01 00:00:00",),
         r"2020-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?", RANGE),
    Case("greenmask_uuid", "uuid", ("a", "b"), UUID),
    Case("greenmask_firstname", "text", ("a", "b"), "|".join(first_names("Female")), {"gender": "Female"}),
    Case("greenmask_firstname", "text", ("a", "b"), "|".join(first_names("Male")), {}, {"gender": "'MALE'"}),
    Case("neosync_firstname", "text", ("John",), "[A-Z][a-z]{3}", {"preserve_length": True}),
    Case("neosync_lastname", "text", ("a", "b"), "|".join(last_names())),
    Case("neosync_fullname", "text", ("a",), r"[A-Z][a-z]+ [A-Z][A-Za-z']+"),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> list[list[str | None]]:
    """What each case gives, all in one query."""
    columns = [
        f"transform(array({', '.join(map(quoted, case.values))}), v -> {case.sql()}) as c{number}"
        for number, case in enumerate(CASES)
    ]
    return list(spark.range(1).selectExpr(*columns).collect()[0])


@pytest.mark.spark
@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{case.name or 'empty'} {case.type}" for case in CASES]
)
def test_what_it_gives(made: list[list[str | None]], number: int) -> None:
    """The expected texts, or texts that look as they should."""
    case, given = CASES[number], made[number]
    if isinstance(case.gives, tuple):
        assert tuple(given) == case.gives
    else:
        assert all(text is not None and re.fullmatch(case.gives, text) for text in given), given


def test_every_transform_has_a_case() -> None:
    """None is left out above, but for those over Arrow arrays."""
    in_the_jvm = {name for name, transform in BUILT_IN.items() if not issubclass(transform, ArrowTransform)}
    assert {case.name for case in CASES} == in_the_jvm


@pytest.mark.spark
def test_deterministic_ones_go_by_value_and_key(spark: SparkSession) -> None:
    """The same value gives the same under one key, and something else under another; or goes by chance."""
    drawn = [
        Case(case.name, case.type, case.values, "", {**case.parameters, **SAME})
        for case in CASES
        if "generator" in BUILT_IN[case.name].model_fields and case.name != "greenmask_boolean"
    ]
    texts = [f"v{number}" for number in range(40)]
    frame = spark.createDataFrame([(text,) for text in texts * 2], "v string")
    for case in drawn:
        if case.name in ("greenmask_unix_timestamp", "greenmask_integer", "greenmask_choice"):
            continue  # few outcomes: another key may give the same
        first, again, other = (
            [row[0] for row in frame.selectExpr(case.sql(key=key)).collect()]
            for key in (KEY, KEY, b"another")
        )
        assert first == again, case
        assert first[:40] == first[40:], case
        assert first != other, case
    chance = Case("greenmask_uuid", "text", (), "").sql()
    by_chance = [row[0] for row in frame.selectExpr(chance).collect()]
    assert len(set(by_chance)) == len(by_chance)


@pytest.mark.spark
def test_hmac(spark: SparkSession) -> None:
    """Keys of all lengths."""
    for key in (b"", b"k", b"k" * 64, b"k" * 65):
        found = spark.range(1).selectExpr(hmac_sha256(key, "'text'")).collect()[0][0]
        assert found == hmac.new(key, b"text", hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("emial", {}, "there is no transformer 'emial'; did you mean email?"),
        ("masking", {"tipe": "name"}, "masking has no parameter tipe"),
        ("greenmask_date", {"max_value": "2020-01-01"}, "greenmask_date needs the parameter min_value"),
        ("greenmask_integer", {"min_value": 5, "max_value": 1}, "min_value must not be above max_value"),
        ("masking", {"type": "custom"}, "custom needs mask_begin and mask_end"),
        ("masking", {"mask_begin": 1}, "mask_begin is for type custom"),
        ("truncate", {}, "give length, for texts, or part, for times and dates"),
        ("hash", {"length": 65}, "hash: length: "),
        ("masking", {"type": "custom", "unmask_end": "100%"}, "show all of the text"),
    ],
)
def test_faulty_parameters(name: str, parameters: dict[str, Any], words: str) -> None:
    """Each says what is wrong."""
    with pytest.raises(ValueError, match=re.escape(words)):
        make(name, parameters)
