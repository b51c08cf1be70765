"""Events with an identity, a version and ids, from the first copy on, in files and lines of every format."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from pgsluice import BatchOptions, Chain, FilesSink, Injector, Pipeline, PostgresSource, StdoutSink
from pgsluice.cli.main import main
from pgsluice.errors import ConfigError, TargetUnavailableError, WithoutIdentityError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from pgsluice.pipeline.intake import SMALL_BYTES
from pgsluice.pipeline.unidentified import read_unidentified
from pgsluice.sinks.files import FilesConfig

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, dropped int, total numeric, changed_at timestamptz)"
MADE = "INSERT INTO orders SELECT n, 1.5, '2024-05-01 12:00:00Z' FROM generate_series(1, 3) n"
CHANGES = (
    "UPDATE orders SET total = 2, changed_at = '2024-05-01 12:00:01Z' WHERE id = 1",
    "ALTER TABLE orders ADD a text",
    "INSERT INTO orders (id, a) VALUES (4, 'x')",
    "ALTER TABLE orders ADD b text",
    "INSERT INTO orders (id, a, b) VALUES (5, 'x', 'y')",
    # Names change places while the rows of before are not read yet.
    "ALTER TABLE orders RENAME a TO swapped",
    "ALTER TABLE orders RENAME b TO a",
    "ALTER TABLE orders RENAME swapped TO b",
    "ALTER TABLE orders RENAME total TO amount",
    "ALTER TABLE orders RENAME TO sales",
    "UPDATE sales SET id = 10 WHERE id = 2",
    "DELETE FROM sales WHERE id = 3",
    "TRUNCATE sales",
    "SELECT pg_logical_emit_message(true, 'pre', 'content')",
)


class Feeds:
    """One pipeline into lines and files of all formats."""

    def __init__(self, source: Database, place: Path, small_bytes: int) -> None:
        self.source, self.place = source, place
        self.options = BatchOptions(small_bytes=small_bytes)
        self.lines = {name: io.BytesIO() for name in ("pgstream", "wal2json", "wal2json_v1")}

    def once(self, injector: Injector) -> None:
        """Catch up."""
        sinks: dict[str, Any] = {
            name: StdoutSink(output, format=name)
            for name, output in self.lines.items()  # type: ignore[arg-type]
        }
        sinks["jsonl"] = FilesSink(FilesConfig(path=self.place / "jsonl", format="jsonl"))
        sinks["parquet"] = FilesSink(self.place / "parquet")
        source = PostgresSource(self.source.url, tables=["public.*"], init=True)
        state = self.place / "state"
        assert Pipeline(source, sinks, state_dir=state, chain=Chain([injector]), batch=self.options).run(
            once=True
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was written to a stream, without changes of the schema."""
        found = [json.loads(line) for line in self.lines[name].getvalue().splitlines()]
        return [each for each in found if "schema_log" not in json.dumps(each)]

    def in_files(self) -> list[dict[str, Any]]:
        """The same from files of lines."""
        paths = sorted((self.place / "jsonl").glob("public.*/*.jsonl"), key=lambda path: path.name)
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def typed(self) -> list[tuple[Any, ...]]:
        """What typed files have beside the table's own columns."""
        paths = sorted((self.place / "parquet").glob("public.*/*.parquet"), key=lambda path: path.name)
        tables = [parquet.read_table(path, columns=["_op", "_identity", "_version"]) for path in paths]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]

    def ids_in_files(self) -> set[tuple[str, str]]:
        """Names and ids of columns, as the metadata of typed files has them."""
        schemas = map(parquet.read_schema, (self.place / "parquet").glob("public.*/*.parquet"))
        return {
            (field.name, field.metadata[b"pgsluice.id"].decode())
            for schema in schemas
            for field in schema
            if field.metadata
        }


@pytest.mark.spark
@pytest.mark.parametrize("small_bytes", [SMALL_BYTES, 0], ids=["driver", "tasks"])
def test_names_that_change_in_the_middle(
    database: Database, tmp_path: Path, spark: SparkSession, small_bytes: int
) -> None:
    """The ids of the table and of its columns stay; identities and versions are there in every format."""
    database.run(ORDERS, "ALTER TABLE orders DROP dropped", MADE)
    feeds = Feeds(database, tmp_path, small_bytes)
    injector = Injector(
        version=lambda version: _micros(version.columns[2].name) if _is_ours(version) else None
    )
    feeds.once(injector)
    database.run(*CHANGES)
    feeds.once(injector)
    ((oid,),) = database.rows("SELECT 'sales'::regclass::oid")
    ids = {"id": 1, "total": 3, "amount": 3, "changed_at": 4}
    events = feeds.events("pgstream")
    seen = {(each["name"], each["id"]) for event in events for each in event["columns"] or ()}
    expected = {(name, f"{oid}-{number}") for name, number in ids.items()}
    both = {(name, f"{oid}-{number}") for name in "ab" for number in (5, 6)}
    assert expected < seen <= expected | both
    by_row = {event["metadata"]["event_identity"][0]: event for event in events if event["columns"]}
    for row, name in {"4": "a", "5": "a", "10": "b"}.items():
        assert {each["name"]: each["id"] for each in by_row[row]["columns"]}[name] == f"{oid}-5", row
    of_table = [event["metadata"] for event in events if event["table"]]
    assert {(each["table_pgstream_id"], *each["id_col_pgstream_id"]) for each in of_table} == {
        (str(oid), f"{oid}-1")
    }
    second = 1714564800 * 10**6
    wanted = [
        *[("I", [str(number)], second) for number in (1, 2, 3)],
        ("U", ["1"], second + 10**6),
        ("I", ["4"], None), ("I", ["5"], None), ("U", ["10"], second), ("D", ["3"], None),
        ("T", None, None),
    ]  # fmt: skip
    message = events[-1]["metadata"]
    assert (message["table_pgstream_id"], message["event_identity"]) == ("", None)
    assert message["event_version"] > 0  # its position
    assert [_found(event["action"], event["metadata"]) for event in events[:-1]] == wanted
    assert [_found(each["action"], each["metadata"]) for each in feeds.in_files()] == wanted
    modern = feeds.events("wal2json")
    assert [_found(event["action"], event) for event in modern[:-1]] == wanted
    assert {event["table_id"] for event in modern[:-1]} == {str(oid)}
    cells = [each for event in modern for each in event.get("columns", []) + event.get("identity", [])]
    assert {(each["name"], each["id"]) for each in cells} == seen
    old = [event["change"][0] for event in feeds.events("wal2json_v1")]
    assert [_found(each["kind"][0].upper(), each) for each in old[:-1]] == wanted
    pairs = [
        pair
        for each in old
        for pair in zip(each.get("columnnames", ()), each.get("columnids", ()), strict=True)
    ]
    assert set(pairs) == seen
    assert [each["oldkeys"]["keyids"] for each in old if "oldkeys" in each] == [[f"{oid}-1"]] * 3
    copied = [("S" if place < 3 else op, *rest) for place, (op, *rest) in enumerate(wanted)]
    assert feeds.typed() == copied
    assert feeds.ids_in_files() == seen


def _found(action: str, event: dict[str, Any]) -> tuple[Any, ...]:
    return action, event["event_identity"], event["event_version"]


def _micros(column: str) -> str:
    return f"unix_micros({column})"


def _is_ours(version: Any) -> bool:
    return version.schema == "public"


BAG = (
    ORDERS,
    "CREATE TABLE bag (v text)",
    "CREATE PUBLICATION mine FOR TABLE orders, bag WITH (publish = 'insert, truncate')",
    MADE.replace("1.5", "7, 1.5"),
    "INSERT INTO bag SELECT n FROM generate_series(1, 4) n",
)


def configured(
    source: Database, place: Path, modifiers: dict[str, Any], targets: dict[str, Any] | None = None
) -> Pipeline:
    """A pipeline of a configuration, by a publication of somebody else."""
    every = targets or {
        "files": {"path": str(place / "feed"), "format": "jsonl"},
        "duckdb": {"path": str(place / "d")},
    }
    options: dict[str, Any] = {
        "source.postgres.url": source.url,
        "state_dir": str(place / "state"),
        "targets": [{kind: options} for kind, options in every.items()],
        "modifiers": modifiers,
    }
    if source.rows("SELECT FROM pg_publication WHERE pubname = 'mine'"):
        options["source.postgres.replication.publication"] = "mine"
    return build_pipeline(load_config(None, {}, options), init=True)


@pytest.mark.spark
@pytest.mark.parametrize("policy", ["pass", "drop"])
def test_tables_without_identity(
    database: Database, tmp_path: Path, spark: SparkSession, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their rows go on without one, or to no target; status says how many, over all runs and both ways."""
    import duckdb

    database.run(*BAG)
    injector = {"enabled": True, "without_identity": policy, "source_url": "postgres://ignored"}
    assert configured(database, tmp_path, {"injector": injector}).run(once=True)
    database.run("INSERT INTO bag VALUES ('one')")
    assert configured(database, tmp_path, {"injector": injector}).run(once=True)
    database.run("INSERT INTO bag SELECT repeat('x', 100) FROM generate_series(1, 5000)")
    assert configured(database, tmp_path, {"injector": injector}).run(once=True)
    lines = [
        json.loads(line)
        for path in (tmp_path / "feed").glob("public.bag/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    with duckdb.connect(str(tmp_path / "d")) as found:
        tables = found.execute("SELECT table_name FROM information_schema.tables").fetchall()
        held = found.execute("SELECT count(*) FROM public.bag").fetchone() if ("bag",) in tables else (0,)
        columns = [name for (name, *_) in found.execute("DESCRIBE public.orders").fetchall()]
    assert columns == ["id", "dropped", "total", "changed_at"]
    command = ["status", "--source-url", database.url, "--state-dir", str(tmp_path / "state")]
    main([*command, "--json"])
    counted = json.loads(capsys.readouterr().out)["without_identity"]
    assert len(lines) == (5005 if policy == "pass" else 0)
    assert held == ((5005,) if policy == "pass" else (0,))
    assert all(line["metadata"]["event_identity"] is None for line in lines)
    feed = {"sink": "files", "table": "public.bag", "passed": 0, "dropped": 0}
    if policy == "pass":
        assert counted == [{**feed, "passed": 5005}]  # a target of tables has no use for identities
    else:
        assert counted == [{**feed, "sink": "duckdb", "dropped": 5005}, {**feed, "dropped": 5005}]
    main(command)
    said = capsys.readouterr().out
    assert "5,005" in said
    assert "table without identity" in said
    assert main(["targets", "forget", "files", "--state-dir", str(tmp_path / "state")]) == 0
    assert "files" not in {each.sink for each in read_unidentified(tmp_path / "state")}


class Unsteady(FilesSink):
    """Takes each batch at the second attempt."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self.refused: set[str] = set()

    def apply(self, batch: Batch) -> None:
        """Read all rows before it fails."""
        if batch.steps and batch.end not in self.refused:
            self.refused.add(batch.end)
            for step in batch.steps:
                step.in_tasks(lambda _, batches: str(sum(each.num_rows for each in batches)))
            raise TargetUnavailableError("not now")
        super().apply(batch)


@pytest.mark.spark
@pytest.mark.parametrize("small_bytes", [SMALL_BYTES, 0], ids=["driver", "tasks"])
def test_a_batch_that_is_tried_again(
    database: Database, tmp_path: Path, spark: SparkSession, small_bytes: int
) -> None:
    """Its rows are counted once."""
    database.run(*BAG)
    source = PostgresSource(database.url, publication="mine", init=True)
    for more in ("'a'", "'b'"):
        sink = Unsteady(tmp_path / "feed")
        options = BatchOptions(small_bytes=small_bytes)
        pipeline = Pipeline(
            source, sink, state_dir=tmp_path / "state", chain=Chain([Injector()]), batch=options
        )
        assert pipeline.run(once=True)
        assert sink.refused
        database.run(f"INSERT INTO bag VALUES ({more})")
    counted = pipeline.loops["target"].facts.unidentified
    assert counted is not None
    assert counted.tables["public.bag"].passed == 5


@pytest.mark.spark
@pytest.mark.parametrize("targets", [None, {"stdout": {}}], ids=["files", "stdout"])
def test_to_stop_at_one(
    database: Database,
    tmp_path: Path,
    spark: SparkSession,
    targets: Any,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Nothing of its rows leaves, and the run goes on once they may."""
    database.run(*BAG)
    injector: dict[str, Any] = {"enabled": True, "without_identity": "stop"}
    with pytest.raises(WithoutIdentityError, match=r"public\.bag.*without_identity"):
        configured(database, tmp_path, {"injector": injector}, targets).run(once=True)
    assert not [*(tmp_path / "feed").glob("public.bag/*")]
    assert b'"bag"' not in capfdbinary.readouterr().out
    named = {**injector, "identity": {"public.bag": ["v"]}}
    assert configured(database, tmp_path, {"injector": named}, targets).run(once=True)
    database.run("ALTER TABLE bag ADD more text", "INSERT INTO bag VALUES ('new', '')")
    assert configured(database, tmp_path, {"injector": named}, targets).run(once=True)
    if targets is None:
        paths = sorted((tmp_path / "feed").glob("public.bag/*.jsonl"))
        lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        identities = [line["metadata"]["event_identity"] for line in lines]
    else:
        lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
        identities = [line["metadata"]["event_identity"] for line in lines if line["table"] == "bag"]
    assert sorted(identities) == [["1"], ["2"], ["3"], ["4"], ["new"]]


@pytest.mark.spark
def test_a_key_that_is_changed(database: Database, tmp_path: Path, spark: SparkSession) -> None:
    """The identity has the value that leaves, and the plain one is nowhere; nor that of a column left out."""
    database.run(
        "CREATE TABLE people (mail text PRIMARY KEY, secret text, age int)",
        "INSERT INTO people VALUES ('canary1', 'canary', 1)",
    )
    modifiers = {
        "injector": {"enabled": True, "version": {"public.people": "age"}},
        "filter": {"tables": {"public.people": {"columns": {"exclude": ["secret"]}}}},
        "transformations": {
            "salt": "s",
            "table_transformers": [
                {"schema": "public", "table": "people", "column_transformers": {"mail": {"name": "hash"}}}
            ],
        },
    }
    feeds = {"files": {"path": str(tmp_path / "feed"), "format": "jsonl"}}
    assert configured(database, tmp_path, modifiers, feeds).run(once=True)
    database.run(
        "UPDATE people SET age = 2",
        "UPDATE people SET mail = 'canary2', age = 3",
        "DELETE FROM people",
    )
    assert configured(database, tmp_path, modifiers, feeds).run(once=True)
    paths = sorted((tmp_path / "feed").glob("public.people/*.jsonl"))
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    first, second, third, last = (line["metadata"]["event_identity"] for line in lines)
    assert first == second != third == last
    values = [line["columns"][0]["value"] for line in lines[:3]]
    assert [first, second, third] == [[value] for value in values]
    assert [line["metadata"]["event_version"] for line in lines] == [1, 2, 3, None]
    assert not [path for path in paths if b"canary" in path.read_bytes()]


@pytest.mark.parametrize(
    ("injector", "words"),
    [
        (
            {"identity": {"public.ordrs": ["id"]}},
            r"no such table is replicated; the nearest is public\.orders",
        ),
        (
            {"identity": {"public.orders": ["idd"]}},
            "names idd, and there is no such column; the nearest is id",
        ),
        (
            {"identity": {"public.orders": ["total"]}},
            "names total, which a DELETE does not bring: set REPLICA",
        ),
        ({"identity": {"public.whole": ["b"]}}, "names b, which the filter leaves out"),
        ({"version": {"public.orders": "chnged_at"}}, "the version of .* nearest is changed_at"),
        ({"version": {"public.orders": "total"}}, r"public\.orders\.total can't be a version by its type"),
        ({"version": {"public.whole": "b"}}, "names b, which the filter leaves out"),
        ({"version": {"public.nothing": "b"}}, "public.nothing is named for the version"),
    ],
)
def test_settings_that_do_not_fit(
    database: Database, tmp_path: Path, injector: dict[str, Any], words: str
) -> None:
    """Refused before anything is made."""
    database.run(ORDERS, "CREATE TABLE whole (a int, b int)", "ALTER TABLE whole REPLICA IDENTITY FULL")
    filters = {"tables": {"public.whole": {"columns": {"exclude": ["b"]}}}}
    modifiers = {"injector": {"enabled": True, **injector}, "filter": filters}
    with pytest.raises(ConfigError, match=words):
        configured(database, tmp_path, modifiers).run(once=True)
    assert database.rows("SELECT FROM pg_namespace WHERE nspname = 'pgsluice'") == []


def test_settings_that_say_nothing(database: Database, tmp_path: Path) -> None:
    """An injector that is not switched on, and an identity of nothing."""
    for injector in ({"without_identity": "drop"}, {"enabled": True, "identity": {"public.t": []}}):
        with pytest.raises(ConfigError, match=r"modifiers\.injector"):
            configured(database, tmp_path, {"injector": injector})
