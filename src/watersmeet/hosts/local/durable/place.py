"""The place of a checkpoint: a folder of this machine. One in a store is a folder, too, with a copy of all that counts
there (`checkpoint_in_store.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from watersmeet.errors import RunError
from watersmeet.io.sealed import BrokenSealError, sealed, unsealed
from watersmeet.io.whole_files import write_whole

FROM_A_COPY = "restore the checkpoint from a copy, or start anew with a new one"


class Place:
    has_copy = False  # whether what is written here is put elsewhere as well, before it counts

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def below(self, name: str) -> Place:
        return Place(self.folder / name)

    def shown(self, name: str = "") -> str:
        """It, or one of its files, for people."""
        return str(self.folder / name)

    # ---- files, by name ---------------------------------------------------------------------------------------------

    def names(self, pattern: str) -> list[str]:
        return sorted(one.name for one in self.folder.glob(pattern))

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        if not (self.folder / name).exists():
            return None
        with self.reading(name):
            return (self.folder / name).read_bytes()

    def write_whole(self, name: str, data: bytes) -> None:
        """Put a file in place of the one of that name; a reader, or a restart, finds the old or the whole new one."""
        with self.writing(name):
            write_whole(self.folder / name, data)
        if not name.startswith("."):  # else it does not count yet
            self.put(name)

    def read_sealed(self, name: str, run: str) -> memoryview:
        """What was written so; one that is damaged or not there is named."""
        with self.reading(name):
            return unsealed(f"{run}/{name}", (self.folder / name).read_bytes())

    def write_sealed(self, name: str, data: bytes, run: str, *, draft: str = "") -> None:
        """With a sum over its bytes, its name and the run: it cannot take the place of another. draft: a name under
        which it is written first, and does not count."""
        self.write_whole(draft or name, sealed(f"{run}/{name}", data))

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    # ---- whoever writes or reads a file in a way of its own ---------------------------------------------------------

    def put(self, name: str) -> None:
        """A file that was written is whole, and counts."""

    def writing(self, name: str = "") -> _Writing:
        """Whatever goes wrong while the checkpoint is written becomes one sentence that names the file."""
        return _Writing(self, name)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Whatever is wrong with a file of the checkpoint becomes one sentence that names it."""
        try:
            yield
        except FileNotFoundError:
            raise self.damaged(name, "it is not there") from None
        except OSError as error:
            raise self.damaged(name, f"it cannot be read: {error.strerror or error}") from None
        except BrokenSealError as error:
            raise self.damaged(name, str(error)) from None

    def damaged(self, name: str, how: str) -> RunError:
        return RunError(f"{self.shown(name)} is damaged: {how}", hint=FROM_A_COPY)

    # ---- who holds it -----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Use it until it is released as often."""

    def release(self) -> None: ...

    def check(self) -> None:
        """Raises if somebody else may hold it by now."""

    def __enter__(self) -> Self:
        self.hold()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.release()


class _Writing:
    """For every batch, where a generator would take twice as many calls."""

    __slots__ = ("_name", "_place")

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise RunError(
                f"the checkpoint cannot be written: {self._place.folder / self._name}: {error.strerror or error}",
                hint="make room or mend the folder, then start again with the same checkpoint: nothing is lost",
            ) from None
