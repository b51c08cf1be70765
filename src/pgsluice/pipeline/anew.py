"""
Tables that are copied while the stream of their sink goes on: because people ask for it, or because they have
just come into the stream.

The copy has a loop of its own, over the same log, into tables beside the old ones: it copies them at a
point, then follows the stream. The sink's own loop leaves these tables alone from the beginning on, so their
old rows stay as they are (they may be why the copy is wanted). When the copy has come close, both loops stop
at the same position, and the sink's own loop puts the new rows in the place of the old ones, in one stroke
with its progress.

Which tables are left alone is in that progress: after a crash the copy goes on, or begins again.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pgsluice.changelog.position import Lsn
from pgsluice.errors import TableChangedError, TargetSchemaError
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.copy import is_missing
from pgsluice.pipeline.copy_plan import registered
from pgsluice.pipeline.modify import know_tables
from pgsluice.pipeline.schema_copy import read_schema
from pgsluice.schema.match import OWN_SCHEMA
from pgsluice.schema.renames import Renames
from pgsluice.sinks.base import HoldsTables, SharesTables, Swap, TakesSchema
from pgsluice.source.connect import connect, source_errors, wal_position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pgsluice.changelog.position import Copies
    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.copy import CopySource
    from pgsluice.pipeline.loop import SinkLoop
    from pgsluice.pipeline.schema_copy import SchemaCopy
    from pgsluice.pipeline.standing import Standing
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import SchemaStatement
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink
    from pgsluice.source.snapshot.tables import CopiedTable
    from pgsluice.state.requests import CopyRequest, Requests

    Lacking = tuple[SchemaCopy, list[SchemaStatement]]

logger = structlog.get_logger(__name__)

CLOSE_BYTES: Final = 4 << 20  # of log: what the sink's own loop may wait for
_WAIT_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Beside(Renames):
    """The names of tables that are filled beside those they will replace."""

    pipeline: str = ""  # others may write to the same target, from tables of the same number

    def version(self, version: TableVersion) -> TableVersion:
        """A table of our own schema, by the number that a table keeps for life."""
        name = f"anew_{version.relid}_{zlib.crc32(self.pipeline.encode()):08x}"
        return replace(version, schema=OWN_SCHEMA, name=name)


def beside_name(sink: str) -> str:
    """The name under which the copy beside a sink reads the log."""
    return f"{sink}-anew"


def only(source: CopySource, relids: Sequence[int]) -> CopySource:
    """The same source with some of its tables."""
    return replace(
        source,
        tables=lambda conn: [table for table in source.tables(conn) if table.relation.relid in relids],
    )


class Keep(Protocol):
    """Lets the sink keep which tables are left alone, with tables that are put in place."""

    def __call__(
        self, relids: tuple[int, ...], swaps: Sequence[Swap] = (), copied: Sequence[int] = ()
    ) -> bool:
        """False when stopped before it was kept."""
        ...


@dataclass(frozen=True, slots=True)
class Owner:
    """What belongs to the sink's own loop."""

    standing: Standing
    source: CopySource | None
    pipeline: str  # the name under which the copy keeps its progress
    loop_for: Callable[[Sequence[int]], SinkLoop]
    keep: Keep
    chain: Chain  # what its rows go through
    applies_schema: bool = False  # whether the target's schema follows the source's, by the stream

    @property
    def name(self) -> str:
        """Of the sink."""
        return self.standing.name

    @property
    def sink(self) -> Sink:
        """The sink."""
        return self.standing.sink

    @property
    def renames(self) -> Renames:
        """What its tables are called."""
        return self.standing.renames

    @property
    def beside(self) -> Beside:
        """The names of the tables that are copied."""
        return Beside(pipeline=self.pipeline)


class TablesAnew:
    """The tables that one sink's loop leaves to a copy beside it."""

    def __init__(self, owner: Owner, requests: Requests | None, store: Callable[[], SchemaStore]) -> None:
        self._owner = owner
        self._requests = requests  # None: nothing can be asked for
        self._store = store
        self._copy: SinkLoop | None = None
        self._copying: tuple[int, ...] = ()
        self._offered: Sequence[tuple[CopiedTable, Lsn]] = ()  # and where they were seen
        self._prepared: tuple[list[TableVersion], Lsn] | None = (
            None  # to be copied next, and where it was seen
        )
        self._seen_at = Lsn(0)  # where tables were looked at last
        self._schema: Lacking | None = None  # what makes tables that came in and that the target lacks
        self._outdated = False  # whether what is being copied was rewritten since
        self._gone: set[int] = set()  # tables of the log that the source does not publish any more
        self.until: Lsn | None = None  # where both loops meet

    @property
    def _relids(self) -> tuple[int, ...]:
        """Left alone: being copied, or waiting for their turn."""
        return self._owner.standing.left_alone

    @property
    def possible(self) -> bool:
        """Whether the target has tables that can be filled beside the others."""
        return self._owner.source is not None and isinstance(self._owner.sink, HoldsTables)

    def offer(self, tables: Sequence[CopiedTable], seen_at: Lsn) -> None:
        """The tables of the stream as they are at a point; called by another thread."""
        self._offered = [(table, max(seen_at, table.joined or Lsn(0))) for table in tables]

    def offer_again(self, relids: Collection[int]) -> None:
        """Look for tables that lack rows of a while; those that are not published yet come later."""
        source = self._owner.source
        assert source is not None
        with source_errors(source.url, "list the tables"), connect(source.url) as conn:
            tables = [table for table in source.tables(conn) if table.relation.relid in relids]
            seen_at = wal_position(conn)
        self.offer(
            [each for each in tables if source.wanted(each.relation.schema, each.relation.name)], seen_at
        )

    def resume(self) -> None:
        """Go on with what the last run has begun."""
        if not self._relids:
            return
        versions = self._copied_now()
        if self._fits(versions):  # else the source has changed one of them since, or it was never made
            self._begin({version.relid: version for version in versions})

    def take_requests(self) -> None:
        """Leave tables alone that people have asked for."""
        if self._requests is None or not self._requests.changed():
            return
        self._close_begun()
        asked = [request for request in self._open() if not request.begun]
        if asked and not self.possible:
            logger.warning("this target holds no tables that could be copied anew", sink=self._owner.name)
        elif asked:
            names = {request.qualified for request in asked}
            self._leave_alone(lambda table: table.qualified in names)
        for request in asked:
            self._requests.note_begun(request)

    def take_newcomers(self) -> None:
        """Leave tables alone that have come into the stream since the sink's own copy."""
        standing = self._owner.standing
        copies = standing.copies
        if copies is None or not copies.finished or not self.possible:
            self._offered = ()
            return
        new = self._newcomers(copies)
        # Where the target follows the source's schema, a table is there when the stream has come so far.
        at_once = not self._owner.applies_schema
        ready = {relid for relid, seen_at in new.items() if at_once or standing.has_passed(seen_at)}
        waiting = new.keys() - ready
        self._offered = [each for each in self._offered if each[0].relation.relid in waiting]
        if ready:
            self._leave_alone(lambda table: table.relation.relid in ready)

    def _newcomers(self, copies: Copies) -> dict[int, Lsn]:
        """The tables that were offered and are missing, and where they were seen."""
        return {
            table.relation.relid: seen_at
            for table, seen_at in self._offered
            if is_missing(table, copies)
            and table.relation.relid not in self._relids
            and not self._is_renamed_away(table, copies)
        }

    def _is_renamed_away(self, table: CopiedTable, copies: Copies) -> bool:
        """Whether a table has left the pipeline by its name, and not the publication so far."""
        source, relation = self._owner.source, table.relation
        return (
            relation.relid in copies.left
            and source is not None
            and not source.lists(relation.schema, relation.name)
        )

    @property
    def is_needed(self) -> bool:
        """Whether tables are being copied, or wait for it."""
        copies = self._owner.standing.copies
        return bool(self._relids or (copies is not None and copies.finished and self._newcomers(copies)))

    def forget_earlier(self) -> None:
        """Tables are about to be left alone: nothing of an earlier copy is gone on with."""
        sink = self._owner.sink
        if not self._relids and isinstance(sink, HoldsTables):
            sink.forget(self._owner.pipeline)

    def take_rewritten(self, relids: set[int]) -> None:
        """Copy tables anew whose rows are other ones now; the progress says so already."""
        self._outdated = self._copy is not None and bool(relids & {*self._copying})
        self._leave_alone(lambda table: table.relation.relid in relids, in_any_case=relids)

    def take_unknown(self, versions: Iterable[TableVersion], copies: Copies | None) -> bool:
        """The same for tables of which changes are about to be applied; True if there were such."""
        new = self.unknown(versions, copies)
        if not new:
            return False
        self._gone |= new
        return self._leave_alone(lambda table: table.relation.relid in new)

    def unknown(self, versions: Iterable[TableVersion], copies: Copies | None) -> set[int]:
        """Those of the tables that have come into the stream since the sink's own copy."""
        if copies is None or not copies.finished or not self.possible:
            return set()
        return {version.relid for version in versions} - copies.tables - {*self._relids} - self._gone

    def tend(self, ahead: Lsn) -> bool:
        """
        Begin a copy, or look how far it is; True when its tables can be put in place at this position.

        ``ahead`` is where a batch ends that the sink's own loop will apply in any case.
        """
        standing, copy = self._owner.standing, self._copy
        if copy is None:
            if self._relids:
                standing.with_patience(self._begin_when_ready)
            return False
        if self._outdated or self._was_outrun(copy.error):
            self._begin_again()
            return False
        if copy.error is not None:
            raise copy.error
        if self.until is None:
            if copy.is_streaming and _is_close(copy.facts.position, standing):
                # Rows of tables that are gone may come up to where the others were looked at.
                self.until = max(standing.position, ahead, copy.facts.position, self._seen_at)
                copy.stop_at(self.until, exactly=True)
            return False
        if copy.is_alive():
            copy.join(_WAIT_SECONDS)
            return False
        self.until = max(self.until, copy.facts.position)  # it may have gone on before it heard of it
        return standing.has_passed(self.until)

    def _begin_when_ready(self) -> None:
        """Make the tables beside and begin, once the target has what the source's are made of now."""
        if self._prepared is None:
            self._prepared = self._copied_now(), self._seen_at
        versions, seen_at = self._prepared
        if self._owner.applies_schema and not self._owner.standing.has_passed(seen_at):
            return  # a type of a column may come with the stream
        sink = self._owner.sink
        assert isinstance(sink, HoldsTables)
        self._prepared = None
        self._make_lacking()
        sink.forget(self._owner.pipeline)
        for version in map(self._owner.chain.narrowed, versions):
            sink.make_beside(self._owner.renames.version(version), self._owner.beside.version(version))
        self._begin()

    def put_in_place(self) -> None:
        """Put the tables that were copied in the place of the old ones."""
        assert self._copy is not None
        swaps = self._swaps(self._copy)
        if not self._is_there(swaps):
            return
        left = tuple(relid for relid in self._relids if relid not in self._copying)
        if not self._owner.keep(left, swaps, self._copying):
            return
        failpoint("anew.in_place")
        self._remove_others({swap.beside.relid for swap in swaps})
        names = [swap.table.qualified for swap in swaps]
        logger.info("tables copied anew are in place", sink=self._owner.name, tables=names)
        self._owner.standing.consumers.drop(self._copy.sink_name)
        self._copy, self._copying, self.until = None, (), None
        if not left:
            self._close_begun()

    def _remove_others(self, placed: set[int]) -> None:
        """Remove what was begun for tables that have left the stream meanwhile."""
        sink = self._owner.sink
        assert isinstance(sink, HoldsTables)
        left = {*self._copying} - placed
        for version in self._store().versions():
            if version.relid in left:
                sink.drop_beside(self._owner.beside.version(version))
        if left:
            sink.forget(self._owner.pipeline)

    def _is_there(self, swaps: Sequence[Swap]) -> bool:
        """Whether the target has what was copied; else the copy begins again, and the old rows stay."""
        sink = self._owner.sink
        assert isinstance(sink, HoldsTables)
        gone = [swap for swap in swaps if not sink.holds(swap.beside)]
        for swap in gone:
            logger.warning(
                "the copy of a table is gone from the target, beginning again", table=swap.table.qualified
            )
        if gone:
            self._copy, self._copying, self.until = None, (), None
        return not gone

    def _was_outrun(self, error: BaseException | None) -> bool:
        """Whether a copy ended because the source has changed a table since the one beside it was made."""
        if isinstance(error, TableChangedError):
            return True
        return isinstance(error, TargetSchemaError) and not self._fits(self._copied_now())

    def _copied_now(self) -> list[TableVersion]:
        return self._tables_now(lambda table: table.relation.relid in self._relids)[1]

    def _fits(self, versions: Iterable[TableVersion]) -> bool:
        """Whether the tables beside are made for these versions."""
        sink = self._owner.sink
        assert isinstance(sink, HoldsTables)
        return all(sink.holds(self._owner.beside.version(version)) for version in versions)

    def _begin_again(self) -> None:
        """Copy the same tables once more, as they are now: the source has changed one of them meanwhile."""
        logger.info("a table was changed while it was copied anew, beginning again", sink=self._owner.name)
        self.stop()
        self._copy, self._copying, self.until, self._outdated = None, (), None, False

    def stop(self) -> None:
        """Let the copy finish its batch, and wait for it."""
        if self._copy is not None and self._copy.ident is not None:
            self._copy.stop()
            self._copy.join()

    def _leave_alone(
        self, wanted: Callable[[CopiedTable], bool], *, in_any_case: Collection[int] = ()
    ) -> bool:
        """
        From here on the sink's own loop applies nothing to these tables.

        ``in_any_case`` are some that the source may not have any more: there is nothing to copy, but what the
        stream has of them, up to when they went, fits no rows of the target.
        """
        owner = self._owner
        tables, _ = self._tables_now(lambda table: wanted(table) and self._may_begin(table))
        self.forget_earlier()
        found = [table.relation.relid for table in tables]
        relids = tuple(dict.fromkeys((*self._relids, *found, *sorted(in_any_case))))
        if relids == self._relids or not owner.keep(relids):
            return False
        self._prepared = None
        logger.info("copying tables anew", sink=owner.name, tables=[table.qualified for table in tables])
        return True

    def _tables_now(
        self, wanted: Callable[[CopiedTable], bool]
    ) -> tuple[list[CopiedTable], list[TableVersion]]:
        """Tables as the source has them now, with those tied to them; the target gets what it lacks."""
        owner = self._owner
        assert owner.source is not None
        with source_errors(owner.source.url, "list the tables"), connect(owner.source.url) as conn:
            published = owner.source.tables(conn)
            asked = [table for table in published if wanted(table)]
            know_tables(owner.chain, conn, [table.relation.relid for table in asked])
            if asked and not owner.applies_schema:
                schema = read_schema(
                    owner.name, owner.sink, owner.source, owner.renames, conn, published, owner.chain
                )
                if schema is not None:  # what is new here has no rows yet
                    schema.make((*schema.before, *schema.after))
            elif asked:
                self._schema = self._of_lacking(conn, asked, published)
            tables = self._with_tied(asked, published)
            self._seen_at = wal_position(conn)
            return tables, [registered(self._store(), table, conn) for table in tables]

    def _of_lacking(
        self, conn: Connection, asked: Sequence[CopiedTable], published: Sequence[CopiedTable]
    ) -> Lacking | None:
        """What makes those tables that the target lacks: they came in, or somebody has dropped them there."""
        owner = self._owner
        assert owner.source is not None
        copied = owner.standing.copied_tables
        # One that was copied may have another name by now, which comes with the stream.
        known = {version.relid: (version.schema, version.name) for version in self._store().versions()}
        names = {
            owner.renames.table(name): name
            for each in asked
            for name in [(each.relation.schema, each.relation.name)]
            if each.relation.relid not in copied or known.get(each.relation.relid) == name
        }
        sink = owner.sink
        lacking = sink.lacks(list(names)) if names and isinstance(sink, TakesSchema) else []
        if not lacking:
            return None
        schema = read_schema(owner.name, sink, owner.source, owner.renames, conn, published, owner.chain)
        return None if schema is None else (schema, schema.of_tables([names[name] for name in lacking]))

    def _make_lacking(self) -> None:
        """Make them, before their rows are copied."""
        lacking, self._schema = self._schema, None
        if lacking is not None:
            schema, statements = lacking
            schema.make(statements)

    def _with_tied(
        self, tables: Sequence[CopiedTable], published: Sequence[CopiedTable]
    ) -> list[CopiedTable]:
        """With the tables that have to be copied with them, in any case."""
        owner = self._owner
        assert isinstance(owner.sink, HoldsTables)
        names = {
            table.relation.relid: owner.renames.table((table.relation.schema, table.relation.name))
            for table in published
        }
        asked = {table.relation.relid for table in tables}
        tied = owner.sink.tied_to([names[relid] for relid in asked]) if asked else set()
        return [
            table
            for table in published
            if (relid := table.relation.relid) in asked or (names[relid] in tied and self._may_begin(table))
        ]

    def _may_begin(self, table: CopiedTable) -> bool:
        """Whether the target wants a table, and it is not being copied: what is beside it stays then."""
        source, relation = self._owner.source, table.relation
        assert source is not None
        return relation.relid not in self._relids and source.wanted(relation.schema, relation.name)

    def _begin(self, versions: Mapping[int, TableVersion] | None = None) -> None:
        self._copying = self._relids
        self._copy = self._owner.loop_for(self._relids)
        self._copy.know(versions or {})  # that what is beside was made for
        self._copy.open()
        self._copy.start()

    def _swaps(self, copy: SinkLoop) -> list[Swap]:
        """The tables that were copied, in the version that they came in last."""
        owner, copied = self._owner, copy.copied_tables
        versions = {relid: version for relid, version in copy.met.items() if relid in copied}
        if earlier := copied - versions.keys():  # copied by an earlier run, and nothing came since
            assert owner.source is not None
            with source_errors(owner.source.url, "list the tables"), connect(owner.source.url) as conn:
                for table in only(owner.source, tuple(earlier)).tables(conn):
                    versions[table.relation.relid] = registered(self._store(), table, conn)
        asked, held = self._open(), owner.standing.copied_tables
        known = {version.qualified for version in self._store().versions() if version.relid in held}
        known |= {request.qualified for request in asked}
        replaced = {request.qualified for request in asked if request.replace}
        return [
            Swap(
                owner.renames.version(version),
                owner.beside.version(version),
                owner.pipeline,
                adds=self._adds(version, is_known=version.qualified in known)
                and version.qualified not in replaced,
            )
            for version in map(owner.chain.narrowed, versions.values())
        ]

    def _adds(self, version: TableVersion, *, is_known: bool) -> bool:
        """Whether the rows that a table has are left there: they are others', or may be."""
        sink = self._owner.sink
        if is_known and isinstance(sink, SharesTables) and sink.shares_tables and version.merge_key:
            logger.warning(
                "rows that the source no longer has may stay: others write to this target (on_conflict)",
                table=version.qualified,
                remedy="To have the source's rows and no others: pgsluice resync --replace",
            )
            return True
        return not is_known

    def _open(self) -> list[CopyRequest]:
        found = self._requests.open() if self._requests is not None else ()
        return [request for request in found if request.sink == self._owner.name]

    def _close_begun(self) -> None:
        """Requests that are begun and not in the progress any more are done."""
        for request in self._open() if not self._relids else ():
            if request.begun and self._requests is not None:
                self._requests.done(request)


def _is_close(copied: Lsn, standing: Standing) -> bool:
    """Whether what a copy lacks is little."""
    position, reader = standing.position, standing.reader
    if copied >= position:
        return True
    rest = reader.next(copied, CLOSE_BYTES, until=position)
    return rest is None or reader.next(rest.end, 1, until=position) is None
