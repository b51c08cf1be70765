"""Where configuration comes from: files, variables, flags, their precedence, and their mistakes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import ConfigError
from pgsluice.pipeline.config import load, load_config
from pgsluice.pipeline.config.files import expand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

URL = "postgresql://app@db.example/shop"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a configuration file."""

    def file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def failure(path: Path | None, environment: dict[str, str] | None = None, **flags: object) -> ConfigError:
    """The error of a configuration that does not load."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, environment or {}, flags)
    return caught.value


def test_precedence(write) -> None:
    """A flag wins over a variable, which wins over the file; what only the file says stays."""
    path = write("a.yaml", "name: file\nlog: {confirm: sinks, max_bytes: 1GiB}\nbatch: {max_rows: 7}\n")
    environment = {"PGSLUICE_NAME": "variable", "PGSLUICE_LOG__MAX_BYTES": "2GiB"}
    config = load_config(path, environment, {"name": "flag", "state_dir": None})
    assert (config.name, config.log.max_bytes) == ("flag", 2 * 1024**3)
    assert (config.log.confirm, config.batch.max_rows) == ("sinks", 7)


def test_origins(write) -> None:
    """Each value is known to come from a file, a variable, the command line, or to be a default."""
    path = write("a.yaml", "name: shop\nlog: {confirm: sinks, max_bytes: 1GiB}\n")
    loaded = load(path, {"PGSLUICE_LOG__MAX_BYTES": "2GiB"}, {"source.postgres.url": URL})
    assert loaded.origin(("log", "confirm")) == f"file {path}"
    assert loaded.origin(("log", "max_bytes")) == "variable PGSLUICE_LOG__MAX_BYTES"
    assert loaded.origin(("source", "postgres", "url")) == "command line"
    assert loaded.origin(("batch", "max_rows")) == "default"


def test_lists_and_mappings_in_variables() -> None:
    """Lists, mappings and whole sections are JSON."""
    environment = {
        "PGSLUICE_SOURCE__POSTGRES__URL": URL,
        "PGSLUICE_SOURCE__POSTGRES__REPLICATION__TABLES": '["a", "shop.*"]',
        "PGSLUICE_SPARK__CONF": '{"spark.a": "1"}',
        "PGSLUICE_TARGETS": '[{"name": "x", "duckdb": {"path": "f"}}]',
        "PGSLUICE_LOG": '{"confirm": "sinks"}',
    }
    config = load_config(None, environment, {})
    assert config.postgres.replication.tables == ("a", "shop.*")
    assert config.spark.conf == {"spark.a": "1"}
    assert config.sinks()[0].name == "x"
    assert config.log.confirm == "sinks"


def test_a_list_that_is_not_json() -> None:
    """A list without JSON says how to write it, and names the variable."""
    error = failure(None, {"PGSLUICE_SPARK__JARS": "a.jar"})
    assert error.message == 'spark.jars: write it as JSON, such as ["a", "b"] (variable PGSLUICE_SPARK__JARS)'


def test_numbers_and_booleans_in_variables() -> None:
    """Text of variables becomes what the key needs."""
    environment = {
        "PGSLUICE_SOURCE__POSTGRES__URL": URL,
        "PGSLUICE_SOURCE__POSTGRES__REPLICATION__FAILOVER": "true",
        "PGSLUICE_BATCH__MAX_ROWS": "12",
        "PGSLUICE_BATCH__MAX_WAIT": "200ms",
    }
    config = load_config(None, environment, {})
    assert config.postgres.replication.failover is True
    assert (config.batch.max_rows, config.batch.max_wait) == (12, 0.2)


def test_variables_that_are_not_ours() -> None:
    """Other variables with the prefix are left alone, empty ones count as unset, slips are found."""
    assert load_config(None, {"PGSLUICE_FAILPOINT": "x", "PGSLUICE_NAME": "", "NAME": "y"}, {}).name == "main"
    assert "did you mean name?" in failure(None, {"PGSLUICE_NAM": "x"}).message
    assert "unknown key" in failure(None, {"PGSLUICE_ZZZ__A": "x"}).message


def test_env_files(write) -> None:
    """A .env file has the same variables; the environment wins over it."""
    text = f"""
# a comment
PGSLUICE_NAME=file
export PGSLUICE_SOURCE__POSTGRES__URL='{URL}'
PGSLUICE_LOG__MAX_BYTES="1GiB"
SCHEMA=shop
PGSLUICE_SOURCE__POSTGRES__REPLICATION__TABLES=["${{SCHEMA}}.*", "${{MORE:-b}}"]
"""
    config = load_config(write("a.env", text), {"PGSLUICE_LOG__MAX_BYTES": "2GiB"}, {})
    assert (config.name, config.source_url, config.log.max_bytes) == ("file", URL, 2 * 1024**3)
    assert config.postgres.replication.tables == ("shop.*", "b")
    assert load_config(write(".env", "PGSLUICE_NAME=dot"), {}, {}).name == "dot"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PGSLUICE_NAME", "line 1: write NAME=value"),
        ("A=1\n'x", "line 2: write NAME=value"),
        ("PGSLUICE_ZZZ=1", "zzz: unknown key"),
        ("PGSLUICE_NAME=${NOT_THERE}", "the variable NOT_THERE is not set"),
    ],
)
def test_mistakes_in_env_files(write, text: str, message: str) -> None:
    """In a .env file every mistake is found, with its line or its name."""
    assert message in failure(write("a.env", text)).message


def test_variables_in_yaml(write) -> None:
    """${NAME} and ${NAME:-default} are replaced in values, anywhere in them, and $${ is kept."""
    text = "name: ${NAME}\nspark: {jars: ['${DIR:-lib}/a.jar'], conf: {spark.a: '$${x}'}}\n"
    path = write("a.yaml", text + "batch: {max_rows: '${ROWS}'}\n")
    config = load_config(path, {"NAME": "shop", "ROWS": "3", "DIR": ""}, {})
    assert (config.name, config.batch.max_rows) == ("shop", 3)
    assert config.spark.jars == ("lib/a.jar",)
    assert config.spark.conf == {"spark.a": "${x}"}


def test_a_missing_variable_names_the_key(write) -> None:
    """A variable that is not set is a problem of the key that wants it, reported once."""
    path = write("a.yaml", "source: {postgres: {url: '${DB_URL}', replication: {tables: [a, '${T}']}}}")
    assert failure(path).fields["problems"] == [
        {
            "key": key,
            "problem": f"the variable {name} is not set; set it, or write ${{{name}:-default}}",
            "origin": f"file {path}",
        }
        for key, name in (("source.postgres.url", "DB_URL"), ("source.postgres.replication.tables[1]", "T"))
    ]


@pytest.mark.parametrize("text", ["${", "${}", "${a-b}", "${a:+b}", "${a b}"])
def test_malformed_references(text: str) -> None:
    """What looks like a variable and is none is refused."""
    with pytest.raises(ValueError, match="write "):
        expand(text, {"a": "x"})


@given(st.text(alphabet="ab$", max_size=10))
def test_dollars_alone_are_kept(text: str) -> None:
    """Only ${ means anything."""
    assert expand(text, {}) == text


@given(st.text(alphabet="a${}:-", max_size=12))
def test_any_text_expands_or_is_refused(text: str) -> None:
    """Expansion ends in text or in a ValueError that says why."""
    try:
        assert isinstance(expand(text, {"a": "1"}), str)
    except ValueError as error:
        assert "$" in str(error)  # noqa: PT017 - both outcomes are right


def test_every_problem_at_once(write) -> None:
    """All problems of all layers are listed, a line each, with key and origin."""
    path = write("a.yaml", "nme: x\nlog: {confirm: no way}\nbatch: {max_rows: many}\n")
    error = failure(path, {"PGSLUICE_LOG__MAX_BYTES": "big"}, **{"log.retention": "long"})
    size = "write a size like 64MiB, 10GB or a plain number of bytes"
    duration = "write a duration like 10s, 200ms, 5m, 1h30m or a plain number of seconds"
    assert error.message.splitlines() == [
        "5 problems:",
        f"  log.max_bytes: {size} (variable PGSLUICE_LOG__MAX_BYTES)",
        f"  log.retention: {duration} (command line)",
        f"  log.confirm: should be 'log' or 'sinks' (file {path})",
        f"  batch.max_rows: should be a valid integer, unable to parse string as an integer (file {path})",
        f"  nme: unknown key, did you mean name? (file {path})",
    ]
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        ("log: {max_byte: 1}", "log.max_byte: unknown key, did you mean log.max_bytes?"),
        ("postgres: {url: x}", "postgres: unknown key, did you mean source.postgres or target.postgres?"),
        ("url: x", "url: unknown key, did you mean source.postgres.url or target.postgres.url?"),
        ("log: {zzz: 1}", "log.zzz: unknown key, known here: path, max_bytes, retention, confirm"),
        (
            "modifiers: {transformation: {}}",
            "modifiers.transformation: unknown key, did you mean modifiers.transformations?",
        ),
        ("log: 5", "log: should be a section with keys"),
        ("targets: {a: {stdout: }}", "targets: should be a list"),
    ],
)
def test_unknown_keys(write, yaml: str, problem: str) -> None:
    """An unknown key is named with its path and the nearest key there is."""
    assert failure(write("a.yaml", yaml)).message.startswith(problem)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: a\n  b: c\n", "line 2, column 4"),
        ("name: [a\nlog: {}\n", "line 2, column 4"),
        ("name: a\nname: b\n", "line 2, column 1: not valid YAML: the key name stands twice"),
        ("name: !!python/object:os.system a\n", "line 1, column 7"),
        ("\tname: a", "line 1, column 1"),
    ],
)
def test_bad_yaml(write, text: str, place: str) -> None:
    """YAML that can't be read is one line with file, line and column."""
    error = failure(path := write("a.yaml", text))
    assert error.message.startswith(f"{path}, {place}")
    assert "\n" not in str(error)


def test_bad_yaml_does_not_show_the_file(write) -> None:
    """The error, and what hangs on it, has no text of the file: it may hold a password."""
    error: BaseException | None = failure(write("a.yaml", "url: postgresql://a:hunter2@h\n b: c"))
    while error is not None:
        assert "hunter2" not in f"{error!r}{error}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"name: a", "is not a configuration file by its name"),
        ("a.yaml", b"- a\n- b", "the file should have keys and values"),
        ("a.yaml", b"\xff\xfe", "is not UTF-8 text"),
        ("a.yaml", b"a: \x00", "not valid YAML"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Files that can't be a configuration are refused with the reason."""
    (tmp_path / name).write_bytes(content)
    assert message in failure(tmp_path / name).message


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    """A missing file and a directory are each one clear line."""
    assert "does not exist" in failure(tmp_path / "none.yaml").message
    (tmp_path / "dir.yaml").mkdir()
    assert "can't be read: Is a directory" in failure(tmp_path / "dir.yaml").message


def test_empty_sections(write) -> None:
    """A key of a section with nothing behind it is an empty section; an empty file is all defaults."""
    path = write(
        "a.yaml",
        f"log:\nmodifiers:\nsource: {{postgres: {{url: '{URL}', snapshot: }}}}\ntarget:\n  stdout:\n",
    )
    config = load_config(path, {}, {})
    assert config.sinks()[0].name == "stdout"
    assert config.log.confirm == "log"
    assert load_config(write("b.yaml", "# nothing\n"), {}, {}).name == "main"
    several = load_config(write("c.yaml", "targets:\n  - stdout:\n"), {}, {})
    assert several.sinks()[0].kind.name == "stdout"


def test_another_kind_of_target_replaces(write) -> None:
    """A stronger layer with another kind replaces the target; with the same kind it changes options."""
    path = write("a.yaml", "target: {duckdb: {path: file.duckdb, batch: {max_rows: 3}}}")
    other = load_config(path, {}, {"target": {"stdout": {}}})
    assert [target.kind.name for target in other.sinks()] == ["stdout"]
    same = load_config(path, {"PGSLUICE_TARGET__DUCKDB__PATH": "variable.duckdb"}, {}).sinks()[0]
    assert str(same.options.path) == "variable.duckdb"  # type: ignore[attr-defined]
    assert same.batch.max_rows == 3
    several = load_config(path, {"PGSLUICE_TARGETS": json.dumps([{"memory": {}}])}, {})
    assert [target.kind.name for target in several.sinks()] == ["memory"]


def test_both_target_and_targets_in_one_file(write) -> None:
    """In one file the two exclude each other."""
    path = write("a.yaml", "target: {stdout: }\ntargets: [{memory: }]\n")
    assert failure(path).message == "give target or targets, not both"


def test_libpq_variables_can_stand_for_the_url(write) -> None:
    """A source without a URL is fine when libpq knows a server, and else a clear problem."""
    path = write("a.yaml", "source: {postgres: }")
    assert load_config(path, {"PGSERVICE": "shop"}, {}).source_url == ""
    assert failure(path).message == (
        "source.postgres.url: is required, since none of PGHOST, PGHOSTADDR, PGSERVICE, PGDATABASE is set"
        f" (file {path})"
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "log", "source", "postgres", "target", "targets", "x"]), inner
            )
        ),
        max_leaves=8,
    )
)
def test_any_tree_loads_or_is_refused(tree: object) -> None:
    """Whatever stands where, the outcome is a configuration or our own error."""
    try:
        config = load_config(
            None, {"PGHOST": "h"}, {"log": tree, "source": tree, "target": tree, "targets": tree}
        )
    except ConfigError as error:
        assert error.fields["problems"]  # noqa: PT017 - both outcomes are right
    else:
        assert config.name == "main"
