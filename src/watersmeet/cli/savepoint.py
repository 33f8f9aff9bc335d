"""`watersmeet savepoint`: where a run is, so that another goes on from there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import BAD_INPUT, Script, fail, interruptible, text_of
from watersmeet.cli.voice import voice
from watersmeet.noticing import phase

if TYPE_CHECKING:
    from watersmeet.hosts.local.durable.place import Place
    from watersmeet.runtime.script import Job


def savepoint(
    checkpoint: Annotated[
        str, typer.Argument(help="The checkpoint of a run, on either engine: a folder, or an address in a store.")
    ],
    out: Annotated[str, typer.Argument(help="A folder that is not there yet, or an address in a store.")],
    script: Annotated[
        Script | None,
        typer.Option(
            "--script", metavar="FILE", help="The script that was running; by default the file that the run was given."
        ),
    ] = None,
) -> None:
    """Write down where a run is, for `run --from OUT` to go on from: in this process or on Spark, in any number of
    buckets, with another checkpoint. A run that goes on is asked for it after a batch."""
    with interruptible():
        for name, given in (("CHECKPOINT", checkpoint), ("OUT", out)):
            if not given.strip():
                fail(f"{name} names no folder\nhint: name one; is a variable of the shell unset?", BAD_INPUT)
        folder = Path(checkpoint).expanduser()
        with phase("reading the checkpoint"):
            from watersmeet.hosts.local.durable.checkpoint_state import is_checkpoint
            from watersmeet.hosts.local.durable.place import Place
            from watersmeet.hosts.local.durable.requests import SAVEPOINT, ask, is_running
            from watersmeet.io.filesystems import is_in_store

        if is_in_store(checkpoint):
            _in_store(checkpoint, out, script)
        elif is_checkpoint(folder):
            if is_running(folder):
                ask(folder, SAVEPOINT, out=_whole(out))
            else:
                _of_stopped(folder, _jobs_of(Place(folder.absolute()), script), out)
        else:
            _of_spark(folder, out, script, checkpoint)
        voice().remark(f"{out}: a savepoint; watersmeet run FILE.sql --from {out} --checkpoint DIR goes on from it")


def _whole(out: str) -> str:
    return out if "://" in out else str(Path(out).expanduser().absolute())


def old_text(script: Path | None, noted: list[str]) -> str:
    """The script of a run, as it is named, or else as the checkpoint notes it."""
    if script is None and len(noted) == 1 and Path(noted[0]).is_file():
        script = Path(noted[0])
    if script is None:
        was = f", and {noted[0]}, which it was given, is not there" if noted else ""
        fail(
            f"the checkpoint does not have the script of its run{was}\nhint: name it: --script FILE.sql",
            BAD_INPUT,
        )
    return text_of(script)


def _in_store(address: str, out: str, script: Path | None) -> None:
    """No run may hold it."""
    from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
    from watersmeet.hosts.local.durable.checkpoint_state import is_checkpoint

    with place_of(address) as place:
        if not is_checkpoint(place.folder):
            _of_spark(place.folder, out, script, address)
            return
        jobs = _jobs_of(place, script)
    _of_stopped(address, jobs, out)


def _jobs_of(place: Place, script: Path | None) -> list[Job]:
    from watersmeet.hosts.local.durable.places import check_all_there
    from watersmeet.hosts.local.durable.requests import scripts_of
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.script import read_script

    text = old_text(script, scripts_of(place.folder))
    declared = read_script(text, explain=True, opener=open_to_go_on, pushed=True)  # it may have been served
    jobs = [job for job in declared if job.explaining is None]
    check_all_there(place, jobs)
    return jobs


def _of_stopped(checkpoint: Path | str, jobs: Sequence[Job], out: str) -> None:
    from watersmeet.hosts.local.durable.jobs import DurableJobs
    from watersmeet.runtime.run_settings import RunSettings

    settings = RunSettings(checkpoint=checkpoint)
    DurableJobs(jobs, checkpoint, settings, tell=voice().warn, pushed=True, as_it_was=True).recover_only(out)


def _of_spark(folder: Path, out: str, script: Path | None, shown: str) -> None:
    from watersmeet.cli.arguments import need_spark

    need_spark()
    from watersmeet.hosts.spark.checkpoints.savepoints import checkpoint_of, is_checkpoint, read_stand, scripts_of
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.savepoints.folder import writing_savepoint
    from watersmeet.runtime.script import read_script

    if not any(is_checkpoint(one) for one in (folder, *folder.glob("*/"))):
        fail(f"{shown} is not the checkpoint of a run\nhint: give the folder that --checkpoint named", BAD_INPUT)
    text = old_text(script, scripts_of(folder))
    jobs = [job for job in read_script(text, explain=True, opener=open_to_go_on) if job.explaining is None]
    with phase("reading the state"), writing_savepoint(out) as written:
        places = {job.name: checkpoint_of(folder, job.name, alone=len(jobs) == 1) for job in jobs}
        for job in jobs:
            together = [one.plan for one in jobs if places[one.name] == places[job.name]]
            written.add(job.name, read_stand(places[job.name], job.plan, job.name, together).contents)
