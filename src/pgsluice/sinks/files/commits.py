"""
The commits of one pipeline: numbered manifests, each of which can be made only once.

The next number is always the last plus one, and a manifest is made by a hard link, which fails where the name
exists. A run that opens the feed takes the next number for itself; a run of before, which would have taken
that number for its next batch, finds it taken and has changed nothing. Manifests are never removed, or a
number would be free again.

A batch without rows makes no manifest: its token is put beside the last one, as ``<number>.progress``. Two
runs that race there may lose a token that was moved over nothing; it is moved again.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import shutil
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pgsluice.changelog.segment import sync_directory, write_durably
from pgsluice.errors import TargetError, TargetFencedError
from pgsluice.sinks.files.failures import no_links
from pgsluice.sinks.files.manifest import Manifest, decode
from pgsluice.sinks.files.names import MANIFEST, encoded, number_in, numbered
from pgsluice.sinks.files.reveal import reveal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pgsluice.sinks.files.manifest import ListedFile

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Commits:
    """
    The manifests of one pipeline, as one run sees them.

    Args:
        root: the feed's directory.
        pipeline: whose manifests.
        form: of the files: parquet or jsonl.
    """

    def __init__(self, root: Path, pipeline: str, form: str) -> None:
        self._root = root
        self._pipeline = pipeline
        self._form = form
        self._directory = root / MANIFEST / encoded(pipeline)
        self._owner = uuid.uuid4().hex
        self._number = 0  # of the last manifest, ours from the opening on
        self._hidden: Manifest | None = None  # a commit of ours whose files may not have their names yet
        self.token: str | None = None
        self.staging = self._directory / "staging"

    @property
    def next_number(self) -> int:
        """Of the next commit."""
        return self._number + 1

    def take_over(self) -> None:
        """Become the newest opener: nobody before can commit any more, and what they left is removed."""
        self._make_directories()
        while True:
            last = self._last()
            if last is not None:
                self._require_same_form(last)
                reveal(self._root, last)
            self._number = last.number if last is not None else 0
            self.token = self._progress() or (last.token if last is not None else None)
            if self._publish(self._manifest(self.token)):
                break
        self._number += 1
        self._remove_leftovers()
        self.staging = self._directory / "staging" / numbered(self._number)
        self.staging.mkdir()
        sync_directory(self.staging.parent)

    def catch_up(self) -> None:
        """Find a commit of ours that we were not told of; raise if another run has opened the feed."""
        path = self._path(self.next_number)
        if path.exists():
            found = decode(path)
            if found.owner != self._owner:
                raise self.fenced()
            sync_directory(self._directory)
            self._committed(found)
        self.reveal()

    def reveal(self) -> None:
        """Let readers see the files of the last commit, if they don't yet."""
        if self._hidden is not None:
            reveal(self._root, self._hidden)
            self._hidden = None

    def commit(self, token: str, files: Sequence[ListedFile], tables: dict[str, dict[str, Any]]) -> None:
        """Make files count, and the token with them."""
        sync_directory(self.staging)
        manifest = self._manifest(token, tuple(files), tables)
        if not self._publish(manifest):
            raise self.fenced()
        self._committed(manifest)

    def move(self, token: str) -> None:
        """Set the token of a batch without rows."""
        write_durably(self._progress_path(self._number), json.dumps({"token": token}).encode())
        if self._path(self.next_number).exists():
            raise self.fenced()
        self.token = token

    def clear_staging(self) -> None:
        """Remove what attempts that don't count have left; only when no commit is being revealed."""
        assert self._hidden is None
        for path in self.staging.iterdir():
            path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove our own staging directory, unless somebody has still to reveal files of it."""
        if self._hidden is None and self._number:
            shutil.rmtree(self.staging, ignore_errors=True)

    def fenced(self) -> TargetFencedError:
        """The error for a run that is no longer the newest."""
        return TargetFencedError(
            f"another run of the pipeline {self._pipeline} has moved on in {self._root}",
            remedy="Let only one run write to it, or give the second pipeline a name of its own",
            pipeline=self._pipeline,
        )

    def _committed(self, manifest: Manifest) -> None:
        superseded = self._progress_path(self._number)
        self._number, self.token, self._hidden = manifest.number, manifest.token, manifest
        with suppress(OSError):
            superseded.unlink(missing_ok=True)

    def _make_directories(self) -> None:
        places = (self._root, self._root / MANIFEST, self._directory, self._directory / "staging")
        missing = [place for place in places if not place.is_dir()]
        for place in missing:
            place.mkdir(parents=True, exist_ok=True)
            sync_directory(place.parent)

    def _last(self) -> Manifest | None:
        """The manifest with the highest number; None in a new feed."""
        with os.scandir(self._directory) as entries:
            numbers = (number_in(entry.name) for entry in entries if entry.name.endswith(".json"))
            last = max((number for number in numbers if number is not None), default=0)
        return decode(self._path(last)) if last else None

    def _progress(self) -> str | None:
        """The token that was put beside the last manifest, if one was."""
        try:
            return str(json.loads(self._progress_path(self._number).read_bytes())["token"])
        except FileNotFoundError:
            return None

    def _manifest(
        self,
        token: str | None,
        files: tuple[ListedFile, ...] = (),
        tables: dict[str, dict[str, Any]] | None = None,
    ) -> Manifest:
        return Manifest(
            self.next_number,
            self._pipeline,
            self._form,
            self._owner,
            dt.datetime.now(dt.UTC).isoformat(),
            token,
            files,
            tables or {},
        )

    def _publish(self, manifest: Manifest) -> bool:
        """Make a manifest, whole and durable, if its number is free."""
        scratch = self._directory / f".{numbered(manifest.number)}.{self._owner}"
        path = self._path(manifest.number)
        with scratch.open("wb") as file:
            file.write(manifest.encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(scratch, path)
        except FileNotFoundError:
            return False  # a newer run has removed what we were about to link
        except FileExistsError:
            if path.read_bytes() != manifest.encode():
                return False
            # Ours after all: NFS sends a request again when its reply was lost.
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise no_links(self._root) from error
            raise
        finally:
            scratch.unlink(missing_ok=True)
        sync_directory(self._directory)
        return True

    def _remove_leftovers(self) -> None:
        """What runs before this one have left: files that no manifest lists, and scratch."""
        for place in (self._directory / "staging").iterdir():
            if (number_in(place.name) or 0) < self._number:
                shutil.rmtree(place, ignore_errors=True)
        for scratch in self._directory.glob(".*"):
            if (number_in(scratch.name) or 0) < self._number:
                scratch.unlink(missing_ok=True)

    def _require_same_form(self, last: Manifest) -> None:
        if last.format != self._form:
            raise TargetError(
                f"{self._root} holds {last.format} files of the pipeline {self._pipeline}, "
                f"and {self._form} is asked for",
                remedy="Use another directory for the other format",
                path=str(self._root),
            )

    def _path(self, number: int) -> Path:
        return self._directory / f"{numbered(number)}.json"

    def _progress_path(self, number: int) -> Path:
        return self._directory / f"{numbered(number)}.progress"
