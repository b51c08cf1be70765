"""Who may commit, what a commit is, and what happens to everything else."""

from __future__ import annotations

import errno
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.errors import TargetError, TargetFencedError, TargetUnavailableError
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.files import FilesConfig, commits, reveal
from pgsluice.sinks.files.sink import FilesSink
from pgsluice.testing.batches import Changes, LocalBatch, LocalStep, table
from tests.sinks.files.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ITEMS = table("public.items", {"id": "int8", "name": "text"}, key=["id"])


def opened(root: Path) -> tuple[FilesSink, str | None]:
    """A run that has opened the feed."""
    sink = FilesSink(root)
    return sink, sink.open(SinkContext("shop", root))


def row(number: int) -> Changes:
    """One transaction with one row."""
    changes = Changes()
    changes.insert(ITEMS, str(number), "x")
    return changes


class Meanwhile:
    """A first batch of two steps, between which something happens."""

    start, end = None, "one"

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    @property
    def steps(self) -> Iterator[LocalStep]:
        """The steps, as they come."""
        yield row(1).step()
        self._happens()
        yield row(2).step()


def everything(root: Path) -> dict[str, bytes]:
    """Every file below the feed."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def keys(root: Path) -> list[str | None]:
    """The keys that a reader finds."""
    return sorted(found[0] or "" for found in Feed(root).tables().get("public.items", []))


def test_a_run_that_was_fenced_changes_nothing(tmp_path: Path) -> None:
    """Neither rows nor progress nor another file: the feed is what the newer run made of it, byte by byte."""
    root = tmp_path / "feed"
    old, _ = opened(root)
    old.apply(row(1).batch(start=None, end="one"))
    new, token = opened(root)
    assert token == "one"
    before = everything(root)
    for batch in (row(2).batch(start="one", end="two"), LocalBatch("one", "two")):
        with pytest.raises(TargetFencedError):
            old.apply(batch)
        assert everything(root) == before
    old.close()
    assert everything(root) == before
    new.apply(row(3).batch(start="one", end="three"))
    assert keys(root) == ["1", "3"]


def test_fenced_while_it_writes(tmp_path: Path) -> None:
    """A newer run opens the feed between the files and the manifest: the files never count."""
    root = tmp_path / "feed"
    old, _ = opened(root)

    newer: list[tuple[FilesSink, str | None]] = []
    with pytest.raises(TargetFencedError):
        old.apply(Meanwhile(lambda: newer.append(opened(root))))
    [(new, token)] = newer
    assert token is None
    assert keys(root) == []
    new.apply(row(3).batch(start=None, end="one"))
    assert keys(root) == ["3"]


def test_many_openers_at_once(tmp_path: Path) -> None:
    """Each gets a number of its own, and only the last one can commit."""
    root = tmp_path / "feed"
    sinks: list[FilesSink] = []

    def open_one() -> None:
        sinks.append(opened(root)[0])

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sinks) == 8
    done = []
    for sink in sinks:
        try:
            sink.apply(row(1).batch(start=None, end="one"))
            done.append(sink)
        except TargetFencedError:
            pass
    assert len(done) == 1
    assert [manifest["number"] for manifest in Feed(root).manifests] == list(range(1, 10))
    assert keys(root) == ["1"]


def test_a_commit_whose_success_nobody_was_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is there, but the call failed: the next try finds it, and no row comes twice."""
    root = tmp_path / "feed"
    sink, _ = opened(root)
    real, failed = os.link, []

    def link_and_fail(*names: Any) -> None:
        real(*names)
        failed.append(names)
        raise OSError(errno.EIO, "input/output error")

    batch = row(1).batch(start=None, end="one")
    with monkeypatch.context() as patched:
        patched.setattr(commits.os, "link", link_and_fail)
        with pytest.raises(TargetUnavailableError):
            sink.apply(batch)
    assert len(failed) == 1
    sink.apply(batch)
    assert keys(root) == ["1"]
    sink.apply(row(2).batch(start="one", end="two"))
    assert keys(root) == ["1", "2"]


def test_a_link_that_is_said_to_exist_although_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS when a reply was lost: the request is sent again, and fails."""
    real, calls = os.link, []

    def link_twice(*names: Any) -> None:
        calls.append(names)
        real(*names)
        real(*names)

    monkeypatch.setattr(commits.os, "link", link_twice)
    sink, _ = opened(tmp_path)
    sink.apply(row(1).batch(start=None, end="one"))
    assert len(calls) == 2
    assert keys(tmp_path) == ["1"]


@pytest.mark.parametrize("by", ["the same run", "the next run"])
def test_files_that_did_not_get_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """The renames of a commit broke off: the next try, or the next run, goes on with them."""
    root = tmp_path / "feed"
    sink, _ = opened(root)
    other = table("public.other", {"id": "int8"}, key=["id"], version=2)
    changes = row(1)
    changes.insert(other, "5")
    calls = []

    def full(name: str) -> None:
        calls.append(name)
        raise OSError(errno.ENOSPC, "no space")

    batch = changes.batch(start=None, end="one")
    with monkeypatch.context() as patched:
        patched.setattr(reveal, "failpoint", full)
        with pytest.raises(TargetUnavailableError, match="no space left"):
            sink.apply(batch)
    assert calls == ["files.revealing"]
    assert len(list(root.glob("public.*/*.parquet"))) == 1, "one of two has its name"
    if by == "the next run":
        sink.close()
        sink, token = opened(root)
        assert token == "one"
    else:
        sink.apply(batch)
    assert Feed(root).tables() == {"public.items": [("1", "x")], "public.other": [("5",)]}
    sink.apply(row(2).batch(start="one", end="two"))
    assert keys(root) == ["1", "2"]


def test_batches_without_rows_add_no_files(tmp_path: Path) -> None:
    """An idle pipeline's progress moves in one small file; so does that of batches of messages for nobody."""
    root = tmp_path / "feed"
    sink, token = opened(root)
    for number in range(50):
        sink.apply(LocalBatch(token, f"idle {number}"))
        token = f"idle {number}"
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == [
        "0000000001.json", "0000000001.progress",
    ]  # fmt: skip
    sink.close()
    sink, token = opened(root)
    assert token == "idle 49"
    sink.apply(row(1).batch(start=token, end="one"))
    sink.apply(LocalBatch("one", "two"))
    sink.close()
    assert opened(root)[1] == Feed(root).token("shop") == "two"
    assert keys(root) == ["1"]


def test_leftovers_go(tmp_path: Path) -> None:
    """What a killed run has written and not committed is removed by the next one, and nothing else is."""
    root = tmp_path / "feed"
    sink, _ = opened(root)
    sink.apply(row(1).batch(start=None, end="one"))
    of_ours = [
        root / "_manifest/shop/staging/0000000001/left.tmp",
        root / "_manifest/shop/.0000000002.abc",
        root / "_manifest/shop/.0000000001.progress.77",
    ]
    of_others = [root / "_manifest/mail/staging/0000000001/theirs.tmp", root / "public.items/notes.txt"]
    for path in (*of_ours, *of_others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    again, token = opened(root)
    assert token == "one"
    assert [path.exists() for path in of_ours] == [False] * 3
    assert [path.exists() for path in of_others] == [True] * 2
    assert keys(root) == ["1"]
    again.close()


def test_attempts_that_failed_leave_nothing(tmp_path: Path) -> None:
    """The files of an attempt are gone when the next one has committed."""
    root = tmp_path / "feed"
    sink, _ = opened(root)

    def break_off() -> None:
        raise TargetUnavailableError("broke")

    for _ in range(3):
        with pytest.raises(TargetUnavailableError):
            sink.apply(Meanwhile(break_off))
    assert len(list(root.rglob("*.tmp"))) == 1
    sink.apply(row(2).batch(start=None, end="one"))
    assert list(root.rglob("*.tmp")) == []
    assert keys(root) == ["2"]


def test_another_format(tmp_path: Path) -> None:
    """A feed keeps its format: files of two kinds in one directory could be read by nobody."""
    opened(tmp_path)[0].close()
    sink = FilesSink(FilesConfig(path=tmp_path, format="jsonl"))
    with pytest.raises(TargetError, match=r"holds parquet files .* jsonl is asked for"):
        sink.open(SinkContext("shop", tmp_path))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is damaged"),
        ('{"manifest": 1}', "is damaged"),
        ('{"manifest": 99, "more": 1}', "newer pgsluice .format 99, this one knows 1"),
    ],
)
def test_a_manifest_that_can_not_be_read(tmp_path: Path, content: str, says: str) -> None:
    """It stops the run, with its path and what to do."""
    opened(tmp_path)[0].close()
    (tmp_path / "_manifest/shop/0000000002.json").write_text(content)
    with pytest.raises(TargetError, match=f"0000000002.json .*{says}") as caught:
        opened(tmp_path)
    assert caught.value.remedy


def test_a_manifest_names_positions_and_columns(tmp_path: Path) -> None:
    """What a program needs to read files: where they are, which rows, and of what form."""
    sink, _ = opened(tmp_path)
    changes = row(1)
    changes.insert(ITEMS, "2", None)
    sink.apply(changes.batch(start=None, end="one"))
    found = Feed(tmp_path).manifests[-1]
    [file] = found["files"]
    assert [found[key] for key in ("number", "pipeline", "format", "token")] == [2, "shop", "parquet", "one"]
    assert file["path"] == "public.items/shop-0000000002-00000-v1.parquet"
    assert (file["rows"], file["bytes"]) == (2, (tmp_path / file["path"]).stat().st_size)
    assert (file["first"], file["last"]) == ({"lsn": "0/100", "seq": 1}, {"lsn": "0/100", "seq": 2})
    assert found["tables"] == {
        "1": {
            "schema": "public",
            "table": "items",
            "id": "16001",
            "identity": "d",
            "columns": [
                {"name": "id", "id": "", "type": "bigint", "in_identity": True},
                {"name": "name", "id": "", "type": "text", "in_identity": False},
            ],
        }
    }


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.ENOSPC, TargetUnavailableError, "no space left"),
        (errno.EROFS, TargetError, "permission denied or read-only"),
        (errno.EIO, TargetUnavailableError, "can't be written"),
    ],
)
def test_errors_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[TargetError], says: str
) -> None:
    """What may get better is tried again; nothing of the batch is there until it does."""
    sink, _ = opened(tmp_path)

    def broken(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(TargetError, match=says) as caught:
            sink.apply(row(1).batch(start=None, end="one"))
    assert type(caught.value) is kind
    assert keys(tmp_path) == []
    sink.apply(row(1).batch(start=None, end="one"))
    assert keys(tmp_path) == ["1"]


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    """It is said so."""
    (tmp_path / "feed").write_text("mine")
    with pytest.raises(TargetError, match="it is no directory"):
        opened(tmp_path / "feed")


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could keep a second writer out there, so it is refused."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(commits.os, "link", refuse)
    with pytest.raises(TargetError, match="has no hard links"):
        opened(tmp_path)


def test_a_staging_directory_that_was_removed(tmp_path: Path) -> None:
    """Somebody tidied up too much: the run stops and says so, and the next one goes on."""
    sink, _ = opened(tmp_path)
    (tmp_path / "_manifest/shop/staging/0000000001").rmdir()
    with pytest.raises(TargetError, match="a part of it was removed"):
        sink.apply(row(1).batch(start=None, end="one"))
    sink, _ = opened(tmp_path)
    sink.apply(row(1).batch(start=None, end="one"))
    assert keys(tmp_path) == ["1"]


def test_progress_is_json(tmp_path: Path) -> None:
    """The token beside a manifest can be read by a program."""
    sink, _ = opened(tmp_path)
    sink.apply(LocalBatch(None, "one"))
    assert json.loads((tmp_path / "_manifest/shop/0000000001.progress").read_text()) == {"token": "one"}
