"""`watersmeet replace` of a query on Spark that has stopped: the new one begins where that stands."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from watersmeet.cli.arguments import BAD_INPUT, fail, need_spark, text_of
from watersmeet.cli.savepoint import old_text
from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError, UnsupportedError
from watersmeet.model.time import BEGINNING_US
from watersmeet.model.wording import listed
from watersmeet.runtime.changes import Held, changes, goes_on, told, verdict_of
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import whole_since
from watersmeet.runtime.script import Job


@dataclass(frozen=True)
class Asked:
    """How a query is to be replaced; `compare_us` of event time are compared."""

    script: Path
    only: str | None
    compare_us: int
    if_same: bool


def replace_on_spark(folder: Path, asked: Asked, before: Path | None) -> list[str]:
    """What there is to say. before: the script as it was, unless the checkpoint notes where it lies."""
    need_spark()
    from watersmeet.hosts.spark.checkpoints.place import stopped
    from watersmeet.hosts.spark.checkpoints.savepoints import is_checkpoint, scripts_of

    if not any(is_checkpoint(one) for one in (folder, *folder.glob("*/"))):
        fail(f"{folder} is not the checkpoint of a run\nhint: give the folder that --checkpoint named", BAD_INPUT)
    with stopped(folder):
        old = _jobs(old_text(before, scripts_of(folder)))
        known, new = {job.name: job for job in old}, {job.name: job for job in _jobs(text_of(asked.script))}
        if asked.only is not None and asked.only not in new:
            raise RunError(f"{asked.script} has no query {asked.only!r}", hint=f"it has {listed(list(new))}")
        if asked.only is not None and asked.only not in known:
            raise RunError(f"no query {asked.only!r} was running", hint=f"those that were are {listed(list(known))}")
        both = [(known[name], job) for name, job in new.items() if name in known and asked.only in (None, name)]
        changed = [(was, now) for was, now in both if Held.of(was.plan) != Held.of(now.plan)]
        if not changed:
            return [f"no query of {asked.script} differs from the one that ran under its name: nothing has changed"]
        words = [line for was, now in changed for line in _replaced(folder, old, was, now, asked)]
    return [*words, f"the next start is with {asked.script}"]


def _jobs(text: str) -> list[Job]:
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.script import read_script

    return [job for job in read_script(text, explain=True, opener=open_to_go_on) if job.explaining is None]


def _replaced(folder: Path, old: Sequence[Job], was: Job, now: Job, asked: Asked) -> list[str]:
    from watersmeet.hosts.local.durable.replacing import Compared, Replaced, check_alike
    from watersmeet.hosts.local.replaying import NOT_COMPARED, replayed
    from watersmeet.hosts.spark.checkpoints.beginning import beginning_with
    from watersmeet.hosts.spark.checkpoints.replacing import SAVEPOINT, home_of, take_place
    from watersmeet.hosts.spark.checkpoints.savepoints import checkpoint_of, newest_batch, read_stand
    from watersmeet.hosts.spark.writing.begun import check_in_one_stage
    from watersmeet.runtime.savepoints.folder import Savepoint, writing_savepoint

    name = now.name
    check_alike(name, was.plan, now.plan)
    check_in_one_stage(now)
    places = {job.name: checkpoint_of(folder, job.name, alone=len(old) == 1) for job in old}
    place = places[name]
    stands = read_stand(place, was.plan, name, [job.plan for job in old if places[job.name] == place])
    if now.plan.kind == "changes":
        raise UnsupportedError(
            f"the answer of {name} changes, and what is in its sink would have to become what the new query says, "
            "which is done in-process only",
            hint="go on with it there (docs/savepoints.md) and replace it; or begin the new query beside it, with a "
            "checkpoint and a sink of its own",
        )
    _check_sink(now, stands.contents)
    seen: Compared = NOT_COMPARED
    contents = stands.contents
    if asked.if_same or not _can_go_on(now, contents):
        contents, seen = replayed(
            name, now.plan, was.plan, contents, is_answered=stands.is_answered, compare_us=asked.compare_us
        )
    if asked.if_same and not (seen.columns and seen.is_same):
        raise RunError(
            f"{name} is what it was, as {'the new query gave other answers' if seen.columns else 'nothing shows'}"
            f"{'; ' if seen.columns else ' that the new one gives the same: '}{seen.words()}",
            hint="leave out --if-same, if it is meant to give others",
        )
    home = home_of(place, name)
    shutil.rmtree(home / SAVEPOINT, ignore_errors=True)  # of one that was killed before it had the place
    with writing_savepoint(home / SAVEPOINT) as written:
        written.add(name, contents)
    beginning = beginning_with(Savepoint(home / SAVEPOINT), name, contents, now.plan, stands.buckets)
    if newest_batch(place) != stands.contents.batch:
        raise RunError(f"{name} went on meanwhile, so that nothing has changed", hint="stop its run first")
    take_place(place, name, beginning, str(asked.script))
    return Replaced(name, stands.contents.batch, stands.contents.moment.watermark_us, seen).words()


def _can_go_on(now: Job, contents: QueryContents) -> bool:
    """Whether the new query is whole at once with what the one before has kept."""
    found = [] if contents.held is None else changes(contents.held, now.plan)
    if verdict_of(found) == "refused":
        raise RunError(
            f"the new {now.name} cannot take the place of the one before:\n{told(found)}",
            hint="begin it beside the other one, with a checkpoint and a sink of its own",
        )
    return bool(found) and goes_on(found) and whole_since(contents, now.plan)[0] <= BEGINNING_US


def _check_sink(now: Job, contents: QueryContents) -> None:
    from watersmeet.hosts.spark.writing.begun import check_sinks

    try:
        check_sinks(now, contents)
    except RunError as error:
        raise RunError(
            f"{now.name}: the run before was killed in the middle of a batch, of which the sink has answers already",
            hint="start the script as it was once more, --available-now, so that the batch ends; then replace again",
        ) from error
