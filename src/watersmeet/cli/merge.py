"""`watersmeet merge`: small files of a folder as large ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import BAD_INPUT, fail, interruptible
from watersmeet.errors import OptionError
from watersmeet.model.wording import aligned, counted, in_bytes
from watersmeet.noticing import phase


def merge(
    folders: Annotated[list[str], typer.Argument(metavar="FOLDER...", help="Folders of sinks that write files.")],
    target: Annotated[
        str, typer.Option(metavar="SIZE", help="How large files may become; those of more than half stay.")
    ] = "128 MB",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be merged.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Tell it as JSON.")] = False,
) -> None:
    """Make large files of the small ones that a sink got with every commit, also while runs add to them.

    Readers find the folder as it was or with the large files, in one step. Killed at any moment it is started again.
    """
    from watersmeet.io.connectors.files.merging import check_mergeable, planned
    from watersmeet.io.connectors.files.merging import merge as merged

    size = _bytes(target)
    with interruptible(), phase("merging files"):
        found = {}
        for one in folders:
            folder = Path(one).expanduser().absolute()
            if dry_run:
                check_mergeable(folder)
            found[one] = planned(folder, size) if dry_run else merged(folder, size)
    if as_json:
        told = {
            folder: [{"into": each.into, "files": list(each.parts), "bytes": each.bytes} for each in merges]
            for folder, merges in found.items()
        }
        typer.echo(json.dumps({"merged": not dry_run, "folders": told}, indent=2))
        return
    how = "would become" if dry_run else "became"
    for where, merges in found.items():
        rows = [[each.into, counted(len(each.parts), "file"), in_bytes(each.bytes)] for each in merges]
        for line in aligned(rows, left=1) if rows else ():
            typer.echo(line)
        many = sum(len(each.parts) for each in merges)
        told_of = f"{counted(many, 'file')} {how} {len(merges):,}" if merges else "no small files follow each other"
        typer.echo(f"{where}: {told_of}")


def _bytes(written: str) -> int:
    from watersmeet.plan.memory import Memory

    try:
        size = Memory.parse(written).size
    except OptionError:
        size = None
    if not size:
        fail(f"--target {written} is no size\nhint: write it as '128 MB'", BAD_INPUT)
    return size
