"""Completion: the combinations that bounded memory lost, from the archive, each exactly once.

Work is cut twice. A *round* takes all that is committed in the archive when it begins, beyond what earlier rounds
took; a round is cut into *chunks* of event time. Both are written down in the archive before and after each chunk, so
an interrupted completion goes on where it was, and a query may go on shedding between two rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset

from watersmeet.archive.description import fingerprint_of
from watersmeet.archive.disk import reading, replace_file
from watersmeet.archive.folder import Archive, RunFolder, by_bucket
from watersmeet.archive.missing import MissingJoin, Stretch
from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.model.catalog import Table
from watersmeet.model.time import FOREVER_US
from watersmeet.model.wording import counted
from watersmeet.operators.keeping.recording import TIME, TURN, recorded_schema
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.query import Plan

CHUNK_ROWS = 1 << 20
PROGRESS = "completion.json"


@dataclass(frozen=True)
class Group:
    """What one bucket of one run recorded: combinations never reach beyond it."""

    run: str
    bucket: int

    @property
    def key(self) -> str:
        return f"{self.run}/{self.bucket}"

    @property
    def label(self) -> str:
        """Part of the names of its files."""
        return f"{self.run[:8]}-{self.bucket:05d}"


@dataclass(frozen=True)
class Round:
    """What is to be completed now: of each group the turns from and to, cut at instants of event time; the next chunk
    to do, and the combinations that earlier chunks gave."""

    number: int
    turns: Mapping[str, tuple[int, int]]
    cuts: tuple[int, ...]
    next_chunk: int = 0
    completed: int = 0

    @property
    def chunks(self) -> int:
        return len(self.cuts)

    def stretch(self, group: Group, chunk: int) -> Stretch | None:
        """What a chunk is of a group, if anything."""
        if group.key not in self.turns:
            return None
        after, to = self.turns[group.key]
        # The last chunk has no end, as rows may lie behind the last cut.
        until_us = self.cuts[chunk + 1] if chunk + 1 < self.chunks else FOREVER_US
        return Stretch(self.cuts[chunk], until_us, after, to)


@dataclass(frozen=True)
class CompletionProgress:
    """`done` is the turn up to which a group is complete; `emptied` are the runs whose records are gone."""

    rounds: int = 0
    completed: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    open: Round | None = None
    emptied: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> CompletionProgress:
        path = folder / PROGRESS
        if not path.exists():
            return cls()
        with reading(folder, path):
            saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if saved["open"] is not None:
            turns = {key: (int(after), int(to)) for key, (after, to) in saved["open"]["turns"].items()}
            saved["open"] = Round(**{**saved["open"], "turns": turns, "cuts": tuple(saved["open"]["cuts"])})
        return cls(**{**saved, "emptied": tuple(saved.get("emptied", ()))})

    def write(self, folder: Path) -> None:
        replace_file(folder / PROGRESS, json.dumps(asdict(self), indent=2))

    def after_chunk(self, completed: int) -> CompletionProgress:
        """One more chunk of the open round is done."""
        assert self.open is not None
        now = replace(self.open, next_chunk=self.open.next_chunk + 1, completed=self.open.completed + completed)
        if now.next_chunk < now.chunks:
            return replace(self, open=now)
        done = {**self.done, **{key: to for key, (_, to) in now.turns.items()}}
        return replace(self, rounds=now.number, completed=self.completed + now.completed, done=done, open=None)

    def refuse_again(self, archive: Path) -> None:
        if self.emptied:
            raise DataError(
                f"the records of {counted(len(self.emptied), 'run')} of the archive {archive} were let go of once they "
                f"were completed, so not all can be completed again",
                hint="what was completed is where `watersmeet complete` has written it",
            )


class Completion:
    """Of one archive. A plan is given to make sure that the archive belongs to it."""

    def __init__(self, archive: Archive, plan: Plan | None = None, *, chunk_rows: int = CHUNK_ROWS) -> None:
        own = archive.description.plan()
        if plan is not None and fingerprint_of(plan) != archive.description.fingerprint:
            raise DataError(
                f"the archive {archive.path} belongs to another query:\n{archive.description.sql.strip()}",
                hint="complete it with that query, or name the archive of this one",
            )
        plain = own.plain_join
        assert plain is not None
        self.archive, self.project, self.join = archive, plain.project, plain.join
        self.schema = own.output_schema
        self.chunk_rows = chunk_rows
        self.strategy = optimize(self.join, own.method)
        # Made only to learn which columns are recorded.
        self.record_schema = recorded_schema(MissingJoin(self.strategy, self.project.columns, Stretch()).recorded)
        self.parts = {
            Group(run.name, bucket): parts for run in archive.runs() for bucket, parts in by_bucket(run.parts()).items()
        }

    # ---- what is missing --------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All combinations that are missing from what the query gave, whether or not they were completed before."""
        CompletionProgress.read(self.archive.path).refuse_again(self.archive.path)
        for chunk, whole in self._all_chunks():
            for group in self.parts:
                yield from self.missing(group, whole, chunk)

    def _all_chunks(self) -> Iterator[tuple[int, Round]]:
        whole = self.next_round(CompletionProgress())
        for chunk in range(0 if whole is None else whole.chunks):
            assert whole is not None
            yield chunk, whole

    def missing(self, group: Group, of: Round, chunk: int) -> Iterator[pa.RecordBatch]:
        """The missing combinations of a group in one chunk of a round."""
        stretch = of.stretch(group, chunk)
        if stretch is None:
            return
        joining = MissingJoin(self.strategy, self.project.columns, stretch)
        self._load_tables(joining, group)
        from_us = min(joining.needed_from_us(alias) for alias in joining.streams)
        yield from joining.complete(self._records(group, from_us, stretch.until_us))

    def _records(self, group: Group, from_us: int, until_us: int) -> pa.Table:
        """Deaths are recorded without a time, and always read."""
        time = pc.field(TIME)
        return self._read(group, filter=((time >= from_us) & (time < until_us)) | time.is_null())

    def _read(self, group: Group, **how: Any) -> pa.Table:
        paths = [str(part.path) for part in self.parts[group]]
        with reading(self.archive.path, Path(paths[0])):
            return pa_dataset.dataset(paths, schema=self.record_schema, format="parquet").to_table(**how)

    def _load_tables(self, joining: MissingJoin, group: Group) -> None:
        for one in self.join.inputs:
            if isinstance(one.relation, Table):
                for batch in self.archive.run_named(group.run).table(one.relation.name).to_batches():
                    joining.load_table(one.alias, batch)

    def is_complete(self, run: RunFolder, progress: CompletionProgress) -> bool:
        """Whether nothing that a run recorded is needed any more, and something of it is there."""
        groups = [group for group in self.parts if group.run == run.name]
        if progress.open is not None or not groups or not run.has_records or run.goes_on:
            return False
        for group in groups:
            turns = self._read(group, columns=[TURN], filter=pc.field(TURN).is_valid())[TURN].to_numpy()
            if int(turns.max(initial=0)) > progress.done.get(group.key, 0):
                return False
        return True

    # ---- and in what portions ---------------------------------------------------------------------------------------

    def next_round(self, progress: CompletionProgress) -> Round | None:
        """What was archived since the last round, if anything."""
        turns: dict[str, tuple[int, int]] = {}
        times: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        first_us = FOREVER_US
        for group in self.parts:
            rows = self._read(group, columns=[TIME, TURN], filter=pc.field(TURN).is_valid())
            came, when = (rows[name].to_numpy().astype(np.int64, copy=False) for name in (TURN, TIME))
            after, to = progress.done.get(group.key, 0), int(came.max(initial=0))
            if to > after:
                turns[group.key] = (after, to)
                # A combination with a new member is not older than the oldest of them.
                first_us = min(first_us, int(when[came > after].min()))
                # Old rows are counted too: a chunk joins them as well.
                times.append(when)
        if not turns:
            return None
        later = np.sort(np.concatenate(times))
        later = later[np.searchsorted(later, first_us) :]
        # A cut falls between two times, never between rows of one.
        cuts = np.unique(np.concatenate([[first_us], later[self.chunk_rows :: self.chunk_rows]]))
        return Round(progress.rounds + 1, turns, tuple(int(cut) for cut in cuts))

    def totals(self) -> tuple[int, int | None]:
        """How many combinations the query gave, and how many it lost, if that is known."""
        totals = [part.totals() for parts in self.parts.values() for part in parts]
        lost = [lost for _, lost in totals]
        return sum(given for given, _ in totals), None if None in lost else sum(one or 0 for one in lost)
