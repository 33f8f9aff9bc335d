"""What of an archive nobody needs: runs that were killed, and, if that is asked for, records that were completed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from watersmeet.archive.completion import Completion, CompletionProgress
from watersmeet.archive.disk import locked
from watersmeet.archive.folder import Archive, RunFolder
from watersmeet.leftovers import Left, older
from watersmeet.temporary_folders import remove_left


@contextmanager
def leftovers(folder: Path, older_than_s: float, *, completed: bool) -> Iterator[list[Left]]:
    """While one is inside, nobody completes. completed: also what `watersmeet complete` has worked off."""
    archive = Archive.open(folder)
    with locked(folder):
        drafts = sorted(older(folder.rglob(".*.tmp"), older_than_s))
        found = [Left(path, "a file that was not written to its end") for path in drafts]
        found += [Left(path, "a run that was killed, and does not count", remove_left) for path in archive.killed()]
        yield found + (list(_completed(archive)) if completed else [])


def _completed(archive: Archive) -> Iterator[Left]:
    completion, progress = Completion(archive), CompletionProgress.read(archive.path)
    for run in archive.runs():
        if completion.is_complete(run, progress):
            yield Left(run.path, "records all of which were completed", _emptied)


def _emptied(path: Path) -> bool:
    archive, run = Archive.open(path.parent), RunFolder(path)
    progress = CompletionProgress.read(archive.path)
    # Noted before: from now on nobody begins anew with what is there.
    replace(progress, emptied=tuple(sorted({*progress.emptied, run.name}))).write(archive.path)
    run.empty()
    return True
