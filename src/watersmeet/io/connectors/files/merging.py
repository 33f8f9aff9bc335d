"""Small files of a folder become large ones, in one step for whoever looks there, while runs add to it.

Beside the folder another is made that holds the large files and, under a second name each, all files that stay; then
both take each other's place in one step, and the one before is removed. No run commits meanwhile, as the locks are held
by which starts own the folder. A large file has the number of its last batch in its name, by which a sink knows what it
has. A mark lies in the new folder from its beginning until the old one is gone: a kill leaves either the folder as it
was, and beside it one with a mark, which is removed; or the new one with its mark, and beside it what is left of the
old.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from time import sleep

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.io.connectors.files.joined_files import join, looks
from watersmeet.io.connectors.files.local_folder import PREFIX, lock_of
from watersmeet.io.connectors.files.names import COMMITTED, NO_HEADER, STARTS, PartName
from watersmeet.io.exchanging import exchange
from watersmeet.io.modes import SPARK_LOG
from watersmeet.io.sealed import sealed_note
from watersmeet.io.whole_files import sync, write_whole
from watersmeet.io.writers import WRITERS, writable

MARK = ".merging.json"
# Who has begun to list the old folder reads it to its end before files in it go.
GRACE_S = 10.0
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True)
class Merge:
    """By paths in the folder: what becomes one file, and that."""

    into: str
    parts: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class _Part:
    path: str
    name: PartName
    size: int


def check_mergeable(folder: Path) -> None:
    """Raises where it is nothing that files can be merged in by us."""
    if not folder.is_dir():
        raise SinkError(f"there is no folder {folder}", hint="name the path of a sink that writes files")
    if (folder / SPARK_LOG).is_dir():
        raise SinkError(
            f"{folder} is written by Spark itself, whose log there names every file, so that none can take their place",
            hint="write it with sink = 'files', format = 'parquet', or to a table of Delta, which can be compacted",
        )
    if (folder / _DELTA_LOG).is_dir():
        raise SinkError(
            f"{folder} is a table of Delta",
            hint="say compact_every = '100' of its sink, or call DeltaTable(…).optimize.compact() of deltalake",
        )
    if (folder / "metadata").is_dir() and not any(True for _ in _parts_in(folder)):
        raise SinkError(
            f"{folder} looks like a table of Iceberg", hint="let its catalog or Spark rewrite its data files"
        )


def planned(folder: Path, target: int) -> list[Merge]:
    """What would be merged: files of one run, format and folder of values that follow each other, up to so many
    bytes."""
    found: list[Merge] = []

    def place(one: _Part) -> tuple[str, str, str]:
        return one.path.rpartition("/")[0], one.name.run, one.name.kind

    every = sorted(_parts_in(folder), key=lambda one: (place(one), one.name.last))
    for (inside, run, kind), parts in groupby(every, key=place):
        has_header = not (folder / f"{NO_HEADER}{run}").exists()
        for own in _together(folder, list(parts), target, has_header=has_header):
            name = PartName(run, own[0].name.first, own[-1].name.last, kind)
            size = sum(one.size for one in own)
            found.append(Merge(f"{inside}/{name}".lstrip("/"), tuple(one.path for one in own), size))
    return found


def _together(folder: Path, parts: Sequence[_Part], target: int, *, has_header: bool) -> Iterator[list[_Part]]:
    own: list[_Part] = []
    looked: object = None
    for one in parts:
        small = one.size <= target // 2
        fits = small and own and sum(each.size for each in own) + one.size <= target
        looks_like = looks(one.name.kind, folder / one.path, has_header=has_header) if small else None
        if own and not (fits and looks_like == looked):
            yield from [own] if len(own) > 1 else []
            own = []
        if small:
            own, looked = [*own, one], looks_like
    yield from [own] if len(own) > 1 else []


def _parts_in(folder: Path) -> Iterator[_Part]:
    """Those that count: of a commit of several files some may be there before it does."""
    upto: dict[str, int] = {}
    for path in _files(folder):
        *inside, base = path.split("/")
        name = PartName.of(base)
        if name is None or name.kind not in WRITERS or any(one.startswith((".", "_")) for one in inside):
            continue
        if inside and name.run not in upto:
            upto[name.run] = _committed(folder, name.run)
        if not inside or name.last <= upto[name.run]:
            yield _Part(path, name, (folder / path).stat().st_size)


def _committed(folder: Path, run: str) -> int:
    """The last batch that counts of a run whose commits are several files."""
    mark = COMMITTED.format(run=run)
    try:
        return int(sealed_note(mark, (folder / mark).read_bytes(), str(folder / mark))["number"])
    except FileNotFoundError:
        return -1 if (folder / f"{STARTS}{run}").is_dir() else sys.maxsize


def merge(folder: Path, target: int) -> list[Merge]:
    """Merge what can be, after what a kill has left of an earlier time was brought to its end."""
    folder = folder.resolve()
    with _alone(folder), writable(folder):
        scratch = folder.with_name(f".{folder.name}.merging")
        _bring_to_its_end(folder, scratch)
        check_mergeable(folder)
        merges = planned(folder, target)
        if merges:
            _replace(folder, scratch, merges)
    return merges


def _replace(folder: Path, scratch: Path, merges: Sequence[Merge]) -> None:
    scratch.mkdir()
    write_whole(scratch / MARK, b"{}")
    try:
        shutil.copystat(folder, scratch)
        for one in merges:
            _write_merged(folder, scratch, one)
        parts = {part for one in merges for part in one.parts}
        _link(folder, scratch, set(_files(folder)) - parts)  # most of them, before anybody has to wait
        with _no_commits(folder):
            known = set(_files(folder))
            _check_there(folder, parts - known)
            _link(folder, scratch, known - parts)
            _unlink(scratch, set(_files(scratch)) - known - {one.into for one in merges} - {MARK})
            write_whole(scratch / MARK, json.dumps({"known": sorted(known)}).encode())
            for path, _, _ in os.walk(scratch):
                sync(path)
            exchange(scratch, folder)
            sync(folder.parent)
            _bring_over(scratch, folder, known)
    except BaseException:
        if (scratch / MARK).exists():  # else it is what was there before, and the next time brings it to its end
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    sleep(GRACE_S)
    _remove_before(folder, scratch)


def _write_merged(folder: Path, scratch: Path, one: Merge) -> None:
    into, kind = scratch / one.into, PartName.of(one.into.rpartition("/")[2])
    assert kind is not None
    into.parent.mkdir(parents=True, exist_ok=True)
    has_header = not (folder / f"{NO_HEADER}{kind.run}").exists()
    try:
        join(kind.kind, [folder / part for part in one.parts], into, has_header=has_header)
    except FileNotFoundError as error:
        raise _taken_away(folder, str(error.filename)) from None


def _check_there(folder: Path, gone: set[str]) -> None:
    """Their rows would come back."""
    if gone:
        raise _taken_away(folder, min(gone))


def _taken_away(folder: Path, path: str) -> SinkError:
    return SinkError(
        f"{path} was taken away from {folder} while files were merged, and nothing was changed", hint="start it again"
    )


def _bring_to_its_end(folder: Path, scratch: Path) -> None:
    """What a kill has left."""
    if not os.path.lexists(scratch):
        (folder / MARK).unlink(missing_ok=True)
    elif (scratch / MARK).exists():
        shutil.rmtree(scratch)
    elif (folder / MARK).exists():
        with _no_commits(folder):
            _bring_over(scratch, folder, set(json.loads((folder / MARK).read_bytes()).get("known", ())))
        _remove_before(folder, scratch)
    else:
        if not all(path.startswith(f".{MARK}.") for path in _files(scratch)):  # of a mark that is not there yet
            raise SinkError(
                f"{scratch} is in the way: files are merged there, and it holds some that were not put there for that",
                hint="remove it, if nobody needs it",
            )
        shutil.rmtree(scratch)


def _bring_over(before: Path, folder: Path, known: set[str]) -> None:
    """Files that came after the others had their second names."""
    for path in set(_files(before)) - known:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            (before / path).replace(folder / path)


def _remove_before(folder: Path, before: Path) -> None:
    shutil.rmtree(before)
    (folder / MARK).unlink(missing_ok=True)
    sync(folder)


def _link(folder: Path, into: Path, paths: set[str]) -> None:
    for path in paths:
        place = into / path
        with suppress(FileNotFoundError):  # taken away meanwhile
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(folder / path, place)
            except FileExistsError:
                continue


def _unlink(folder: Path, paths: set[str]) -> None:
    for path in paths:
        (folder / path).unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[str]:
    for above, _, names in os.walk(folder):
        inside = os.path.relpath(above, folder)
        yield from names if inside == "." else (f"{inside}/{name}" for name in names)


@contextmanager
def _no_commits(folder: Path) -> Iterator[None]:
    """While this lasts no start puts files of a batch in their place."""
    with ExitStack() as held:
        known: set[Path] = set()
        while new := set(folder.glob(f"{PREFIX}*")) - known:
            for path in sorted(new):
                held.enter_context(lock_of(path))
            known |= new
        yield


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time."""
    with suppress(ImportError):
        import fcntl

        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise SinkError(
                f"files are being merged in {folder.parent}", hint="start it again when that has ended"
            ) from None
        try:
            yield
        finally:
            os.close(handle)
        return
    yield
