"""
The way of a batch into files: written by tasks under hidden names, made to count by one manifest, then named.

Each batch makes a file for every table in it, or one for each task that had rows of the table; large ones are
cut at ``file_bytes``. A file has rows of one version of one table, so another definition of the table begins
another file.

Unit of parallelism: the task, which writes files of its own; small batches are written by the driver.
Guarantee: exactly once: the manifest has the files and the progress, and only the newest run can make one.
On replay: what was not committed is removed and written again; a batch whose reply was lost is recognised by
its token.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import SluiceError
from pgsluice.observability.failpoints import failpoint
from pgsluice.sinks.files.commits import Commits
from pgsluice.sinks.files.config import FilesConfig
from pgsluice.sinks.files.failures import translating
from pgsluice.sinks.files.lines import LinesForm
from pgsluice.sinks.files.manifest import ListedFile, Place, described
from pgsluice.sinks.files.names import directory_of, file_name
from pgsluice.sinks.files.parquet import ParquetForm
from pgsluice.sinks.files.parts import PartWriter, staged_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch, DataStep, SchemaChanges, SinkContext
    from pgsluice.sinks.files.parts import Form, StagedFile


class FilesSink:
    """
    Writes a change feed to a directory. See the module's text for what it promises.

    Args:
        target: the directory, or all options.
    """

    takes_identity = True

    def __init__(self, target: FilesConfig | str | Path) -> None:
        self._config = target if isinstance(target, FilesConfig) else FilesConfig(path=Path(target))
        self._root = self._config.path.expanduser().absolute()
        self._form: Form = _form(self._config)
        self._pipeline = ""
        self._commits: Commits | None = None

    @property
    def schema_changes(self) -> SchemaChanges:
        """Whether changes of the schema are a part of the feed."""
        return self._config.schema_changes

    def open(self, context: SinkContext) -> str | None:
        """Make the directory if it is not there, and take the pipeline's progress over."""
        self.close()
        self._pipeline = context.pipeline
        commits = Commits(self._root, context.pipeline, self._config.format)
        with translating(self._root):
            commits.take_over()
        self._commits = commits
        return commits.token

    def apply(self, batch: Batch) -> None:
        """Write the files of a batch, commit them, and let readers see them."""
        assert self._commits is not None, "open the sink first"
        commits = self._commits
        with translating(self._root):
            commits.catch_up()
            if commits.token == batch.end != batch.start:
                return
            if commits.token != batch.start:
                raise commits.fenced()
            commits.clear_staging()
            staged = self._written(batch, commits)
            failpoint("sink.before_commit")
            if staged:
                self._commit(batch, staged, commits)
            else:
                commits.move(batch.end)
            failpoint("sink.after_commit")
            commits.reveal()

    def close(self) -> None:
        """Let go of the directory."""
        commits, self._commits = self._commits, None
        if commits is not None:
            with suppress(OSError):
                commits.leave()

    def _written(self, batch: Batch, commits: Commits) -> list[StagedFile]:
        try:
            return list(chain.from_iterable(self._write(step, commits) for step in batch.steps))
        except (SluiceError, OSError):
            commits.catch_up()  # a newer run removes our staging directory: then that is the reason
            raise

    def _write(self, step: DataStep, commits: Commits) -> Iterator[StagedFile]:
        tables = dict(step.tables)
        writer = PartWriter(
            str(self._root), str(commits.staging), self._form, tables, self._config.file_bytes
        )
        if step.small:
            return staged_files([writer(0, self._form.few(step))])
        return staged_files(step.in_tasks(writer, self._form.through(tables)))

    def _commit(self, batch: Batch, staged: list[StagedFile], commits: Commits) -> None:
        tables = {number: table for step in batch.steps for number, table in step.tables.items()}
        files = list(self._listed(staged, tables, commits))
        used = {file.table for file in staged if file.table is not None}
        commits.commit(batch.end, files, {str(number): described(tables[number]) for number in sorted(used)})

    def _listed(
        self, staged: Iterable[StagedFile], tables: dict[int, TableVersion], commits: Commits
    ) -> Iterator[ListedFile]:
        """The files with the names that they will have."""
        hidden = commits.staging.relative_to(self._root)
        for place, file in enumerate(staged):
            name = file_name(self._pipeline, commits.next_number, file.table, place, self._form.suffix)
            yield ListedFile(
                path=f"{directory_of(None if file.table is None else tables[file.table])}/{name}",
                staged=str(hidden / file.name),
                table=file.table,
                rows=file.rows,
                bytes=file.bytes,
                first=Place.of(*file.first),
                last=Place.of(*file.last),
            )


def _form(config: FilesConfig) -> Form:
    if config.format == "jsonl":
        return LinesForm(config.used_compression, config.events)
    return ParquetForm(config.used_compression, config.special_values)
