"""What a checkpoint occupies on this machine, by query and by what its files are for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.model.wording import aligned, counted, in_bytes, listed

STATE, JOURNAL, LOGS, NOTES, LEFT = "state", "journal", "logs", "notes", "left behind"


@dataclass(frozen=True)
class Part:
    """Files that are for one thing. `what`: one of the words above, or of a host."""

    what: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Occupied:
    """A folder of a checkpoint. `queries`: whose it is; several, where they share one."""

    place: str
    host: str
    queries: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    def lines(self) -> list[str]:
        of = f", {listed(self.queries)}" if self.queries else ""
        cells = [[f"  {one.what}", counted(one.files, "file"), in_bytes(one.bytes)] for one in self.parts]
        return [f"{self.place}{of}: {in_bytes(self.bytes)}, of a run {self.host}", *aligned(cells, left=1)]

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "bytes": self.bytes}


def sorted_by(sizes: Mapping[Path, int], what: Callable[[Path], str], order: Iterable[str]) -> tuple[Part, ...]:
    """Files with their sizes, by what they are for, in an order."""
    found: dict[str, list[int]] = {name: [] for name in order}
    for path, size in sizes.items():
        found[what(path)].append(size)
    return tuple(Part(name, len(some), sum(some)) for name, some in found.items() if some)


def sizes_below(folder: Path, *, but: Sequence[Path] = ()) -> dict[Path, int]:
    """The bytes that each file of a folder occupies, `but` those below some others. A run may go on meanwhile: what is
    gone in between is left out."""
    found = {}
    for path in folder.rglob("*"):
        if any(path.is_relative_to(other) for other in but) or path.is_dir():
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        # What a file occupies, where that is known: the room at the end of a journal has no blocks on some disks.
        found[path] = getattr(status, "st_blocks", 0) * 512 or status.st_size
    return found
