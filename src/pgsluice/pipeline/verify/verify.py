"""Comparing targets that hold tables with the source of a pipeline: what ``pgsluice verify`` does."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Progress
from pgsluice.errors import ConfigError
from pgsluice.pipeline.build_source import build_source
from pgsluice.pipeline.labels import with_labels
from pgsluice.pipeline.modify import chain_of_others, require_sound
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.pipeline.verify.plan import passes_over_operations, plan_table, version_of_table
from pgsluice.pipeline.verify.report import TableReport, TargetReport
from pgsluice.pipeline.verify.settle import Settling, Sides, buckets_for, compare, compare_counts
from pgsluice.pipeline.verify.sides import Reading, ThroughChain
from pgsluice.postgres.session import has_relation, lift_limits
from pgsluice.schema.match import TableMatcher
from pgsluice.sinks.base import ComparesRows
from pgsluice.source.connect import connect, identify, source_errors, wal_position
from pgsluice.source.digests import SourceDigests, mark
from pgsluice.source.process import listening_process
from pgsluice.source.records import read_record
from pgsluice.source.snapshot.tables import published_tables

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.config import Config, Target
    from pgsluice.pipeline.verify.plan import Planned
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Comparison
    from pgsluice.source.snapshot.tables import CopiedTable

ROUNDS: Final = 5  # how often rows that differ are looked at while a pipeline runs
WAIT_SECONDS: Final = 60.0  # how long a target may take to have what the source has, each time
SHOWN: Final = 20  # rows that are told of, by table
_POLL_SECONDS: Final = 0.02

Tell = Callable[[str, str, int, int], None]
"""Called before each table: the target, the table, its place among all, and how many there are."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What is compared, and how patiently."""

    tables: tuple[str, ...] = ("*.*",)  # patterns
    target: str | None = None  # the name of one; None: all that hold tables
    rounds: int = ROUNDS
    wait: float = WAIT_SECONDS
    shown: int = SHOWN


def verify(
    config: Config,
    options: VerifyOptions = VerifyOptions(),  # noqa: B008 - frozen
    tell: Tell = lambda *_: None,
) -> list[TargetReport]:
    """Compare the source with its targets, while both may change."""
    targets = _targets(config, options.target)
    config = with_labels(config)
    spark = LazySpark(
        SparkOptions(config.spark.master, config.spark.conf, config.spark.jars, config.spark.packages)
    )
    with ExitStack() as opened:
        opened.callback(spark.stop)
        chain = chain_of_others(config)
        require_sound(config, chain, build_source(config), spark.child)
        place = config.state_dir if config.state_dir.is_dir() else None
        scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="verify-", dir=place))
        reading = Reading(config.source_url, chain, spark.child, Path(scratch))
        conn = opened.enter_context(connect(config.source_url, application_name="pgsluice verify"))
        lift_limits(conn)
        return [_Verification(config, target, options, reading, conn).run(tell) for target in targets]


def _targets(config: Config, name: str | None) -> list[Target]:
    """Those that hold tables, or the one that was asked for."""
    known = [each for each in config.sinks() if each.kind.form == "tables"]
    chosen = [each for each in known if name in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in known) or "this configuration has none"
        which = f"target {name!r}" if name else "target"
        raise ConfigError(f"there is no {which} that holds tables", remedy=f"Name one of: {names}")
    return chosen


class _Verification:
    """The comparison with one target."""

    def __init__(
        self, config: Config, target: Target, options: VerifyOptions, reading: Reading, conn: Connection
    ) -> None:
        self._config = config
        self._target = target
        self._options = options
        self._reading = reading
        self._conn = conn
        self._running = listening_process(config.log_dir) is not None
        self._is_late = False  # whether the target was waited for in vain
        self._comparison: Comparison
        self._report: TargetReport

    def run(self, tell: Tell) -> TargetReport:
        """Compare all tables, one after the other."""
        sink = self._target.kind.build(self._target.options)
        if not isinstance(sink, ComparesRows):
            raise ConfigError(
                f"rows of the target {self._target.name} can't be compared",
                remedy="Name another one by --target",
            )
        with sink.comparing() as self._comparison:
            self._report = self._begun()
            tables = self._tables(self._reading.chain)
            for place, (table, version) in enumerate(tables, start=1):
                tell(self._target.name, table.qualified, place, len(tables))
                self._report.tables.append(self._compared(table, version, as_source=sink.compares_as_source))
        return self._report

    def _begun(self) -> TargetReport:
        """How far the target is, and what that means for what is compared."""
        with self._source("read the WAL position"):
            end, system = wal_position(self._conn), identify(self._conn).system_id
        progress = self._progress()
        report = TargetReport(self._target.name, self._running, None, None)
        if progress is None:
            report.notes.append("no run has filled this target yet")
            return report
        progress.require_system(system, self._target.name)
        progress.require_names(str(self._target.renames), self._target.name)
        report.position, report.behind_bytes = str(progress.end_lsn), max(end - progress.end_lsn, 0)
        if progress.copies is not None and not progress.copies.finished:
            report.notes.append("the first copy into this target is not finished")
        if progress.anew:
            report.notes.append("some tables are being copied anew, and have older rows until that is done")
        return report

    def _progress(self) -> Progress | None:
        token = self._comparison.progress(self._config.name)
        return None if token is None else Progress.decode(token)

    def _tables(self, chain: Chain) -> list[tuple[CopiedTable, TableVersion]]:
        """What the target should hold."""
        asked = TableMatcher.parse(self._options.tables)
        wanted = self._config.modifiers.filter.matcher().matches
        found = []
        with self._source("list the tables"):
            published = self._published()
            for warning in asked.unmatched((each.relation.schema, each.relation.name) for each in published):
                self._report.notes.append(warning)
            for table in published:
                name = table.relation.schema, table.relation.name
                if not asked.matches(*name):
                    continue
                version = version_of_table(self._conn, table)
                if not wanted(*name):
                    self._report.left_out[table.qualified] = "modifiers.filter leaves it out"
                elif passes_over_operations(chain, version):
                    self._report.left_out[table.qualified] = "its filter passes over some operations"
                else:
                    found.append((table, version))
        return sorted(found, key=lambda each: each[0].qualified)

    def _published(self) -> list[CopiedTable]:
        record = None
        if has_relation(self._conn, "pgsluice", "pipeline"):
            record = read_record(self._conn, self._config.name)
        if record is not None:
            return published_tables(self._conn, record.publication)
        return build_source(self._config).chosen_tables(self._conn)

    def _compared(self, table: CopiedTable, version: TableVersion, *, as_source: bool) -> TableReport:
        renamed = self._target.renames.version(version)
        report = TableReport(table.qualified, renamed.qualified)
        existing = self._comparison.columns(renamed)
        if existing is None:
            report.problems.append("the target has no such table")
            return report
        planned = plan_table(
            table, version, self._target.renames, self._reading.chain, existing, as_source=as_source
        )
        report.problems += planned.problems
        report.notes += planned.notes
        settling = Settling(self._catch_up, self._options.rounds if self._running else 0, self._options.shown)
        if planned.counts_only:
            compare_counts(self._sides(planned), settling, report)
        else:
            names = [version.columns[place].name for place in planned.compared.key]
            compare(self._sides(planned), settling, report, names)
        return report

    def _sides(self, planned: Planned) -> Sides:
        compared = planned.compared
        here = (
            SourceDigests.of(
                self._conn, self._reading.url, planned.table, planned.version, compared.columns, compared.key
            )
            if planned.as_is
            else ThroughChain(self._reading, self._comparison, planned)
        )
        return Sides(here, self._comparison.held(compared), buckets_for(planned.table.bytes))

    def _catch_up(self) -> bool:
        """Wait until the target has what the source has now; in vain only once."""
        if self._is_late:
            return False
        with self._source("put a mark into the stream"):
            place = mark(self._conn)
        until = time.monotonic() + self._options.wait
        while time.monotonic() < until:
            progress = self._progress()
            if progress is not None and progress.end_lsn >= place:
                return True
            time.sleep(_POLL_SECONDS)
        self._is_late = True
        self._report.notes.append(
            f"the target did not catch up with the source within {self._options.wait:g} s: "
            "rows that differ may still come"
        )
        return False

    def _source(self, doing: str) -> AbstractContextManager[None]:
        return source_errors(self._reading.url, doing)
