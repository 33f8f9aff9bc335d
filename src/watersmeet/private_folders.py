"""Folders that nobody but their user can change: for scratch files, and for what is loaded or run from them.

On a shared machine a folder with a guessable name may have been made by somebody else, who then decides what is found
in it. So a folder is used only if it is no link, belongs to this user, is closed to others, and cannot be swapped:
everything above it belongs to this user or to the system and is closed to others as well, or sticky, as /tmp is. The
way down is checked from the top; what was found safe cannot be changed by others while the next step is checked. Files
are then reached through the opened folder, not through its name.

Where users have no numbers (Windows), temporary folders are private to the user already, and nothing is checked.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from watersmeet.errors import UnsafeFolderError
from watersmeet.warning import StateWarning, warn

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# The number of the user root, whom nobody can keep out anyway.
ROOT = 0
# As many as Linux follows in one path.
MOST_LINKS = 40
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class PrivateFolder:
    """A folder that was found private. While it is open, its files are reached whatever happens to its name."""

    def __init__(self, path: Path, handle: int | None, chosen_by: str) -> None:
        self.path = path
        self._handle = handle
        self._chosen_by = chosen_by

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def below(self, name: str) -> PrivateFolder:
        """A private folder in this one, made if it is not there."""
        path = self.path / name
        if self._handle is None:
            return _unchecked(path, self._chosen_by)
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self._handle)
        return _opened(path, name, self._handle, self._chosen_by)

    def write(self, name: str) -> BinaryIO:
        """A new file, which only its user can read; one of that name is replaced. Unbuffered."""
        with suppress(FileNotFoundError):
            self.remove(name)
        # O_EXCL: a file or link that somebody put there in between is an error, not written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        return os.fdopen(os.open(self._at(name), flags | _FILE, 0o600, dir_fd=self._handle), "wb", buffering=0)

    def read(self, name: str) -> BinaryIO:
        """A file of this folder, refused if anybody else could have written it. Unbuffered."""
        path = self.path / name
        if self._handle is None:
            return path.open("rb", buffering=0)
        _check_file(path, os.lstat(name, dir_fd=self._handle))  # a pipe would be waited for when opened
        handle = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._handle)
        try:
            _check_file(path, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return os.fdopen(handle, "rb", buffering=0)

    def replace(self, name: str, target: str) -> None:
        """Give a file another name, in place of the one that has it."""
        os.replace(self._at(name), self._at(target), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self._handle)

    def files(self) -> dict[str, os.stat_result]:
        """The plain files in it, by name."""
        with os.scandir(self.path if self._handle is None else self._handle) as entries:
            found = [(one, one.stat(follow_symlinks=False)) for one in entries]
        return {one.name: status for one, status in found if stat.S_ISREG(status.st_mode)}

    def hold(self, *, alone: bool = False) -> bool:
        """Have `remove_unheld` of other processes leave it alone while it is open here, and note that it is of use;
        False if one of them is removing it, or with `alone` if any holds it."""
        if self._handle is None or fcntl is None:
            return True
        try:
            fcntl.flock(self._handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks, where nothing is removed either
            return True
        with suppress(OSError):  # where nothing can be written
            os.utime(self._handle)
        return os.fstat(self._handle).st_nlink > 0

    def remove_unheld(self, name: str) -> bool:
        """Remove a folder of files in this one, unless a process holds it; whether it was removed. Where there are no
        locks nobody can know, and nothing is removed."""
        if self._handle is None or fcntl is None:
            return False
        try:
            with _opened(self.path / name, name, self._handle, self._chosen_by) as folder:
                assert folder._handle is not None
                fcntl.flock(folder._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for file in folder.files():
                    folder.remove(file)
                os.rmdir(name, dir_fd=self._handle)
        except (OSError, UnsafeFolderError):  # held, or not ours to remove, or another process was faster
            return False
        return True

    def _at(self, name: str) -> str:
        return str(self.path / name) if self._handle is None else name


def private_folder(path: Path, chosen_by: str = "TMPDIR") -> PrivateFolder:
    """Open a folder, making what is missing of it; refuse it unless it is private.

    `chosen_by` is the environment variable with which a user can choose another.
    """
    path = path.absolute()
    if our_id() is None:
        return _unchecked(path, chosen_by)
    parent = _safe_way_to(path.parent, chosen_by)
    path = parent / path.name
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return _opened(path, str(path), None, chosen_by)


def made_private(path: Path) -> Path:
    """The same for those who need a path. Others cannot put another folder in its place."""
    with private_folder(path) as folder:
        return folder.path


def our_id() -> int | None:
    """The number of this user; None where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def cache_folders(environ: Mapping[str, str] = os.environ) -> Iterator[tuple[Path, str]]:
    """Where a user's files may be kept that need not last, and what chooses that: where the system has such, unless
    XDG_CACHE_HOME names another, on any system."""
    from platformdirs import user_cache_path  # which a Python that workers find may lack: that is told by name

    chosen = environ.get("XDG_CACHE_HOME")
    cache = Path(chosen) / "watersmeet" if chosen else user_cache_path("watersmeet", appauthor=False)
    if cache.is_absolute():  # a user without a home has none
        yield cache, "XDG_CACHE_HOME"
    yield named_after_user(Path(tempfile.gettempdir())), "TMPDIR"


def named_after_user(root: Path) -> Path:
    """The folder of this user in one that all users share."""
    number = our_id()
    return root / ("watersmeet" if number is None else f"watersmeet-{number}")


def temporary_root() -> Path:
    """Where temporary files go. Python passes over a TMPDIR that cannot be used, without a word; here there is one."""
    root = tempfile.gettempdir()
    variable = next((name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)
    asked = os.environ[variable] if variable is not None else root
    if variable is not None and os.path.abspath(asked) != root and not os.access(asked, os.W_OK | os.X_OK):
        _tell_of_root(variable, asked, root)
    return Path(root)


@cache
def _tell_of_root(variable: str, asked: str, root: str) -> None:
    why = "cannot be written to" if os.path.isdir(asked) else "is no folder"
    warn(StateWarning("temporary_folder", f"{variable} is {asked!r}, which {why}: temporary files go to {root}"))


def scratch_folder() -> Path:
    """This user's own folder among the temporary ones, found private."""
    return made_private(named_after_user(temporary_root()))


def kept_file(text: str, prefix: str, suffix: str) -> Path:
    """A new file with a text that is to outlive this process."""
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=scratch_folder())
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def _unchecked(path: Path, chosen_by: str) -> PrivateFolder:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return PrivateFolder(path, None, chosen_by)


def _opened(path: Path, name: str, within: int | None, chosen_by: str) -> PrivateFolder:
    _check_folder(path, os.lstat(name, dir_fd=within), chosen_by)
    handle = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=within)
    try:
        status = os.fstat(handle)
        _check_folder(path, status, chosen_by)
        if stat.S_IMODE(status.st_mode) != 0o700:  # ours and never open for writing
            os.fchmod(handle, 0o700)
    except BaseException:
        os.close(handle)
        raise
    return PrivateFolder(path, handle, chosen_by)


def _safe_way_to(folder: Path, chosen_by: str) -> Path:
    """Where a folder really is, made if it is missing; refused if others could put another in its place."""
    here, links = Path(folder.anchor), 0
    trusted = {ROOT, our_id(), owner_of(os.lstat(here))}  # whoever has the root has everything
    ahead = list(folder.parts[1:])
    while ahead:
        step = here / ahead.pop(0)
        if step.name == "..":
            # No link is left in the way so far, so its parent is the real one.
            here = here.parent
            continue
        # Another process of this user may be making the same folder.
        with suppress(FileExistsError):
            if not os.path.lexists(step):
                os.mkdir(step, 0o700)
        status = os.lstat(step)
        _check_step(step, status, trusted, chosen_by)
        if not stat.S_ISLNK(status.st_mode):
            here = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise _refused(f"{folder} leads through too many links", chosen_by)
        target = Path(os.readlink(step))
        here = Path(target.anchor) if target.is_absolute() else here
        # Where a link leads is walked step by step like the rest: its folders are checked too.
        ahead = [*(target.parts[1:] if target.is_absolute() else target.parts), *ahead]
    return here


def _check_step(step: Path, status: os.stat_result, trusted: set[int | None], chosen_by: str) -> None:
    if owner_of(status) not in trusted:
        raise _refused(f"what is in {step} can be replaced by {_name_of(owner_of(status))}, who owns it", chosen_by)
    mode = stat.S_IMODE(status.st_mode)
    # The mode of a link is open to all and means nothing.
    if not stat.S_ISLNK(status.st_mode) and mode & 0o022 and not mode & stat.S_ISVTX:
        raise _refused(f"what is in {step} can be replaced by others (mode {mode:04o}, not sticky)", chosen_by)


def _check_folder(path: Path, status: os.stat_result, chosen_by: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _refused(f"{path} is a link, not a folder", chosen_by)
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(f"{path} is not a folder", chosen_by)
    if owner_of(status) != our_id():
        raise _refused(f"the folder {path} belongs to {_name_of(owner_of(status))}", chosen_by)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        raise _refused(f"others may write to the folder {path} (mode {mode:04o})", chosen_by)


def _check_file(path: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        found = "is not a plain file"
    elif owner_of(status) != our_id():
        found = f"belongs to {_name_of(owner_of(status))}"
    elif mode & 0o022:
        found = f"may be written to by others (mode {mode:04o})"
    elif status.st_nlink != 1:
        found = "has other names"
    else:
        return
    raise UnsafeFolderError(f"the file {path} {found}, so it is not read", hint="remove it")


def owner_of(status: os.stat_result) -> int:
    return status.st_uid


def _name_of(owner: int) -> str:
    try:
        import pwd

        return f"{pwd.getpwuid(owner).pw_name} (user {owner})"
    except (ImportError, KeyError):
        return f"user {owner}"


def _refused(what: str, chosen_by: str) -> UnsafeFolderError:
    hint = f"remove it, or name a folder of your own (mkdir -m 700) in {chosen_by}"
    return UnsafeFolderError(f"{what}, so nothing is kept or looked for there", hint=hint)
