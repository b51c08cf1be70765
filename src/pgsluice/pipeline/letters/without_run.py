"""Replaying letters while no run is active: the command has the target to itself, under the log's lock."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.lock import LogLock
from pgsluice.changelog.position import Progress
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import ConfigError
from pgsluice.pipeline.letters.desk import Desk
from pgsluice.pipeline.letters.reading import LetterReader
from pgsluice.pipeline.letters.replay import Replay
from pgsluice.pipeline.modify import chain_of_others
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import SinkContext
from pgsluice.state.dead_letter import LetterBook

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from pgsluice.pipeline.config.targets import Target
    from pgsluice.schema.table import TableVersion


def target_of(config: Config, sink: str) -> Target:
    """The target that a letter is for; an error when the configuration has none of that name."""
    for target in config.sinks():
        if target.name == sink:
            return target
    raise ConfigError(
        f"the letter is for target {sink!r}, which the configuration does not have",
        remedy="Give the pipeline's own -c file, or --target and --target-url",
    )


def letter_reader(config: Config, target: Target, store: SchemaStore) -> LetterReader:
    """Reads what letters of a target point at, as its loop would."""
    matches = config.modifiers.filter.matcher().matches

    def wanted(version: TableVersion) -> bool:
        return matches(version.schema, version.name)

    spark = LazySpark(SparkOptions()).child
    return LetterReader(config.log_dir, lambda: store, chain_of_others(config), spark, target.renames, wanted)


def replay_without_run(config: Config, target: Target, ids: Collection[int]) -> None:
    """Replay letters of a target; what is refused again stays open. Raises while a run is active."""
    lock = LogLock(config.log_dir / "lock")
    lock.acquire()
    try:
        _replay(config, target, ids, config.state_dir)
    finally:
        lock.release()


def _replay(config: Config, target: Target, ids: Collection[int], state_dir: Path) -> None:
    with ExitStack() as opened:
        book = opened.enter_context(closing(LetterBook(state_dir)))
        store = opened.enter_context(closing(SchemaStore(config.log_dir / "schema.db")))
        sink = opened.enter_context(closing(target.kind.build(target.options)))
        desk = Desk(target.name, sink, book, Consumers(config.log_dir), on_error="dead_letter")
        token = sink.open(SinkContext(config.name, state_dir))
        progress = Progress.decode(token) if token is not None else None
        desk.settle(progress)
        assert token is not None
        assert progress is not None
        progress.require_system(LogReader(config.log_dir).meta.system_id, target.name)
        progress.require_names(str(target.renames), target.name)
        replay = Replay(desk, letter_reader(config, target, store), state_dir)
        replay.finish(replay.judge(ids), token, progress)
