"""Completing an archive: into a table, or into a sink so that it can be interrupted at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from watersmeet.archive.completion import CHUNK_ROWS, Completion, CompletionProgress, Round
from watersmeet.archive.disk import locked
from watersmeet.archive.folder import Archive
from watersmeet.archive.targets import Target
from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.io.sinks import Sink
from watersmeet.plan.query import Plan

Batches = Iterator[pa.RecordBatch]


class Worker(Protocol):
    """Brings the missing combinations of one chunk into a target, in this process or elsewhere; says how many. Names of
    files do not depend on where, so that a chunk may be begun on one host and done again on the other."""

    def chunk(self, completion: Completion, of: Round, chunk: int, target: Target, name: str) -> int: ...


class CompleteInProcess:
    def chunk(self, completion: Completion, of: Round, chunk: int, target: Target, name: str) -> int:
        return sum(
            written(completion.missing(group, of, chunk), target.sink(f"{name}-{group.label}"))
            for group in completion.parts
        )


def written(batches: Batches, sink: Sink) -> int:
    """Write all or nothing; how many rows there were."""
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            sink.write(batch)
        sink.close()
    # Also if interrupted: a chunk that is not whole leaves no file.
    except BaseException:
        sink.abort()
        raise
    return rows


@dataclass(frozen=True)
class CompletionReport:
    """What a completion did: combinations completed now and in earlier rounds, beside those the query gave and, if that
    is known, those it lost. `finished` says whether nothing is left to do."""

    completed: int
    completed_before: int
    given: int
    lost: int | None
    finished: bool
    unfinished_runs: int = 0

    @property
    def total(self) -> int:
        return self.given + self.completed_before + self.completed

    def describe(self) -> str:
        """For the last line of a command.

        >>> print(CompletionReport(30, 0, 70, 30, True).describe())
        30 rows completed; with the 70 given before that is 100, the exact answer
        """
        before = f" and {self.completed_before:,} completed" if self.completed_before else ""
        text = f"{self.completed:,} rows completed; with the {self.given:,} given{before} before that is {self.total:,}"
        if self.unfinished_runs:
            text += f" ({self.unfinished_runs} unfinished runs do not count)"
        if not self.finished:
            return text + ", and not all"
        if self.lost is None:
            return text
        exact = self.given + self.lost
        return text + (", the exact answer" if self.total == exact else f", but the exact answer has {exact:,}")


class Planned(Protocol):
    """What has a plan, such as a Query."""

    @property
    def plan(self) -> Plan: ...


def completion_of(source: str | Path | Planned, *, chunk_rows: int = CHUNK_ROWS) -> Completion:
    """The completion of an archive, or of a query that says where its archive is."""
    if isinstance(source, str | Path):
        return Completion(Archive.open(source), chunk_rows=chunk_rows)
    return Completion(Archive.open(archive_of(source.plan)), source.plan, chunk_rows=chunk_rows)


def archive_of(plan: Plan) -> str:
    shedding = plan.shedding
    if shedding is None or shedding.archive is None:
        raise OptionError(
            "this query has no archive to complete from",
            hint="run it with OPTIONS (memory = '…', archive = 'folder'), or name the archive",
        )
    return shedding.archive


def complete(source: str | Path | Planned, *, chunk_rows: int = CHUNK_ROWS) -> pa.Table:
    """All combinations that are missing from what a query in bounded memory gave, each once.

    source: the folder of its archive, or the query itself.
    chunk_rows: so many archived rows are joined at a time, beside those of the windows before them.

    Nothing is written down: the same archive gives the same rows again. `watersmeet complete` keeps account.
    """
    completion = completion_of(source, chunk_rows=chunk_rows)
    return pa.Table.from_batches(completion.batches(), completion.schema)


class Completing:
    """Completes into a target and keeps account in the archive. Ends early, between two chunks, when asked to."""

    def __init__(self, completion: Completion, target: Target, worker: Worker | None = None) -> None:
        self.completion, self.target, self.worker = completion, target, worker or CompleteInProcess()
        self.on_chunk: Callable[[Round, int], None] | None = None
        self._stopping = False

    def request_stop(self) -> None:
        self._stopping = True

    def run(self, *, again: bool = False) -> CompletionReport:
        """again: begin from the beginning, as if nothing had been completed yet; what is in the target goes."""
        archive = self.completion.archive
        with locked(archive.path):
            if again:
                CompletionProgress.read(archive.path).refuse_again(archive.path)
                # Written at once, so that a completion that is stopped now begins anew as well.
                CompletionProgress().write(archive.path)
            progress = CompletionProgress.read(archive.path)
            # Chunks of a round that is still open count as done before.
            before = progress.completed + (progress.open.completed if progress.open else 0)
            progress = self._rounds(progress)
        now = progress.completed + (progress.open.completed if progress.open else 0)
        given, lost = self.completion.totals()
        return CompletionReport(now - before, before, given, lost, progress.open is None, archive.unfinished())

    def _rounds(self, progress: CompletionProgress) -> CompletionProgress:
        """What an earlier completion left, then what was archived since."""
        while not self._stopping:
            if progress.open is None:
                begun = self.completion.next_round(progress)
                if begun is None:
                    break
                # The first round begins from nothing, so files of an earlier completion are not its own.
                if begun.number == 1:
                    self.target.clear(self._prefix)
                progress = replace(progress, open=begun)
                # Before and after each chunk: one that is cut short is done again, under the same name.
                progress.write(self.completion.archive.path)
            progress = progress.after_chunk(self._chunk(progress))
            progress.write(self.completion.archive.path)
        return progress

    def _chunk(self, progress: CompletionProgress) -> int:
        of = progress.open
        assert of is not None
        if self.on_chunk is not None:
            self.on_chunk(of, of.next_chunk)
        return self.worker.chunk(self.completion, of, of.next_chunk, self.target, self._name(of))

    @property
    def _prefix(self) -> str:
        return f"completed-{self.completion.archive.description.id[:8]}-"

    def _name(self, of: Round) -> str:
        return f"{self._prefix}{of.number:04d}-{of.next_chunk:05d}"
