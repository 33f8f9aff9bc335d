"""Where the queries of a script have their checkpoints below one, whichever of them were there before: each keeps its
folder, one that is added gets one, and that of one that was dropped is let go of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.change_note import noted_in
from watersmeet.hosts.local.durable.checkpoint import LOCK, held
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.hosts.local.durable.succession import succession_in
from watersmeet.hosts.local.durable.table_loads import TABLES
from watersmeet.model.wording import counted, listed
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.script import Job, is_nameless

DROPPED = "dropped"  # a file that says of a folder that it is being let go of


class Places:
    """`of_jobs`: where the checkpoint of each job lies, in their order. `are_known`: whether there are checkpoints of
    others or of them already. `dropped`: those of queries that the script has no more. `beside`: the sinks for bad
    records and late rows that any of them has."""

    def __init__(self, place: Place, jobs: Sequence[Job]) -> None:
        self._place = place
        self._refuse_sparks()
        _finish_releases(place)
        _finish_successions(place)
        self._root = _asked_in(place)
        # By the folder that a query would have by its name, also where another one took its place.
        self._lies = {_stands_for(place, folder): folder for folder in _folders(place, FILE)}
        self._below = {name: _asked_in(place.below(folder)) for name, folder in self._lies.items()}
        self.are_known = self._root is not None or bool(self._below)
        known = (_place_of(place, folder) for folder in ["", *self._lies.values()])
        self.beside = {name for one in known for name in RunNotes(one).get("sides", [])}
        folders = self._of_known(jobs) if self.are_known else self._of_new(jobs)
        self.of_jobs = [_place_of(place, self._lies.get(folder, folder)) for folder in folders]
        left = [folder for folder in ["", *self._below] if folder not in folders]
        self.dropped = [
            Dropped(_place_of(place, self._lies.get(folder, folder)), folder or "the query that was alone")
            for folder in left
            if folder or self._root is not None
        ]

    def _refuse_sparks(self) -> None:
        if any(self._place.folder.glob("together-*/metadata")):
            raise RunError(
                f"{self._place.shown()} is the checkpoint of queries on Spark, which no run in-process can go on from",
                hint="give another checkpoint, or go on with this one on Spark",
            )

    def _of_new(self, jobs: Sequence[Job]) -> list[str]:
        """The given one, or one below it for each of several jobs."""
        return [""] if len(jobs) == 1 else query_folders([job.name for job in jobs])

    def _of_known(self, jobs: Sequence[Job]) -> list[str]:
        """Each where it was. Queries without a name of their own are known by what they ask, as their places in the
        script may change; so is one that was alone."""
        if len(jobs) == 1 and not self._below:
            return [""]
        asked = [sum_of(identity_of(job.plan)) for job in jobs]
        found: dict[int, str] = {}
        if self._root in asked:
            found[asked.index(self._root)] = ""
        folders = query_folders([job.name for job in jobs])
        for number, job in enumerate(jobs):
            if number not in found and not is_nameless(job) and folders[number] in self._below:
                found[number] = folders[number]
        for number, job in enumerate(jobs):
            if number not in found and is_nameless(job):
                alike = [name for name, its in self._below.items() if its == asked[number]]
                free = [name for name in [folders[number], *alike] if name in alike and name not in found.values()]
                found |= {number: free[0]} if free else {}
        for number in range(len(jobs)):
            if number not in found and folders[number] in self._below and folders[number] not in found.values():
                found[number] = folders[number]  # which is refused, as it is another query's
        if not found:
            raise self._strangers(jobs)
        taken = {*found.values(), *self._below, *self._lies.values()}
        for number, job in enumerate(jobs):
            if number not in found:
                others = [f"query_{one}" for one in range(1, 2 + len(taken))] if is_nameless(job) else []
                names = [folders[number], *others]
                found[number] = next(name for name in names if name not in taken)
                taken.add(found[number])
        return [found[number] for number in range(len(jobs))]

    def _strangers(self, jobs: Sequence[Job]) -> RunError:
        shown = self._place.shown()
        these = "this is another" if len(jobs) == 1 else f"these are {len(jobs)} others"
        if not self._below:
            return RunError(
                f"{shown} is the checkpoint of one query, and these are {len(jobs)}, none of which it is",
                hint="give another checkpoint",
            )
        return RunError(
            f"{shown} holds the checkpoints of several queries ({listed(sorted(self._below))}), and {these}",
            hint="give another checkpoint; of queries that are there some must stay if others are added or dropped",
        )


def check_all_there(place: Place, jobs: Sequence[Job]) -> None:
    """Refuse queries that have no checkpoint there, before one is made for them."""
    missing = [job.name for job, its in zip(jobs, Places(place, jobs).of_jobs, strict=True) if not its.names(FILE)]
    if missing:
        raise RunError(
            f"{place.shown()} has no checkpoint of {listed(missing)}",
            hint="name the folder that --checkpoint named, and the script that was running: --script FILE.sql",
        )


class Dropped:
    """The checkpoint of a query that the script has no more."""

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name

    def release(self) -> str:
        """Remove it; what was begun is finished by the next start, if this one is killed. Says what was done."""
        reached = Reached(self._place, str(RunNotes(self._place).get("run", "")), has_begun=True)
        lacking = reached.logged - reached.given if reached.is_known else 0
        size = sum((self._place.folder / name).stat().st_size for name in self._place.names("*-*"))
        _release(self._place)
        said = f"{self._name} is no longer in the script, and its state ({size / 1e6:,.1f} MB) was let go of"
        if lacking > 0:
            said += f"; {counted(lacking, 'batch', 'batches')} of before it was killed may lack answers"
        return said


def successor_folder(place: Place, stands_for: str) -> str:
    """That of a query that is to take the place of another."""
    taken = _folders(place, "*")
    return next(name for number in count(2) if (name := f"{stands_for}.{number}") not in taken)


def free_folder(place: Place, job: Job) -> str:
    """That of one more query beside others that run."""
    (folder,) = query_folders([job.name])
    if any(_stands_for(place, one) == folder for one in _folders(place, FILE)):
        raise RunError(
            f"{place.shown(folder)} is the checkpoint of another query of this name", hint="give it another name"
        )
    return folder


def _place_of(place: Place, folder: str) -> Place:
    return place.below(folder) if folder else place


def _release(place: Place) -> None:
    lock = held(place)
    try:
        place.write_whole(DROPPED, b"")
        for inside in (place.below(TABLES), place):
            for name in inside.names("*"):
                if (inside.folder / name).is_file() and name not in (LOCK, DROPPED):
                    inside.remove(name)
        place.remove(DROPPED)
    finally:
        lock.close()
    place.remove(LOCK)
    for folder in (place.folder / TABLES, place.folder):
        with suppress(OSError):  # other checkpoints may lie below
            folder.rmdir()


def _finish_releases(place: Place) -> None:
    """Those in the middle of which a start before was killed."""
    for folder in ["", *_folders(place, DROPPED)]:
        if _place_of(place, folder).names(DROPPED):
            _release(_place_of(place, folder))


def _finish_successions(place: Place) -> None:
    """Whoever has taken the place of another is alone there; who was to take it, when a start before ended, is not."""
    for folder in _folders(place, FILE):
        succession = succession_in(RunNotes(place.below(folder)))
        if succession is None:
            continue
        if succession.at is None:
            _release(place.below(folder))
        elif _place_of(place, succession.folder).names(FILE):
            _release(_place_of(place, succession.folder))


def _stands_for(place: Place, folder: str) -> str:
    succession = succession_in(RunNotes(place.below(folder)))
    return folder if succession is None else succession.stands_for


def _asked_in(place: Place) -> str | None:
    """What the query asks whose checkpoint this is, if it is one."""
    return str(noted_in(place).get("query")) if place.names(FILE) else None


def _folders(place: Place, file: str) -> list[str]:
    return sorted(one.parent.name for one in place.folder.glob(f"*/{file}"))
