"""
Every error that pgsluice raises on purpose.

The class says what kind of failure it is: a stable code for logs and JSON, the exit code of the
command line, and whether trying again can help. The message says what and where; the remedy says
what to do. ``docs/errors.md`` is generated from this module.

    SluiceError
    ├── ConfigError                 2
    │   └── NotInstalledError
    ├── MachineError                2
    │   └── JobLostError                (transient)
    ├── StateFormatError            2
    ├── LogError                    2
    │   ├── LogLockedError
    │   ├── LogFormatError
    │   ├── LogTooSmallError
    │   └── LogUnwritableError          (transient)
    ├── SourceError                 3
    │   ├── SourceUnreachableError      (transient)
    │   ├── SourceRefusedError
    │   ├── PoolerError
    │   ├── UnsupportedServerError
    │   ├── WalLevelError
    │   ├── MissingRightError
    │   ├── NotInitializedError
    │   ├── NewerInstallationError
    │   ├── UnsafePublicationError
    │   ├── SlotTakenError              (transient)
    │   ├── SlotMissingError
    │   ├── SlotUnusableError
    │   ├── PublicationMissingError
    │   ├── PublicationChangedError
    │   ├── TablesDifferError
    │   ├── RunActiveError
    │   ├── SchemaNotReadError
    │   ├── TableChangedError
    │   ├── TableRewrittenError         (transient)
    │   ├── SchemaBusyError             (transient)
    │   ├── SnapshotEndedError
    │   └── DecodeError
    ├── TransformError              2
    ├── WithoutIdentityError        2
    ├── TargetError                 4
    │   ├── TargetUnavailableError      (transient)
    │   ├── TargetSchemaError
    │   │   ├── ChangeRefusedError
    │   │   └── UntypedValueError
    │   ├── RowRefusedError
    │   ├── TooManyLettersError
    │   ├── TargetLockedError
    │   ├── TargetFencedError
    │   └── OutputClosedError       0
    └── GapError                    5
        ├── SlotInvalidatedError
        ├── SlotRecreatedError
        ├── SlotBehindError
        ├── SlotAheadOfLogError
        ├── SinkBehindLogError
        ├── WrongSystemError
        └── TimelineDivergedError
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "ChangeRefusedError",
    "ConfigError",
    "DecodeError",
    "GapError",
    "JobLostError",
    "LogError",
    "LogFormatError",
    "LogLockedError",
    "LogTooSmallError",
    "LogUnwritableError",
    "MachineError",
    "MissingRightError",
    "NewerInstallationError",
    "NotInitializedError",
    "NotInstalledError",
    "OutputClosedError",
    "PoolerError",
    "PublicationChangedError",
    "PublicationMissingError",
    "RowRefusedError",
    "RunActiveError",
    "SchemaBusyError",
    "SchemaNotReadError",
    "SinkBehindLogError",
    "SlotAheadOfLogError",
    "SlotBehindError",
    "SlotInvalidatedError",
    "SlotMissingError",
    "SlotRecreatedError",
    "SlotTakenError",
    "SlotUnusableError",
    "SluiceError",
    "SnapshotEndedError",
    "SourceError",
    "SourceRefusedError",
    "SourceUnreachableError",
    "StateFormatError",
    "TableChangedError",
    "TableRewrittenError",
    "TablesDifferError",
    "TargetError",
    "TargetFencedError",
    "TargetLockedError",
    "TargetSchemaError",
    "TargetUnavailableError",
    "TimelineDivergedError",
    "TooManyLettersError",
    "TransformError",
    "UnsafePublicationError",
    "UnsupportedServerError",
    "UntypedValueError",
    "WalLevelError",
    "WithoutIdentityError",
    "WrongSystemError",
]


class SluiceError(Exception):
    """Something that pgsluice can name went wrong."""

    code: ClassVar[str] = "SLUICE-ERROR"
    exit_code: ClassVar[int] = 1
    transient: ClassVar[bool] = False
    """Whether the same call may succeed later without anybody doing anything."""
    tries: ClassVar[int | None] = None
    """How often a transient error may come in a row before it counts as lasting; None: it is waited for."""

    def __init__(self, message: str, *, remedy: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark ships errors between processes; keyword arguments don't survive the default way.
        return _rebuild, (type(self), self.message, self.remedy, self.fields)

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data, for JSON output and log fields."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy, **self.fields}


def _rebuild(kind: type[SluiceError], message: str, remedy: str, fields: dict[str, Any]) -> SluiceError:
    return kind(message, remedy=remedy, **fields)


class ConfigError(SluiceError):
    """
    The configuration, a flag or an environment variable is missing or wrong.

    Nothing was started. The message names the key and, for a misspelt one, the nearest that exists;
    ``pgsluice config schema`` prints all of them.
    """

    code = "SLUICE-CONFIG"
    exit_code = 2


class NotInstalledError(ConfigError):
    """A part that the configuration asks for is not installed."""

    code = "SLUICE-NOT-INSTALLED"


class MachineError(SluiceError):
    """
    This machine lacks something: Java, space, or the right to write somewhere.

    ``pgsluice check`` without a URL lists everything that it needs and finds.
    """

    code = "SLUICE-MACHINE"
    exit_code = 2


class JobLostError(MachineError):
    """
    Spark gave up a job, and not because of what its tasks said: mostly, its Python workers were killed.

    A job can be run again without harm. When that does not help for several times in a row, the run ends; the
    next one goes on where this one was.
    """

    code = "SLUICE-JOB-LOST"
    transient = True
    tries = 5


class StateFormatError(SluiceError):
    """The file of the pipeline's own records is damaged, or was written by a newer version."""

    code = "SLUICE-STATE-FORMAT"
    exit_code = 2


class LogError(SluiceError):
    """
    The change log on disk can't be used.

    Never delete a log to get rid of this error: the slot has been confirmed up to the log's end, so what
    a target has not applied yet may be nowhere else.
    """

    code = "SLUICE-LOG"
    exit_code = 2


class LogLockedError(LogError):
    """Another process owns this change log."""

    code = "SLUICE-LOG-LOCKED"


class LogFormatError(LogError):
    """A file of the change log is damaged, or was written by a newer version."""

    code = "SLUICE-LOG-FORMAT"


class LogTooSmallError(LogError):
    """One transaction needs more room than the change log may take."""

    code = "SLUICE-LOG-TOO-SMALL"


class LogUnwritableError(LogError):
    """The change log's disk can't be written just now: it is full, or gone."""

    code = "SLUICE-LOG-UNWRITABLE"
    transient = True


class SourceError(SluiceError):
    """
    The source database refused or failed.

    ``pgsluice check --source-url ...`` names the cause together with the SQL or the setting that mends it.
    """

    code = "SLUICE-SOURCE"
    exit_code = 3


class SourceUnreachableError(SourceError):
    """The source can't be reached, or the connection to it broke."""

    code = "SLUICE-SOURCE-UNREACHABLE"
    transient = True


class SourceRefusedError(SourceError):
    """The source refused the connection: password, pg_hba.conf, database or role."""

    code = "SLUICE-SOURCE-REFUSED"


class PoolerError(SourceError):
    """The source's address leads to a connection pooler, which can't carry replication."""

    code = "SLUICE-SOURCE-POOLER"


class UnsupportedServerError(SourceError):
    """The source is a server that pgsluice can't capture from: too old, or a standby."""

    code = "SLUICE-SERVER-UNSUPPORTED"


class WalLevelError(SourceError):
    """The source does not write the WAL that logical replication needs."""

    code = "SLUICE-WAL-LEVEL"


class MissingRightError(SourceError):
    """The role lacks a right on the source."""

    code = "SLUICE-MISSING-RIGHT"


class NotInitializedError(SourceError):
    """The source has not been prepared by ``pgsluice init``, or by an older version."""

    code = "SLUICE-NOT-INITIALIZED"


class NewerInstallationError(SourceError):
    """The source was prepared by a newer version of pgsluice than this one."""

    code = "SLUICE-NEWER-INSTALLATION"


class UnsafePublicationError(SourceError):
    """The publication would make UPDATE or DELETE fail in the application."""

    code = "SLUICE-UNSAFE-PUBLICATION"


class SlotTakenError(SourceError):
    """The replication slot is in use by another process."""

    code = "SLUICE-SLOT-TAKEN"
    transient = True


class SlotMissingError(SourceError):
    """The replication slot does not exist."""

    code = "SLUICE-SLOT-MISSING"


class SlotUnusableError(SourceError):
    """A slot of that name exists, but with another plugin, kind or database."""

    code = "SLUICE-SLOT-UNUSABLE"


class PublicationMissingError(SourceError):
    """The publication does not exist, or the server skipped it while decoding."""

    code = "SLUICE-PUBLICATION-MISSING"


class PublicationChangedError(SourceError):
    """The publication is not the one that this pipeline was started with."""

    code = "SLUICE-PUBLICATION-CHANGED"


class TablesDifferError(SourceError):
    """A run asks for other tables than its pipeline was prepared with."""

    code = "SLUICE-TABLES-DIFFER"


class RunActiveError(SourceError):
    """The operation is refused while a pipeline is running."""

    code = "SLUICE-RUN-ACTIVE"


class SchemaNotReadError(SourceError):
    """
    A change of the schema was noted by the source's event trigger, but not what it changed.

    The statement itself went well. ``pgsluice schema log`` shows it, with the server's own error.
    """

    code = "SLUICE-SCHEMA-NOT-READ"


class TableChangedError(SourceError):
    """A typed stream or read has come to a table with other columns than it was made with."""

    code = "SLUICE-TABLE-CHANGED"


class TableRewrittenError(SourceError):
    """A table was rewritten, or dropped, while it was being copied; its copy begins again."""

    code = "SLUICE-TABLE-REWRITTEN"
    transient = True


class SchemaBusyError(SourceError):
    """The schema could not be read, because others change it at the same time; it is tried again."""

    code = "SLUICE-SCHEMA-BUSY"
    transient = True


class SnapshotEndedError(SourceError):
    """A read belongs to a snapshot that nobody holds any more."""

    code = "SLUICE-SNAPSHOT-ENDED"


class DecodeError(SourceError):
    """The replication stream holds bytes that are not a message of protocol 1."""

    code = "SLUICE-DECODE"


class TransformError(SluiceError):
    """A rule can't be applied to a value or a table; nothing of it has left."""

    code = "SLUICE-TRANSFORM"
    exit_code = 2


class WithoutIdentityError(SluiceError):
    """
    A row of a table without an identity has come, and the injector is told to stop there.

    Nothing of the row has left: once the table has an identity, or such rows may pass, the run goes on.
    """

    code = "SLUICE-WITHOUT-IDENTITY"
    exit_code = 2


class TargetError(SluiceError):
    """
    The target refused or failed.

    The log keeps the changes meanwhile: once the target is mended, the run goes on where it stopped.
    """

    code = "SLUICE-TARGET"
    exit_code = 4
    caused_by_row: ClassVar[bool] = False
    """Whether single rows are refused, and the target would take a batch without them."""


class TargetUnavailableError(TargetError):
    """The target can't be reached or can't write just now."""

    code = "SLUICE-TARGET-UNAVAILABLE"
    transient = True


class TargetSchemaError(TargetError):
    """A row does not fit the table that the target has."""

    code = "SLUICE-TARGET-SCHEMA"
    caused_by_row = True


class ChangeRefusedError(TargetSchemaError):
    """The target refuses a change of the schema that the source has made."""

    code = "SLUICE-CHANGE-REFUSED"


class RowRefusedError(TargetError):
    """The target refuses a row: by a rule of its table, a missing right, or a row that it lacks."""

    code = "SLUICE-ROW-REFUSED"
    caused_by_row = True


class TooManyLettersError(TargetError):
    """A target refuses so many rows that it has to be mended before the stream goes on."""

    code = "SLUICE-TOO-MANY-LETTERS"


class TargetLockedError(TargetError):
    """Another process has the target open, and it can have only one writer."""

    code = "SLUICE-TARGET-LOCKED"


class UntypedValueError(TargetSchemaError):
    """A value does not fit its typed column, and the choice for such values is to stop."""

    code = "SLUICE-UNTYPED"


class TargetFencedError(TargetError):
    """Another run has taken the target over; this one must stop."""

    code = "SLUICE-TARGET-FENCED"


class OutputClosedError(TargetError):
    """Whoever read our output went away (``| head``): a clean end, not a failure."""

    code = "SLUICE-OUTPUT-CLOSED"
    exit_code = 0


class GapError(SluiceError):
    """
    Changes are missing between what the target holds and what can still be read.

    Going on would leave the target silently wrong, so nothing is applied. The only remedy is to copy the
    data again from a new point; the message names both ends of the gap.
    """

    code = "SLUICE-GAP"
    exit_code = 5


class SlotInvalidatedError(GapError):
    """The server has invalidated the slot: WAL that it needed is gone."""

    code = "SLUICE-SLOT-LOST"


class SlotRecreatedError(GapError):
    """The slot was dropped and created again: what happened in between is not in it."""

    code = "SLUICE-SLOT-RECREATED"


class SlotBehindError(GapError):
    """The slot stands before the point where this pipeline's log begins."""

    code = "SLUICE-SLOT-BEHIND"


class SlotAheadOfLogError(GapError):
    """The slot was confirmed beyond what the change log holds."""

    code = "SLUICE-SLOT-AHEAD"


class SinkBehindLogError(GapError):
    """The target's position is older than the first position that the log still holds."""

    code = "SLUICE-SINK-BEHIND"


class WrongSystemError(GapError):
    """The source is another database system than the one this position belongs to."""

    code = "SLUICE-WRONG-SYSTEM"


class TimelineDivergedError(GapError):
    """The source went on along a timeline that this log has already gone past."""

    code = "SLUICE-TIMELINE"
