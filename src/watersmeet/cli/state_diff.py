"""`watersmeet state diff`: what a script has changed of the queries whose state lies in a checkpoint or a savepoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.local.durable.change_note import noted_in
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.succession import succession_in
from watersmeet.io.filesystems import is_in_store
from watersmeet.plan.identity import identity_of
from watersmeet.runtime.changes import Change, Held, changes, from_notes, options_of, verdict_of
from watersmeet.runtime.checkpoints import CheckpointNotes, folder_name
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.savepoints.folder import MANIFEST, Savepoint
from watersmeet.runtime.script import Job, read_script

Kind = Literal["in-process", "savepoint", "Spark"]
_ALONE = ""  # the name of a query that a checkpoint has for itself
_ELSEWHERE: Mapping[Kind, str] = {
    "savepoint": "a savepoint is what one query knows: replace it where it runs, in-process, and take a savepoint then",
}
_BY_REPLACING = "on Spark by watersmeet replace"
_BY_EITHER = "on Spark by watersmeet replace, or by a savepoint: watersmeet savepoint, then run --from"
_CHANGING = "on Spark no changing answer takes the place of another: begin the changed one with a checkpoint of its own"


@dataclass(frozen=True)
class Compared:
    """What becomes of a query with a script. `known`: whether what it asked is noted."""

    query: str
    verdict: str
    meaning: str
    changes: Sequence[Change] = ()

    def lines(self) -> list[str]:
        head = f"{self.query}: {self.verdict}{f' ({self.meaning})' if self.meaning else ''}"
        return [head, *(f"  {one}\n    {one.verdict}: {one.meaning}" for one in self.changes)]

    def as_dict(self) -> dict[str, Any]:
        changed = [one.as_dict() for one in self.changes]
        return {"query": self.query, "verdict": self.verdict, "meaning": self.meaning, "changes": changed}


def compared(place: str, text: str) -> list[Compared]:
    jobs = [job for job in read_script(text, explain=True, opener=open_to_go_on, pushed=True) if job.explaining is None]
    held, kind = _held_in(place)
    if len(held) == 1 and len(jobs) == 1:  # one query, under any name
        return [_of(jobs[0], next(iter(held.values())), kind)]
    names = {_known_as(job, held): job for job in jobs}
    found = [
        _of(job, held[name], kind)
        if name in held
        else Compared(job.name, "new", "it begins with what others keep, or reads its streams from their beginning")
        for name, job in names.items()
    ]
    gone = "it is left there" if kind == "savepoint" else "its state is let go of with the next start"
    return found + [Compared(name or "the query that was alone", "dropped", gone) for name in held if name not in names]


def _known_as(job: Job, held: Mapping[str, Held | None]) -> str:
    alone = held.get(_ALONE)
    if alone is not None and alone.asked == identity_of(job.plan):
        return _ALONE
    if job.name in held or folder_name(job.name) not in held:
        return job.name
    return folder_name(job.name)


def _of(job: Job, held: Held | None, kind: Kind) -> Compared:
    if held is None:
        return Compared(job.name, "unknown", "what it asked was not noted by the version of watersmeet that wrote this")
    if kind == "Spark":  # which says which of them may change itself
        held = replace(held, options=options_of(job.plan))
    found = [_where_it_is(one, kind, job.plan.kind) for one in changes(held, job.plan)]
    return Compared(job.name, verdict_of(found) if found else "the same", "", found)


def _where_it_is(change: Change, kind: Kind, gives: str) -> Change:
    if change.verdict == "replace" and kind in _ELSEWHERE:
        return replace(change, verdict="refused", meaning=_ELSEWHERE[kind])
    if change.verdict != "refused" and kind == "Spark":
        if gives == "changes":
            return replace(change, verdict="refused", meaning=_CHANGING)
        how = _BY_EITHER if change.verdict == "goes on" else _BY_REPLACING
        return replace(change, verdict="replace", meaning=f"{change.meaning}; {how}")
    return change


def _held_in(place: str) -> tuple[dict[str, Held | None], Kind]:
    folder = Path(place).expanduser()
    if is_in_store(place) or (folder / MANIFEST).is_file():
        return Savepoint(place).held(), "savepoint"
    in_process = _held_in_process(folder)
    if in_process:
        return in_process, "in-process"
    return _held_on_spark(folder), "Spark"


def _held_in_process(folder: Path) -> dict[str, Held | None]:
    found: dict[str, Held | None] = {}
    for one in (*folder.glob(FILE), *sorted(folder.glob(f"*/{FILE}"))):
        succession = succession_in(RunNotes(Place(one.parent)))
        if succession is not None and succession.at is None:  # it has not the place
            continue
        name = _ALONE if one.parent == folder else one.parent.name
        found[name if succession is None else succession.stands_for] = from_notes(noted_in(Place(one.parent)))
    return found


def _held_on_spark(folder: Path) -> dict[str, Held | None]:
    from watersmeet.hosts.spark.checkpoints.place import SparkPlace
    from watersmeet.hosts.spark.checkpoints.savepoints import is_checkpoint
    from watersmeet.hosts.spark.paths import NOTES

    found: dict[str, Held | None] = {}
    for one in (folder, *sorted(folder.glob("*/"))):
        if not is_checkpoint(one):
            continue
        notes = CheckpointNotes(SparkPlace(None, str(one), is_here=True), NOTES)
        together = notes.get("together")
        owners = {_ALONE if one == folder else one.name: notes.get("owner")}
        if together is not None:
            owners = {name: member["owner"] for name, member in together["queries"].items()}
        for name, owner in owners.items():
            found[name] = from_notes(owner) if owner and owner.get("asked") else None
    if not found:
        raise SetupError(
            f"{folder} is neither the checkpoint of a run nor a savepoint", hint="give the folder that was named there"
        )
    return found
