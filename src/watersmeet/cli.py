"""The command line: arguments only. Everything else loads when a command needs it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from watersmeet.errors import CatalogError, SqlError, WatersmeetError

if TYPE_CHECKING:
    from watersmeet.engine.interrupt import Interrupts
    from watersmeet.engine.local import LocalRun
    from watersmeet.engine.script import Job

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="watersmeet",
    help="Continuous queries over sliding windows of data streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Engine(StrEnum):
    local = "local"
    spark = "spark"


Script = Annotated[Path, typer.Argument(help="A file of SQL statements.", exists=True, dir_okay=False, readable=True)]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from watersmeet import __version__

        typer.echo(f"watersmeet {__version__}")
        raise typer.Exit


@app.command()
def run(
    file: Script,
    engine: Annotated[Engine, typer.Option(help="Where the queries run.")] = Engine.local,
    batch_rows: Annotated[int, typer.Option(min=1, help="The most rows taken from an input at once.")] = 1 << 16,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
) -> None:
    """Run every query of a script; a bare SELECT prints to the console."""
    if engine is Engine.spark:
        _fail("the Spark engine is not there yet; use --engine local", BAD_INPUT)
    from watersmeet.engine.interrupt import Interrupts
    from watersmeet.engine.local import LocalRun
    from watersmeet.engine.script import read_script

    jobs = read_script(_text_of(file))
    runs = [LocalRun(job.plan, batch_rows=batch_rows) for job in jobs]
    interrupts = Interrupts(_tell)
    try:
        for job, one in zip(jobs, runs, strict=True):
            _run_one(job, one, interrupts, quiet)
            if interrupts.requested:
                raise typer.Exit(INTERRUPTED)
    except KeyboardInterrupt:
        _fail("aborted; nothing of the query in hand was kept", INTERRUPTED)


def _run_one(job: Job, one: LocalRun, interrupts: Interrupts, quiet: bool) -> None:
    import time

    from watersmeet.engine.progress import NoProgress, describe, progress_on
    from watersmeet.engine.run_job import run_job
    from watersmeet.engine.script import CONSOLE

    # Rows printed on the terminal and a line that changes in place would overwrite each other.
    live = not (job.sink == CONSOLE and sys.stdout.isatty())
    started = time.monotonic()
    with NoProgress() if quiet else progress_on(sys.stderr, live=live) as progress:
        metrics = run_job(job, one, interrupts, progress.update)
    ended = "stopped" if interrupts.requested else "done"
    if interrupts.requested or not quiet:
        _tell(f"{job.name} {ended}: {describe(metrics, time.monotonic() - started)}")


@app.command()
def explain(file: Script) -> None:
    """Show how the queries of a script would run, without running them."""
    from watersmeet.engine.script import read_script
    from watersmeet.session import Query

    jobs = read_script(_text_of(file), open_sources=False)
    for number, job in enumerate(jobs):
        if len(jobs) > 1:
            typer.echo(f"{'' if number == 0 else chr(10)}-- {job.name}")
        typer.echo(Query(job.plan).explain())


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=3_000, help="How many rows to make, over all three streams.")] = 6_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other traffic.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="A folder to keep the data, the script and the answer in.")] = None,
) -> None:
    """Three camera streams, joined before your eyes, and checked."""
    from watersmeet.demo import run_demo

    raise typer.Exit(run_demo(rows, seed, keep))


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{file} cannot be read as text: {error}", BAD_INPUT)


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _fail(text: str, code: int) -> NoReturn:
    _tell(text)
    raise SystemExit(code)


def main() -> None:
    """Run the command line. Exit 0: all went well; 1: a query failed while it ran; 2: bad usage or bad SQL."""
    try:
        app()
    except (SqlError, CatalogError) as error:
        _fail(str(error), BAD_INPUT)
    except WatersmeetError as error:
        _fail(str(error), FAILED)
