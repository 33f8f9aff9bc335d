"""`watersmeet state …`: what a checkpoint remembers, and what it occupies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from watersmeet.cli.arguments import Script, has_spark, interruptible, masters, need_spark, text_of
from watersmeet.cli.voice import voice
from watersmeet.errors import SetupError
from watersmeet.model.wording import in_bytes
from watersmeet.noticing import phase

if TYPE_CHECKING:
    from watersmeet.hosts.spark.checkpoints.state import State
    from watersmeet.runtime.occupancy import Occupied

SHOW = "show"  # what is meant where a checkpoint is named at once


class WithShow(TyperGroup):
    """Commands of which the one that shows need not be named: `watersmeet state DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_meant = bool(args) and args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx)
        return super().parse_args(ctx, [SHOW, *args] if is_meant else args)


app = typer.Typer(
    name="state",
    cls=WithShow,
    help="Show what a query remembers, from its checkpoint: watersmeet state DIR.",
    no_args_is_help=True,
)
Checkpoint = Annotated[str, typer.Argument(help="The checkpoint folder of a run, on either engine.")]


@app.command(SHOW)
def show(
    checkpoint: Checkpoint,
    rows: Annotated[int, typer.Option(min=0, help="Show so many rows of each stream as well.")] = 0,
    batch: Annotated[int | None, typer.Option(min=0, help="The state after this batch; by default the last.")] = None,
    master: Annotated[str, typer.Option(help="Spark's master.", autocompletion=masters)] = "local[*]",
) -> None:
    """Show what a query remembers; `show` may be left out."""
    with interruptible():
        typer.echo(_state_in_process(checkpoint, batch, rows) or _state_on_spark(checkpoint, batch, rows, master))


@app.command()
def size(
    checkpoint: Checkpoint,
    as_json: Annotated[bool, typer.Option("--json", help="Tell it as JSON.")] = False,
) -> None:
    """Tell what a checkpoint occupies: by query, and by what its files are for."""
    with interruptible(), phase("looking at the checkpoint"):
        found = _occupied(Path(checkpoint).expanduser())
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in found], indent=2))
        return
    for line in (line for one in found for line in one.lines()):
        typer.echo(line)
    if len(found) > 1:
        typer.echo(f"together: {in_bytes(sum(one.bytes for one in found))}")


@app.command()
def diff(
    place: Annotated[str, typer.Argument(help="The checkpoint folder of a run, on either engine, or a savepoint.")],
    script: Script,
    as_json: Annotated[bool, typer.Option("--json", help="Tell it as JSON.")] = False,
) -> None:
    """Tell what a script has changed of the queries whose state this is, and what becomes of each change."""
    with interruptible(), phase("reading the state"):
        from watersmeet.cli.state_diff import compared

        found = compared(place, text_of(script))
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in found], indent=2))
        return
    for line in (line for one in found for line in one.lines()):
        typer.echo(line)


def _occupied(folder: Path) -> list[Occupied]:
    from watersmeet.hosts.local.durable import occupancy as in_process

    found = list(in_process.occupied(folder))
    if not found and has_spark():
        from watersmeet.hosts.spark.checkpoints import occupancy as on_spark

        found = list(on_spark.occupied(folder))
    if not found:
        raise SetupError(
            f"{folder} is not the checkpoint of a run on this machine", hint="give the folder that --checkpoint named"
        )
    return found


def _state_in_process(checkpoint: str, batch: int | None, rows: int) -> str | None:
    """None if it is no checkpoint of a run in-process."""
    from watersmeet.hosts.local.durable.checkpoint_state import described, is_checkpoint

    folder = Path(checkpoint).expanduser()
    if not is_checkpoint(folder):
        return None
    told = described(folder, batch)
    return f"{told}\nrows of a state in-process cannot be shown one by one" if rows else told


def _state_on_spark(checkpoint: str, batch: int | None, rows: int, master: str) -> str:
    need_spark()
    from watersmeet.hosts.spark.checkpoints.state import checkpoints_in

    return "\n".join(_state_of(one, batch, master).describe(rows) for one in checkpoints_in(checkpoint))


def _state_of(checkpoint: str, batch: int | None, master: str) -> State:
    with phase("reading the state"):
        from watersmeet.hosts.spark.checkpoints.state import read_state, read_state_files
        from watersmeet.hosts.spark.checkpoints.state_files import NotReadableError

        try:
            return read_state_files(checkpoint, batch)
        except NotReadableError as why:
            voice().remark(f"Spark must read this state: {why}")
    with phase("starting Spark"):
        from watersmeet.hosts.spark.launching.launch import start_spark

        spark = start_spark(master, tell=voice().remark)
    try:
        with phase("reading the state"):
            return read_state(spark, checkpoint, batch)
    finally:
        spark.stop()
