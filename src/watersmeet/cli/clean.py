"""`watersmeet clean`: what runs have left behind that nobody needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import BAD_INPUT, fail, has_spark, interruptible
from watersmeet.cli.voice import voice
from watersmeet.errors import RunError, SetupError, SinkError
from watersmeet.leftovers import Left, older
from watersmeet.model.wording import aligned, counted, in_bytes
from watersmeet.noticing import phase

_SOCKET = re.compile(r"python-(\d+)\.socket")


def clean(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Checkpoints, archives and folders of sinks to look at as well.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    completed: Annotated[
        bool, typer.Option("--completed", help="Also records of archives that were completed, if their run is over.")
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="INTERVAL", help="Where nobody can tell whether a file is in use, it must be as old as this."
        ),
    ] = "1 day",
    as_json: Annotated[bool, typer.Option("--json", help="Tell it as JSON.")] = False,
) -> None:
    """Remove what killed runs have left behind on this machine, and in the folders that are named.

    Nothing that a run needs goes, be it going on or started again. Exit 1: a folder is in use, and was left alone.
    """
    age_s = _seconds(older_than)
    with interruptible(), phase("looking for what was left"), ExitStack() as holding:
        found, in_use = list(_of_machine(age_s)), list[str]()
        for folder in folders or ():
            try:
                found += _of_folder(Path(folder).expanduser().absolute(), age_s, completed, holding)
            except (RunError, SinkError) as error:
                in_use.append(error.message)
        told = [(left, left.bytes()) for left in found]
        gone = [(left, size) for left, size in told if dry_run or left.remove()]
    for words in in_use:
        voice().warn(f"left alone: {words}")
    _tell(gone, dry_run=dry_run, as_json=as_json)
    if in_use:
        raise typer.Exit(1)


def _tell(gone: list[tuple[Left, int]], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        listed = [{"path": str(left.path), "what": left.what, "bytes": size} for left, size in gone]
        typer.echo(json.dumps({"removed": not dry_run, "files": listed}, indent=2))
        return
    for line in aligned([[str(left.path), left.what, in_bytes(size)] for left, size in gone], left=2) if gone else ():
        typer.echo(line)
    how = "would be removed" if dry_run else "removed"
    size = in_bytes(sum(size for _, size in gone))
    typer.echo(f"{counted(len(gone), 'leftover')} {how}, {size}" if gone else "nothing was left behind")


def _seconds(written: str) -> float:
    from watersmeet.model.time import interval_us

    try:
        return interval_us(written) / 1e6
    except ValueError:
        fail(f"--older-than {written} is no interval\nhint: write it as '1 day'", BAD_INPUT)


def _of_machine(age_s: float) -> Iterator[Left]:
    from watersmeet.private_folders import named_after_user, temporary_root
    from watersmeet.temporary_folders import left_behind, remove_left

    for path in left_behind():
        yield Left(path, "temporary files of a process that is gone", remove_left)
    own = named_after_user(temporary_root())
    for path in sorted(older(own.glob("failure-*.log"), age_s)):
        yield Left(path, "what Spark said of a failure")
    if has_spark():
        from watersmeet.hosts.spark import memory_folder

        for path in memory_folder.left_behind():
            yield Left(path, "warm state of an executor that is gone")
        for path in sorted(own.glob("python-*.socket")):
            name = _SOCKET.fullmatch(path.name)
            if name is not None and not memory_folder.lives(int(name[1])):
                yield Left(path, "the socket of a process that is gone")


def _of_folder(folder: Path, age_s: float, completed: bool, holding: ExitStack) -> list[Left]:
    """By what it is."""
    from watersmeet.hosts.local.durable import checkpoint_state
    from watersmeet.hosts.local.durable import leftovers as in_process
    from watersmeet.io.connectors.files import leftovers as of_sinks

    if checkpoint_state.is_checkpoint(folder):
        return holding.enter_context(in_process.leftovers(folder))
    if has_spark():
        from watersmeet.hosts.spark.checkpoints import leftovers as on_spark

        if on_spark.is_checkpoint(folder):
            return list(on_spark.leftovers(folder, age_s))
    if of_sinks.is_of_a_sink(folder):
        return list(of_sinks.leftovers(folder, age_s))
    if (folder / "watersmeet.json").is_file():
        from watersmeet.archive import leftovers as of_archives

        return holding.enter_context(of_archives.leftovers(folder, age_s, completed=completed))
    raise SetupError(
        f"{folder} is no checkpoint, archive or folder of a sink on this machine",
        hint="name what --checkpoint, OPTIONS (archive = '…') or the path of a sink names",
    )
