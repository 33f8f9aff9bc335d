"""`watersmeet lab …`: arguments only. Everything else loads when a command needs it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.errors import SetupError
from watersmeet.lab.arguments import errors, static

app = typer.Typer(
    name="lab",
    help="The experiments of five papers, run on this engine and judged by its numbers.",
    no_args_is_help=True,
)

FAILED, INTERRUPTED = 1, 130


class Scale(StrEnum):
    small = "small"
    paper = "paper"
    ten = "10x"
    hundred = "100x"


class FileKind(StrEnum):
    parquet = "parquet"
    csv = "csv"
    json = "json"


Results = Annotated[Path, typer.Option(metavar="DIR", help="Where results are kept.", file_okay=False)]


def _experiments(incomplete: str) -> list[str]:
    """For the shell: what the names of experiments may be."""
    from watersmeet.lab import registry

    known = (registry.ALL, *registry.PAPERS, *registry.experiments())
    return [name for name in known if name.startswith(incomplete)]


@app.command("list")
def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID|PAPER]...", show_default=False, autocompletion=_experiments),
    ] = None,
) -> None:
    """Show the experiments: id, scales, what they show."""
    from watersmeet.lab.command import list_experiments

    list_experiments(names or [], typer.echo)


@app.command()
def run(
    names: Annotated[
        list[str], typer.Argument(help="Ids, papers, or `all`.", show_default=False, autocompletion=_experiments)
    ],
    scale: Annotated[
        list[Scale] | None,
        typer.Option(help="How large: `paper` is the paper's own size. May be repeated.", show_default="small"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed draws other streams.", show_default="1")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N,N,…", help="Several seeds, one run with each.")] = None,
    results: Results = Path("results"),
    force: Annotated[bool, typer.Option("--force", help="Measure again what this code has measured before.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if something is not reproduced.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say how long it will take, by earlier runs.")
    ] = False,
) -> None:
    """Run experiments, keep what they measure, and print the verdicts.

    What the same code has measured before is not measured again, so a run that was stopped goes on where it was.
    Exit 1: an experiment broke.
    """
    from watersmeet.lab import registry
    from watersmeet.lab.command import foresee, run_experiments, went_well
    from watersmeet.lab.experiment import SCALES
    from watersmeet.lab.jobs import jobs
    from watersmeet.lab.runner import LabChoices

    scales = [one for one in SCALES if one in (scale or [Scale.small])]
    work = jobs(registry.select(names), scales, _seeds(seed, seeds))
    choices = LabChoices(results, force)
    if estimate:
        foresee(work, choices, typer.echo)
        return
    try:
        outcomes = run_experiments(work, choices, typer.echo, sys.stderr, quiet=quiet)
    except KeyboardInterrupt:
        typer.echo("stopped; what was measured is kept, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if not went_well(outcomes, strict=strict):
        raise typer.Exit(FAILED)


def _seeds(one: int | None, several: str | None) -> list[int]:
    if several is None:
        return [1 if one is None else one]
    parts = [part.strip() for part in several.split(",")]
    if one is not None or not all(part.isdecimal() for part in parts):
        raise SetupError(
            f"--seeds {several} is not a list of seeds" if one is None else "both --seed and --seeds are given",
            hint="write --seed 2, or --seeds 1,2,3",
        )
    return list(dict.fromkeys(map(int, parts)))


@app.command()
def report(
    results: Results = Path("results"),
    docs: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.", file_okay=False)] = Path("docs"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing; exit 1 if what would be shown is stale or was not run.")
    ] = False,
) -> None:
    """Write reproduction.md, reproduction.html and their plots from the results that are kept."""
    from watersmeet.lab.command import all_measured, write

    if not strict:
        write(results, docs, typer.echo)
    elif not all_measured(results, typer.echo):
        raise typer.Exit(FAILED)


@app.command()
def coverage(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|PAPER]...", help="Show these in full.", show_default=False)
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write coverage.md.")] = False,
    results: Results = Path("results"),
    docs: Annotated[Path, typer.Option(metavar="DIR", help="Where it goes.", file_okay=False)] = Path("docs"),
) -> None:
    """Show what of the papers is here: every algorithm, formula, experiment and open end, where and how to reach it.

    Of figures and tables also whether they were run at the paper's setting, and whether the statement held.
    """
    from watersmeet.lab.coverage.command import show_coverage, write_coverage

    if write:
        write_coverage(results, docs, typer.echo)
    else:
        show_coverage(names or [], results, typer.echo)


@app.command()
def workloads(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)] = None,
) -> None:
    """Show the generated streams that queries can read as source 'lab:NAME', and of those named, all details."""
    from watersmeet.lab.command import list_workloads

    list_workloads(names or [], typer.echo)


@app.command()
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A workload; `lab workloads` lists them.")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PARAMETER=VALUE]...", help="As rows=100000 or seed=2.", show_default=False),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder, by default called NAME.", file_okay=False)
    ] = None,
    kind: Annotated[FileKind, typer.Option("--format", help="The format of the files.")] = FileKind.parquet,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
) -> None:
    """Write the streams of a workload to files, one each."""
    from watersmeet.lab.files import write_files

    write_files(name, parameters or [], into or Path(name), kind.value, typer.echo, overwrite=overwrite)


@app.command()
def orders(
    streams: Annotated[
        list[str],
        typer.Argument(metavar="NAME:λ,T,v[,b]...", help="Rate, window, values, buckets.", show_default=False),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Show so many of the cheapest, and the dearest.")] = None,
    equal: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B...", help="Streams that are equal on an attribute of their own; else all on one."),
    ] = None,
    predicate: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B:SHARE,COST", help="Another condition: who passes, and what a test costs."),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(min=0.0, help="Join new rows together, once in so many units of time.")
    ] = None,
) -> None:
    """Rank all orders of a join by GO03's cost model, and show what its rules would choose."""
    from watersmeet.lab.orders import rank_orders

    typer.echo(rank_orders(streams, limit, equal=equal or (), predicates=predicate or (), interval=interval))


@app.command()
def associativity() -> None:
    """Search for the smallest rows on which two trees of the same window joins differ, and show them by form."""
    from watersmeet.lab.associativity import table_of_forms, table_of_stamps

    typer.echo(f"{table_of_stamps()}\n\n{table_of_forms()}")


app.command()(static)
app.command()(errors)
