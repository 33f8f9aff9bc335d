"""The queries that Spark runs as one, as their checkpoint knows them: each has a slot of the state for as long as it is
in the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, Checkpoint, Owner, way_out
from watersmeet.hosts.spark.jobs.ids import balanced_ids, guard_of
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.model.wording import listed

FOLDER = "together-"  # how the folders of such checkpoints begin; a number follows


@dataclass(frozen=True)
class Member:
    """`keys`: of the state, those of its buckets and of its guard. `team`: the slot in which it keeps its rows together
    with others, whose keys are those of all of them, and so are `streams`, in the order of their numbers."""

    slot: int
    keys: tuple[int, ...]
    owner: Owner
    team: int | None = None
    streams: tuple[str, ...] = ()


@dataclass
class Members:
    """`gone` are the keys of those that are not in the script any more, by the batch after which they were not: what
    they kept is let go in the next."""

    checkpoint: Checkpoint
    by_name: dict[str, Member]
    gone: dict[int, list[int]] = field(default_factory=dict)
    dropped: Sequence[str] = ()  # by this start

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Members | None:
        held = checkpoint.notes.get("together")
        if held is None:
            return None
        by_name = {name: _member(**one) for name, one in held["queries"].items()}
        return cls(checkpoint, by_name, {int(batch): keys for batch, keys in held["gone"].items()})

    def note(self) -> None:
        queries = {name: asdict(one) for name, one in self.by_name.items()}
        self.checkpoint.notes.note(together={"queries": queries, "gone": self.gone})

    @property
    def keys_gone(self) -> list[int]:
        return [key for keys in self.gone.values() for key in keys]

    def go_on(self, owners: Mapping[str, tuple[str, Owner]]) -> None:
        """With those of the members that are in a script still, by the names that they have there. One that has become
        another query is refused; what others kept is let go."""
        for name, (_, owner) in owners.items():
            self._check(name, owner)
        newest = self.checkpoint.newest(COMMITS)
        self.gone = {batch: keys for batch, keys in self.gone.items() if batch >= newest}
        self.dropped = [name for name in self.by_name if name not in owners]
        needed = {key for name in owners for key in self.by_name[name].keys}
        theirs = dict.fromkeys(key for name in self.dropped for key in self.by_name[name].keys)
        keys = [key for key in theirs if key not in needed]
        if keys:
            self.gone[newest] = [*self.gone.get(newest, []), *keys]
        self.by_name = {now: self.by_name[name] for name, (now, _) in owners.items()}

    @property
    def teams(self) -> dict[int, list[str]]:
        """Those that keep their rows once, by the slot in which they do."""
        found: dict[int, list[str]] = {}
        for name, one in self.by_name.items():
            if one.team is not None:
                found.setdefault(one.team, []).append(name)
        return found

    def refuse_parts_of_teams(self, left_out: Mapping[str, frozenset[int]]) -> None:
        """What is kept once for several joins has the rows of a batch, or has not. left_out: the batches that are left
        out, by query."""
        for names in self.teams.values():
            numbers = sorted(frozenset[int]().union(*(left_out[name] for name in names)))
            apart = next((n for n in numbers if any(n not in left_out[name] for name in names)), None)
            if apart is not None:
                written = " ".join(f"--skip-batch '{name}:{apart}'" for name in names)
                raise SetupError(
                    f"batch {apart:,} can be left out of {listed(names)} only together, as their rows are kept once",
                    hint=f"write {written}",
                )

    def _check(self, name: str, owner: Owner) -> None:
        held = self.by_name[name].owner
        if held.states != owner.states:
            raise SetupError(
                f"{self.checkpoint.folder}, of {name!r} and others, {owner.differs_from(held)}",
                hint=way_out(held, owner),
            )


def keys_of(job: SparkJob, slot: int) -> tuple[int, ...]:
    """Those of a query in a slot."""
    return (*balanced_ids(job.partitioning.buckets, slot), guard_of(slot))


def buckets_noted(spark: SparkSession, folder: str) -> int | None:
    """Into how many the queries of a checkpoint were cut, where all were alike; None also where none is known."""
    found: set[int] = set()
    below = sorted(Path(folder).glob("*/")) if Checkpoint(spark, folder).place.is_here else []
    for checkpoint in (Checkpoint(spark, str(one)) for one in (folder, *below)):
        members = Members.of(checkpoint)
        owners = [checkpoint.owner] if members is None else [one.owner for one in members.by_name.values()]
        found |= {owner.buckets for owner in owners if owner is not None}
    return found.pop() if len(found) == 1 else None


def _member(slot: int, keys: Sequence[int], owner: Any, team: int | None = None, streams: Sequence[str] = ()) -> Member:
    return Member(slot, tuple(keys), Owner(**owner), team, tuple(streams))
