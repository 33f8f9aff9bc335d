"""What kills have left in the checkpoint of a run in-process. A start removes it too; the state of a query that is not
in the script any more only a start can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.checkpoint import held
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.requests import FILES as REQUESTS
from watersmeet.hosts.local.durable.snapshots import Snapshots
from watersmeet.hosts.local.durable.table_loads import TABLES
from watersmeet.leftovers import Left


@contextmanager
def leftovers(folder: Path) -> Iterator[list[Left]]:
    """While one is inside, no run may begin there. Raises where one is going on."""
    places = [Place(one.parent) for one in (*folder.glob(FILE), *sorted(folder.glob(f"*/{FILE}")))]
    with ExitStack() as holding:
        for place in places:
            holding.enter_context(held(place))
        yield [left for place in places for left in _of(place)] + _requests(folder)


def _of(place: Place) -> Iterator[Left]:
    drafts = {path for pattern in (".snapshot-*", ".*.tmp", f"{TABLES}/.*.tmp") for path in place.folder.glob(pattern)}
    for path in sorted(drafts):
        yield Left(path, "a file that was not written to its end")
    for name in sorted(_unused_blocks(place)):
        yield Left(place.folder / name, "blocks of a state that never counted")


def _unused_blocks(place: Place) -> set[str]:
    """None where a snapshot is damaged: a copy of it may be brought back."""
    snapshots = Snapshots(place, str(RunNotes(place).get("run", "")))
    used = set[str]()
    try:
        for name in snapshots.names():
            used |= {block[0] for block in snapshots.manifest(name)["blocks"].values()}
    except RunError:
        return set()
    return set(place.names("blocks-*")) - used


def _requests(folder: Path) -> list[Left]:
    """Of what a run was asked for that is gone, or by whom is."""
    return [Left(folder / name, "what a run was asked for") for name in REQUESTS if (folder / name).exists()]
