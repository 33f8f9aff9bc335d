"""Answers as files of a folder, each under the numbers of its batches: a number is there once, whatever happens.

A file is written under a hidden name and renamed, so it is there whole or not at all; its name says by which run it was
written, and up to which batch. After a crash the names tell what the sink has. A hidden file beside them says which
start of the run owns the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import NumberedSink, Start
from watersmeet.io.connectors.folder_claim import FolderClaim
from watersmeet.io.sealed import BrokenSealError
from watersmeet.io.sinks import SUFFIXES
from watersmeet.io.writers import WRITERS, writable

NAME = re.compile(r"part-(?P<run>[0-9a-f]+)-(?P<number>\d+)\..+")


class FolderSink(NumberedSink):
    claim: FolderClaim
    may_forget = True  # files may be taken away by those they are for

    def __init__(
        self,
        name: str,
        path: Path,
        kind: str,
        mode: str,
        schema: pa.Schema,
        options: Mapping[str, str],
        run: str,
        start: Start | None = None,
    ) -> None:
        """run: the name of the run. Files of others are left alone, and refused unless `mode` says so."""
        self._path, self._kind, self._schema, self._options, self._run = path, kind, schema, options, run
        self.claim = FolderClaim(name, path, run, start)
        refuse_file(name, path)
        with writable(path):
            path.mkdir(parents=True, exist_ok=True)
            with self.claim.taking_over():
                self._clear_drafts()
                self._committed = self._last()
        strangers = [one for one in self._visible() if self._number_of(one) is None]
        if strangers and self._committed < 0 and mode != "append":
            self._refuse_or_clear(strangers, mode)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        target = self._path / f"part-{self._run}-{number:015d}{SUFFIXES[self._kind]}"
        # Of its own: a start that is refused may write one at the same time.
        draft = target.with_name(f".{target.name}.{uuid4().hex[:8]}.tmp")
        with committed(target):
            write_draft(draft, self._kind, self._schema, self._options, rows)
            with self.claim.committing():
                draft.replace(target)
                sync(self._path)
        self._committed = number

    def _last(self) -> int:
        return max((number for one in self._visible() if (number := self._number_of(one)) is not None), default=-1)

    def _number_of(self, path: Path) -> int | None:
        """The last batch in a file; None if it is of another run, or no file of a run."""
        found = NAME.fullmatch(path.name)
        return int(found["number"]) if found is not None and found["run"] == self._run else None

    def _visible(self) -> list[Path]:
        return [one for one in self._path.iterdir() if not one.name.startswith((".", "_"))]

    def _clear_drafts(self) -> None:
        for one in self._path.glob(f".part-{self._run}-*.tmp"):
            one.unlink(missing_ok=True)

    def _refuse_or_clear(self, strangers: Sequence[Path], mode: str) -> None:
        if mode != "overwrite":
            raise holds_others(self._path, strangers[0])
        odd = [one for one in strangers if not (one.is_file() and NAME.fullmatch(one.name))]
        if odd:
            raise SinkError(
                f"{odd[0]} was not written by a run that goes on, so mode = 'overwrite' does not remove it",
                hint="empty the folder by hand, or choose another path",
            )
        with writable(self._path):
            for one in strangers:
                one.unlink()


@contextmanager
def committed(path: Path) -> Iterator[None]:
    """What goes wrong while a run goes on has lost nothing, and its user should know."""
    try:
        with writable(path):
            yield
    except SinkError as error:
        hint = "mend that, then start again with the same checkpoint: nothing is lost"
        raise SinkError(error.message, hint=error.hint or hint) from None


def refuse_file(name: str, path: Path) -> None:
    if path.is_file():
        raise SinkError(
            f"{path} is a file, but a run that goes on writes a folder of files",
            hint=f"give the sink {name!r} another path, such as '{path.with_suffix('')}'",
        )


def holds_others(folder: Path, stranger: Path) -> SinkError:
    return SinkError(
        f"{folder} already holds {stranger.name}, which another run has written",
        hint="say mode = 'append' to add to it, mode = 'overwrite' to replace it, choose another path, or go "
        "on with the checkpoint it was written with",
    )


def damaged(note: str, error: BrokenSealError) -> SinkError:
    """What a sink has noted of its last commit."""
    return SinkError(
        f"{note} is damaged: {error}",
        hint="restore the folder with its checkpoint from a copy, or start anew with another path and checkpoint",
    )


def write_draft(
    draft: Path, kind: str, schema: pa.Schema, options: Mapping[str, str], rows: Sequence[pa.RecordBatch]
) -> None:
    """Write a file of rows, onto the disk, or none."""
    writer = WRITERS[kind](draft, schema, options, None)
    try:
        for batch in rows:
            writer.write(batch)
        writer.close()
    except BaseException:
        writer.discard()
        draft.unlink(missing_ok=True)
        raise
    sync(draft)


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
