"""The options of format("pgsluice"): read once, and wrong ones refused with the right one named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError
from pgsluice.schema.typed import SpecialValues
from pgsluice.source.query.options import parse_options


def test_defaults():
    """A URL is enough; the rest has the defaults of the documentation."""
    options = parse_options({"url": "postgresql://db/shop"})
    assert options.log == Path("~/.pgsluice/main/log").expanduser()
    assert (options.name, options.start, options.max_bytes, options.table) == (
        "main",
        "earliest",
        64 << 20,
        None,
    )
    assert (options.consumer, options.partitions, options.special) == ("envelope", None, SpecialValues())


def test_every_option_is_read_whatever_its_case():
    """Spark gives names in any case; values become what they mean."""
    options = parse_options(
        {
            "URL": "postgresql://db/shop", "name": "lake", "statedir": "/state", "Slot": "s",
            "publication": "p", "table": 'shop."Orders"',
            "startingposition": "0/16B3748", "maxBytesPerTrigger": "2m",
            "consumer": "bronze", "partitions": "7", "listenerLease": "1.5", "specialDates": "clamp",
        }
    )  # fmt: skip
    assert (options.log, options.slot, options.publication) == (Path("/state/log"), "s", "p")
    assert (options.table, options.start, options.max_bytes) == (("shop", "Orders"), Lsn(0x16B3748), 2 << 20)
    assert (options.consumer, options.partitions, options.lease) == ("bronze", 7, 1.5)
    assert options.special == SpecialValues(dates="clamp")


def test_options_of_tables_as_they_are():
    """Names of columns as in SQL; each of these options says that it is no stream."""
    options = parse_options(
        {"url": "u", "table": "t", "columns": 'Id, "Odd, ""name"""', "where": "x", "snapshot": "y"}
    )
    assert (options.columns, options.where, options.snapshot) == (("id", 'Odd, "name"'), "x", "y")
    assert parse_options({"url": "u", "columns": " * "}).columns is None
    for given in ({"columns": "*"}, {"where": "x"}, {"snapshot": "y"}):
        assert parse_options({"url": "u", **given}).table_alone
    assert not parse_options({"url": "u", "table": "t"}).table_alone


def test_a_typed_stream_has_a_consumer_of_its_own():
    """Streams of two tables don't share a consumer by default."""
    assert parse_options({"log": "l", "table": "orders"}).consumer == "public.orders"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"log": "l", "maxBytePerTrigger": "1m"},
            "unknown option maxBytePerTrigger, did you mean maxBytesPerTrigger?",
        ),
        ({"log": "l", "path": "x"}, "unknown option path"),
        ({}, "neither the option url nor the option log"),
        ({"log": "l", "stateDir": "s"}, "both options log and stateDir"),
        ({"log": "l", "table": "shop.*"}, "names one table"),
        ({"log": "l", "startingPosition": "first"}, "'first' is not an LSN"),
        ({"log": "l", "maxBytesPerTrigger": "0"}, "maxBytesPerTrigger is no size"),
        ({"log": "l", "maxBytesPerTrigger": "much"}, "maxBytesPerTrigger is no size"),
        ({"log": "l", "partitions": "none"}, "partitions must be a number above zero"),
        ({"log": "l", "columns": "a b"}, "'a b' is not a list of names"),
        ({"log": "l", "columns": "a,"}, "'a,' is not a list of names"),
        ({"log": "l", "specialDecimals": "clamp"}, "specialDecimals can't be 'clamp'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], said: str):
    """The message names the option and what is wrong with it."""
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        parse_options(given)


def test_no_secret_is_shown():
    """The URL with its password is not in the record's text."""
    assert "hunter2" not in repr(parse_options({"url": "postgresql://u:hunter2@db/shop"}))
