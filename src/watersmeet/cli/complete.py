"""`watersmeet complete`: the archived queries of a script, completed one after the other."""

from __future__ import annotations

import sys
from pathlib import Path

from watersmeet.archive.complete import Completing, Worker, archive_of
from watersmeet.archive.completion import CHUNK_ROWS, Completion, Round
from watersmeet.archive.folder import Archive, follow_checkpoint
from watersmeet.archive.targets import FolderTarget, Target, target_of
from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.time import format_instant
from watersmeet.runtime.declaring import Opener, open_in_process
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.progress import Progress, progress_on
from watersmeet.runtime.script import CONSOLE, Job, read_script


@dataclass(frozen=True)
class Asked:
    """What the command line says; see `Completing` and `folder.follow_checkpoint`."""

    archive: str | None = None
    checkpoint: str | None = None
    into: Path | None = None
    chunk_rows: int = CHUNK_ROWS
    again: bool = False


def complete_script(
    text: str,
    asked: Asked,
    interrupts: Interrupts,
    worker: Worker | None = None,
    opener: Opener = open_in_process,
    *,
    quiet: bool,
) -> None:
    # The inputs are not read again: all that is missing can be made of the archive.
    jobs = read_script(text, open_sources=False, opener=opener)
    for job in _with_archive(jobs, asked):
        path = asked.archive or archive_of(job.plan)
        if asked.checkpoint is not None:
            follow_checkpoint(path, asked.checkpoint)
        completion = Completion(Archive.open(path), job.plan, chunk_rows=asked.chunk_rows)
        _complete(job, Completing(completion, _target(job, asked.into), worker), interrupts, asked.again, quiet)
        if interrupts.requested:
            return


def _with_archive(jobs: list[Job], asked: Asked) -> list[Job]:
    if asked.archive is not None or asked.checkpoint is not None:
        if len(jobs) > 1:
            raise OptionError(
                f"--archive and --checkpoint are of one query, but the script has {len(jobs)}",
                hint="leave them out: every query knows its own archive",
            )
        return jobs
    archived = [job for job in jobs if job.plan.shedding is not None and job.plan.shedding.archive is not None]
    if not archived:
        archive_of(jobs[0].plan)  # which raises, and says how to get one
    return archived


def _target(job: Job, into: Path | None) -> Target:
    schema = job.plan.output_schema
    return target_of(job.name, job.sink, schema) if into is None else FolderTarget(into, "parquet", schema, {})


def _complete(job: Job, completing: Completing, interrupts: Interrupts, again: bool, quiet: bool) -> None:
    # Rows printed on the terminal and a line that changes in place would overwrite each other.
    live = not (job.sink == CONSOLE and sys.stdout.isatty())
    with Progress() if quiet else progress_on(sys.stderr, live=live) as progress:
        completing.on_chunk = lambda of, chunk: progress.show(bar(of, chunk))
        with interrupts.stopping(completing.request_stop):
            report = completing.run(again=again)
    if interrupts.requested or not quiet:
        sys.stderr.write(f"{job.name}: {report.describe()}; in {completing.target.description}\n")


def bar(of: Round, chunk: int, width: int = 20) -> str:
    """How far a round has come.

    >>> bar(Round(1, {}, (0, 1, 2, 3), completed=12345), 1, 8)
    '[##      ] chunk 2 of 4, from 1970-01-01 00:00:00.000001, 12,345 rows completed'
    """
    filled = width * chunk // of.chunks
    return (
        f"[{'#' * filled}{' ' * (width - filled)}] chunk {chunk + 1} of {of.chunks}, "
        f"from {format_instant(of.cuts[chunk])}, {of.completed:,} rows completed"
    )
