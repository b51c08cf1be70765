"""The models of the configuration: defaults, what fits together, and secrets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pgsluice.errors import ConfigError
from pgsluice.pipeline.config import load_config

URL = "postgresql://app:hunter2@db.example/shop"
SOURCE = {"source.postgres.url": URL}
DUCKDB = {"target": {"duckdb": {"path": "shop.duckdb"}}}


def problems(**flags: Any) -> list[str]:
    """The keys and problems of a configuration made of flags; dots are written ``__``."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, {key.replace("__", "."): value for key, value in flags.items()})
    return [f"{item['key']}: {item['problem']}" for item in caught.value.fields["problems"]]


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any setting the documented defaults are in force."""
    monkeypatch.setenv("HOME", "/somewhere")
    config = load_config(None, {}, {})
    assert (config.name, config.state_dir) == ("main", Path("/somewhere/.pgsluice/main"))
    assert (config.log.max_bytes, config.log.retention, config.log.confirm) == (10 * 1024**3, 0, "log")
    assert config.log_dir == Path("/somewhere/.pgsluice/main/log")
    assert (config.batch.max_bytes, config.batch.max_rows, config.batch.max_wait) == (64 * 1024**2, None, 0)
    assert config.spark.master == "local[*,4]"
    assert config.on_error == "stop"


def test_the_state_directory_follows_from_the_name() -> None:
    """Each pipeline has a directory of its own unless one is given."""
    config = load_config(None, {}, {**SOURCE, "name": "shop"})
    assert config.state_dir.name == "shop"
    assert load_config(None, {}, {**SOURCE, "state_dir": "/srv/x"}).state_dir == Path("/srv/x")


def test_the_configuration_can_not_be_changed() -> None:
    """A configuration is a value."""
    config = load_config(None, {}, SOURCE)
    with pytest.raises(ValidationError, match="frozen"):
        config.name = "other"  # type: ignore[misc]


def test_what_becomes_of_refused_rows() -> None:
    """A target's own word wins over the pipeline's; kinds that take no single rows have none."""
    targets = [{"duckdb": {"path": "a"}}, {"postgres": {"url": "postgresql://x", "on_error": "stop"}}]
    config = load_config(None, {}, {**SOURCE, "on_error": "dead_letter", "targets": targets})
    assert [target.on_error for target in config.sinks()] == ["dead_letter", "stop"]
    assert problems(target={"stdout": {"on_error": "stop"}})[0].startswith("target.stdout.on_error")


@pytest.mark.parametrize("name", ["Shop", "a-b", "1st", "", "x" * 41, "a b"])
def test_names_that_can_not_be_slots(name: str) -> None:
    """A name that could not be part of a slot's name is refused."""
    assert problems(name=name)[0].startswith("name: ")


def test_no_source_and_no_target() -> None:
    """A missing source or target is one clear error when it is needed, not before."""
    config = load_config(None, {}, {})
    with pytest.raises(ConfigError, match="no source is configured"):
        _ = config.postgres
    with pytest.raises(ConfigError, match="no target is configured"):
        config.sinks()


def test_one_kind_of_target() -> None:
    """Two kinds under target, or none, are refused with the kinds that there are."""
    both = problems(target={"duckdb": {"path": "a"}, "stdout": {}})
    none = problems(target={})
    kinds = "duckdb, files, memory, postgres, stdout"
    assert both == none == [f"target: name exactly one kind of target: {kinds}"]


def test_an_unknown_kind_names_the_nearest() -> None:
    """A slip in the kind of target is answered with the one that was meant."""
    assert problems(target={"duckbd": {}}) == ["target.duckbd: unknown key, did you mean target.duckdb?"]


def test_options_of_the_target_are_checked() -> None:
    """Missing and unknown options of a target are named with their whole path."""
    assert problems(target={"duckdb": {"pth": "a"}}) == [
        "target.duckdb.path: is required; on the command line it is --target-url",
        "target.duckdb.pth: unknown key, did you mean target.duckdb.path?",
    ]


def test_target_or_targets() -> None:
    """One way to name targets at a time; among several, names are unique."""
    item = {"duckdb": {"path": "a"}}
    assert problems(targets=[item, item]) == [
        ": two targets are named duckdb; give each of them a name of its own"
    ]
    config = load_config(None, {}, {"targets": [{"name": "one", **item}, item, {"stdout": {}}]})
    assert [target.name for target in config.sinks()] == ["one", "duckdb", "stdout"]


def test_a_problem_in_a_list_names_its_place() -> None:
    """Items of lists are numbered in the key."""
    assert problems(
        targets=[{"duckdb": {"path": "a"}}, {"duckdb": {"path": "b", "batch": {"max_row": 1}}}]
    ) == ["targets[1].duckdb.batch.max_row: unknown key, did you mean targets[1].duckdb.batch.max_rows?"]


def test_batches_of_a_target() -> None:
    """A target's own batch settings change some of the pipeline's and leave the rest."""
    target = {"duckdb": {"path": "a", "batch": {"max_rows": 5, "max_wait": "2s"}}}
    config = load_config(None, {}, {"target": target, "batch.max_bytes": "1MiB", "batch.max_wait": 1})
    batch = config.sinks()[0].batch
    assert (batch.max_bytes, batch.max_rows, batch.max_wait) == (1024**2, 5, 2)


@pytest.mark.parametrize(
    ("own", "pipeline", "expected"),
    [
        ({}, None, 10),
        ({}, 3, 10),
        ({"max_rows": 5}, 3, 10),
        ({"max_wait": "1s"}, 3, 1),
        ({"max_wait": None}, 3, 3),
    ],
)
def test_a_kind_may_wait_longer_by_default(own: dict[str, Any], pipeline: int | None, expected: int) -> None:
    """Files fill for a while unless the target itself says otherwise; null takes the pipeline's value."""
    flags: dict[str, Any] = {"target": {"files": {"path": "a", "batch": own}}}
    if pipeline is not None:
        flags["batch.max_wait"] = pipeline
    assert load_config(None, {}, flags).sinks()[0].batch.max_wait == expected


def test_the_options_are_the_kinds_own_model() -> None:
    """What a sink is built from is an instance of the model that it declared."""
    target = load_config(None, {}, DUCKDB).sinks()[0]
    assert isinstance(target.options, target.kind.config)


def test_one_way_to_choose_tables() -> None:
    """A list of tables, schemas and all tables exclude each other."""
    key = "source.postgres.replication."
    for extra in ({key + "tables": ["a"]}, {key + "exclude_tables": ["a"]}, {key + "schemas": ["shop"]}):
        with pytest.raises(ConfigError, match="only one of them"):
            load_config(None, {}, {**SOURCE, key + "all_tables": True, **extra})
    assert load_config(None, {}, {**SOURCE, key + "all_tables": True}).postgres.replication.all_tables


def test_bad_table_patterns_are_found_early() -> None:
    """A pattern that can't be read is a problem of its key."""
    found = problems(source__postgres__url=URL, source__postgres__replication__tables=["a.b", "a b"])
    assert found[0].startswith("source.postgres.replication.tables[1]: 'a b' is not a table pattern")


def test_the_filter_is_a_matcher() -> None:
    """Without include patterns all tables go on, except the excluded ones."""
    config = load_config(None, {}, {"modifiers.filter.exclude_tables": ["shop.*"]})
    matcher = config.modifiers.filter.matcher()
    assert matcher.matches("public", "a")
    assert not matcher.matches("shop", "a")


@pytest.mark.parametrize("modifiers", [[], {}])
def test_no_modifiers(modifiers: object) -> None:
    """An empty list and an empty section both mean no modifiers."""
    assert load_config(None, {}, {"modifiers": modifiers}).modifiers.filter.include_tables == ()


def test_sections_without_settings() -> None:
    """A section that has no settings yet may be there, and be empty."""
    assert load_config(None, {}, {"server": {}, "instrumentation": {}}).server is not None
    assert problems(server={"port": 1}) == [
        "server.port: unknown key; this section has no settings in this version"
    ]


def test_spark_settings_are_text() -> None:
    """Numbers and booleans of YAML become what Spark expects."""
    config = load_config(None, {}, {"spark.conf": {"spark.a": True, "spark.b": 2, "spark.c": "4g"}})
    assert config.spark.conf == {"spark.a": "true", "spark.b": "2", "spark.c": "4g"}


def test_secrets_are_not_shown() -> None:
    """Neither repr nor a dump of a configuration has the URL or a secret of Spark in it."""
    config = load_config(None, {}, {**SOURCE, "spark.conf": {"spark.hadoop.fs.s3a.secret.key": "hunter2"}})
    assert config.source_url == URL
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config.model_dump()["source"])
    assert "db.example" not in repr(config)


@pytest.mark.parametrize(
    "url", ["hunter2", "postgresql://app:hunter2@h:port/x", "password=hunter2 host", "  ", 5]
)
def test_a_bad_url_is_not_repeated(url: object) -> None:
    """An error about a URL, with all that hangs on it, never has a part of the URL in it."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, {"source.postgres.url": url})
    assert caught.value.fields["problems"][0]["key"] == "source.postgres.url"
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error!r}{error}"
        error = error.__cause__ or error.__context__


def test_errors_travel() -> None:
    """A configuration error survives the way between processes with its list of problems."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, {"nam": "x"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.fields == caught.value.fields


def test_libpqs_own_variables_are_a_source() -> None:
    """PGHOST alone is enough for libpq, so it is enough for us; without it there is no source."""
    assert load_config(None, {"PGHOST": "db.example"}, {}).source_url == ""
    assert load_config(None, {}, {}).source is None
