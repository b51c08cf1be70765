"""The identity and the version of entries, by what the injector is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pgsluice import Chain, Injector
from pgsluice.changelog.envelope import ENVELOPE, INJECTED
from pgsluice.errors import ConfigError, UntypedValueError, WithoutIdentityError
from pgsluice.modifiers.injector import ConfiguredIdentity, ConfiguredVersion
from pgsluice.modifiers.injector.finders import default_identity
from pgsluice.observability.failpoints import VARIABLE
from pgsluice.pipeline.batch import LogStep, errors_of_jobs
from pgsluice.testing.batches import UNCHANGED, Changes, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Modifier
    from pgsluice.schema.table import TableVersion

ITEMS = table("public.items", {"a": "int8", "b": "text", "c": "text"}, key=["b", "a"], version=1)
FULL = table("public.whole", {"a": "int4", "b": "text"}, identity="f", primary_key=["a", "b"], version=2)
BAG = table("public.bag", {"v": "text"}, version=3)
TIMES = {"id": "int4", "n": "int2", "at": "timestamp", "tz": "timestamptz", "day": "date"}
STAMPED = table("public.stamped", TIMES, key=["id"], version=4)
END = 0x180  # of the first transaction


class Held:
    """Rows as a part that tasks can read."""

    def __init__(self, rows: pa.Table) -> None:
        self.table = rows

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries."""
        yield from self.table.to_batches()


class Read:
    """Steps of some changes, on the driver or through tasks."""

    def __init__(self, spark: SparkSession, scratch: Path, *, small: bool) -> None:
        self.spark, self.scratch, self.small = spark, scratch, small

    def step(self, changes: Changes, *modifiers: Modifier | Injector, injects: bool = True) -> LogStep:
        """As a loop makes it for one of its sinks."""
        rows, tables = changes.rows(), changes.step().tables
        half = rows.num_rows // 2
        parts = [Held(rows.slice(0, half)), Held(rows.slice(half))]
        return LogStep(
            parts,
            tables,
            Chain(modifiers).of(tables, injects=injects),
            lambda: self.spark,
            self.scratch,
            small=self.small,
        )

    def rows(self, *args: Any, **options: Any) -> list[dict[str, Any]]:
        """The entries that a sink gets."""
        step = self.step(*args, **options)
        return pa.concat_tables(step.chunks()).to_pylist()


@pytest.fixture(params=["driver", "tasks"])
def read(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Read:
    """Both ways of rows."""
    return Read(spark, tmp_path, small=request.param == "driver")


def found(rows: list[dict[str, Any]], column: str = "identity") -> list[Any]:
    """One column of entries."""
    return [row[column] for row in rows]


@pytest.mark.spark
def test_each_kind_of_entry(read: Read) -> None:
    """The new row's key, of a deleted one the old; in the order of the table; the version is the position."""
    changes = Changes()
    changes.insert(ITEMS, "1", "x", None)
    changes.snapshot(ITEMS, "2", "x", "y")
    changes.update(ITEMS, "3", "x", None, old=["2", "x", None])
    changes.update(ITEMS, "3", UNCHANGED, "c", old=["3", "large", None])
    changes.delete(ITEMS, "3", "large", None)
    changes.truncate(ITEMS)
    changes.message("prefix", "content")
    changes.commit()
    changes.delete(FULL, "1", None)
    rows = read.rows(changes, Injector())
    assert found(rows) == [
        ["1", "x"], ["2", "x"], ["3", "x"], ["3", "large"], ["3", "large"], None, None, ["1", None],
    ]  # fmt: skip
    assert found(rows, "version") == [END] * 7 + [END + 0x100]
    plain = [{name: row[name] for name in ENVELOPE.names} for row in rows]
    assert plain == changes.rows().to_pylist()
    assert pa.concat_tables(read.step(changes, Injector()).chunks()).schema == INJECTED


@pytest.mark.spark
def test_targets_that_do_not_ask(read: Read) -> None:
    """Their rows are in the envelope, and nothing has to look at them."""
    changes = Changes()
    changes.insert(ITEMS, "1", "x", None)
    changes.insert(BAG, "v")
    step = read.step(changes, Injector(), injects=False)
    assert not Chain([Injector()]).of(step.tables)
    assert pa.concat_tables(step.chunks()) == changes.rows()


@pytest.mark.spark
def test_columns_of_a_configuration(read: Read) -> None:
    """Named by table; another table has its own key, and the position."""
    changes = Changes()
    changes.insert(ITEMS, "1", "x", "c")
    changes.insert(STAMPED, "1", "-7", None, None, None)
    changes.delete(STAMPED, "1", None, None, None, None)
    identity = ConfiguredIdentity({("public", "items"): ["c"]})
    version = ConfiguredVersion({("public", "stamped"): "n"})
    rows = read.rows(changes, Injector(identity, version))
    assert found(rows) == [["c"], ["1"], ["1"]]
    assert found(rows, "version") == [END, -7, None]  # never a position among numbers of another kind


@pytest.mark.spark
@pytest.mark.parametrize(
    ("column", "text", "version"),
    [
        ("id", "2147483647", 2147483647),
        ("at", "2024-03-31 02:30:00.123456", 1711852200123456),
        ("at", "0001-01-01 00:00:00", -62135596800000000),
        ("tz", "2024-03-31 02:30:00.123456+00", 1711852200123456),
        ("day", "1969-12-31", -86_400_000_000),
        ("at", None, None),
    ],
)
def test_versions_by_type(spark: SparkSession, column: str, text: str, version: int) -> None:
    """Integers as they are, times in microseconds, in whatever time zone the session is."""
    cells = [text if name == column else None for name in TIMES]
    changes = Changes()
    changes.insert(STAMPED, *cells)
    chain = Chain([Injector(version=ConfiguredVersion({("public", "stamped"): column}))])
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    modification = chain.of(changes.step().tables, injects=True)
    rows = modification.apply_local(changes.rows(), lambda: session)
    assert rows["version"].to_pylist() == [version]


@pytest.mark.spark
def test_a_version_that_has_no_number(spark: SparkSession) -> None:
    """Infinity is later than every number: the run stops, and says where."""
    changes = Changes()
    changes.insert(STAMPED, "1", None, None, None, "infinity")
    chain = Chain([Injector(version=ConfiguredVersion({("public", "stamped"): "day"}))])
    modification = chain.of(changes.step().tables, injects=True)
    with pytest.raises(UntypedValueError, match=r"public\.stamped\.day has at"), errors_of_jobs():
        modification.apply_local(changes.rows(), lambda: spark)


@pytest.mark.spark
@pytest.mark.parametrize("policy", ["pass", "drop"])
@pytest.mark.parametrize("injects", [True, False])
def test_tables_without_identity(read: Read, policy: Any, injects: bool) -> None:
    """Rows go on without one, or end; both are counted, once, however often they are read."""
    changes = Changes()
    for number in range(5):
        changes.insert(BAG, str(number))
        changes.insert(ITEMS, str(number), "x", None)
    changes.message("stays", "")
    changes.truncate(BAG)
    step = read.step(changes, _without("3", BAG), Injector(without_identity=policy), injects=injects)
    rows = [pa.concat_tables(step.chunks()).to_pylist() for _ in range(2)][1]
    bag = [row for row in rows if row["table"] == "bag"]
    assert len(rows) - len(bag) == 6
    assert len(bag) == (0 if policy == "drop" else 5)
    assert all(row.get("identity") is None for row in bag)
    counted = step.without_identity()
    if policy == "pass" and not injects:
        assert counted is None  # nobody asked
    else:
        assert counted is not None
        assert (counted.rows, counted.dropped) == ({"public.bag": 5}, policy == "drop")


@pytest.mark.spark
def test_a_task_that_runs_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are counted once."""
    changes = Changes()
    for number in range(100):
        changes.insert(BAG, str(number))
    step = Read(spark, tmp_path, small=False).step(changes, Injector(without_identity="drop"), injects=False)
    mark = tmp_path / "mark"
    spark.sparkContext.environment[VARIABLE] = f"task.after_write@{mark}"
    try:
        assert not [*step.chunks()]
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert mark.exists(), "no worker was killed"
    counted = step.without_identity()
    assert counted is not None
    assert counted.rows == {"public.bag": 100}


@pytest.mark.spark
def test_counts_that_never_come(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for what Spark does not tell."""
    monkeypatch.setattr("pgsluice.modifiers.injector.apply._PATIENCE", 0.1)
    changes = Changes()
    changes.insert(BAG, "1")
    step = Read(spark, tmp_path, small=False).step(changes, Injector())
    unread = step.frame()
    assert unread.columns == INJECTED.names
    counted = step.without_identity()
    assert counted is not None
    assert counted.rows == {}


@pytest.mark.spark
def test_to_stop_at_a_table_without_identity(read: Read) -> None:
    """Before anything of the row leaves, for every target; rows that a filter left out are no matter."""
    changes = Changes()
    changes.insert(BAG, "3")
    changes.insert(ITEMS, "1", "x", None)
    stop = Injector(without_identity="stop")
    assert len(read.rows(changes, _without("3", BAG), stop)) == 1
    for injects in (True, False):
        with pytest.raises(WithoutIdentityError, match=r"public\.bag.*primary key"), errors_of_jobs():
            read.rows(changes, stop, injects=injects)


@pytest.mark.spark
def test_a_few_rows_need_no_job(spark: SparkSession, tmp_path: Path) -> None:
    """Neither to be identified nor to be counted."""
    changes = Changes()
    changes.insert(BAG, "1")
    changes.insert(STAMPED, "1", "1", None, None, None)
    read = Read(spark, tmp_path, small=True)
    injector = Injector(version=ConfiguredVersion({("public", "stamped"): "n"}), without_identity="drop")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    step = read.step(changes, injector)
    assert found(pa.concat_tables(step.chunks()).to_pylist(), "version") == [1]
    assert len(step.frame().collect()) == 1
    assert step.without_identity() is not None
    assert set(tracker.getJobIdsForGroup(None)) == before


@pytest.mark.spark
def test_finders_of_your_own(read: Read) -> None:
    """They see a version, and say columns and an expression over their types."""

    def identity(version: TableVersion) -> list[str] | None:
        return ["c"] if version.name == "items" else None

    def version(version: TableVersion) -> str | None:
        return "a * 2 + length(b)" if version.name == "items" else None

    changes = Changes()
    changes.insert(ITEMS, "21", "xy", "c")
    changes.insert(BAG, "v")
    injector = Injector(identity, version, without_identity="drop")
    rows = read.rows(changes, injector)
    assert (found(rows), found(rows, "version")) == ([["c"]], [44])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("finders", "words"),
    [
        ({"identity": lambda _: ["zz"]}, "names zz, which it has no column of"),
        ({"version": lambda _: "c"}, "makes a value of type string"),
        ({"version": lambda _: "a / 2"}, "makes a value of type double"),
        ({"version": lambda _: "zz + 1"}, "names zz, which is no column of the table"),
        ({"version": lambda _: "a +"}, "can't be parsed"),
    ],
)
def test_finders_that_are_wrong(spark: SparkSession, finders: dict[str, Any], words: str) -> None:
    """Refused before a row leaves."""
    changes = Changes()
    changes.insert(ITEMS, "1", "x", None)
    with pytest.raises(ConfigError, match=words):
        Chain([Injector(**finders)]).of(changes.step().tables, injects=True).apply_local(
            changes.rows(), lambda: spark
        )


def test_another_injector_while_a_pipeline_runs() -> None:
    """A chain takes it, and gives it up, with the other modifiers."""
    tables = {BAG.id: BAG}
    chain = Chain()
    assert not chain.is_needed(injects=True)
    chain.become(Chain([Injector(without_identity="drop")]))
    assert chain.is_needed(injects=False)
    assert chain.of(tables)
    chain.become(Chain([Injector()]))
    assert (bool(chain.of(tables)), bool(chain.of(tables, injects=True))) == (False, True)
    assert (chain.is_needed(injects=False), chain.is_needed(injects=True)) == (False, True)
    assert not chain.without_injector()
    chain.become(Chain())
    assert not chain.of(tables, injects=True)


def test_two_injectors() -> None:
    """Nobody knows which one is meant."""
    with pytest.raises(ConfigError, match="two injectors"):
        Chain([Injector(), Injector()])


def test_the_usual_identity() -> None:
    """Always columns that a DELETE brings, and names that the stream has."""
    assert default_identity(ITEMS) == ("a", "b")
    assert default_identity(BAG) == ()
    assert default_identity(FULL) == ("a", "b")
    assert default_identity(replace(FULL, naming=("b",))) == ("b",)
    assert default_identity(replace(FULL, naming=("renamed",))) == ("a", "b")
    assert default_identity(replace(ITEMS, naming=("renamed", "b"))) == ("a", "b")
    assert default_identity(replace(ITEMS, naming=("c",), identity="i")) == ("a", "b")
    assert default_identity(replace(BAG, naming=("v",))) == ("v",)  # inserts alone


def test_names_that_change() -> None:
    """Configured columns stay what they are under their number, or under a name of before."""
    first = _numbered(ITEMS)
    identity = ConfiguredIdentity({("public", "items"): ["b"]})
    assert identity(first) == ("b",)
    renamed = replace(
        first,
        name="things",
        columns=(first.columns[0], replace(first.columns[1], name="bb"), first.columns[2]),
        former=((2, "b"),),
    )
    assert identity(renamed) == ("bb",)
    with pytest.raises(ConfigError, match=r"names b of public\.things, which has no such column"):
        identity(replace(renamed, former=()))


def test_ids_of_columns() -> None:
    """By number; where that is not known, by the one that other versions have under this name."""
    first = _numbered(ITEMS)
    assert [first.column_id(each) for each in first.columns] == ["16001-1", "16001-2", "16001-3"]
    unknown = replace(first.columns[1], number=0)
    late = replace(first, columns=(first.columns[0], unknown, first.columns[2]))
    assert late.column_id(unknown) == ""
    assert replace(late, former=((2, "b"),)).column_id(unknown) == "16001-2"
    assert replace(late, former=((2, "b"), (4, "b"))).column_id(unknown) == ""
    assert replace(late, former=((3, "b"),)).column_id(unknown) == ""  # which is c now


def _numbered(version: TableVersion) -> TableVersion:
    columns = tuple(replace(each, number=number) for number, each in enumerate(version.columns, start=1))
    return replace(version, columns=columns)


def _without(value: str, version: TableVersion) -> Callable[..., Any]:
    """A modifier that leaves rows of a table out."""
    return lambda frame, _: frame.where(
        f"relation is null or relation <> {version.id} or `values` is null or `values`[0] <> '{value}'"
    )
